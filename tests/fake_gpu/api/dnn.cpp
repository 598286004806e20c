// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn.cpp: the part of cuDNN and MIOpen that plugins use. Refuses the rest.
#include "dnn.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "blas.h"

namespace fake_gpu {
namespace {

template <class T, std::uintptr_t kind>
Objects<T>& dnn_objects(const char* name) {
  static auto* const all = new Objects<T>(name, kind);
  return *all;
}
Objects<DnnTensor>& dnn_tensors() {
  return dnn_objects<DnnTensor, 0x72>("description of a tensor");
}
Objects<DnnConvolution>& dnn_convolutions() {
  return dnn_objects<DnnConvolution, 0x73>("description of a convolution");
}

std::shared_ptr<DnnHandle> dnn_handle(const char* name, void* handle) {
  auto found = dnn_handles().get(handle);
  if (found->device != current_device(name)) {
    refuse_dnn(name, "the handle is of another device than the current context");
  }
  return found;
}

int type_of(const char* name, int type) {
  if (type == FAKE_GPU_NAME(0, 1)) {
    return kF32;
  }
  if (type == FAKE_GPU_NAME(2, 0)) {
    return kF16;
  }
  if (type != FAKE_GPU_NAME(9, 5)) {
    refuse_dnn(name, "type " + std::to_string(type) + " is not modeled");
  }
  return kBF16;
}

// cuDNN gets x and w, w and dy, or x and dy; MIOpen gets them in the reverse order.
template <class T>
std::array<T, 3> in_order(DnnKind kind, T a, T b, T result) {
  if (kHip) {
    std::swap(a, b);
  }
  return kind == DnnKind::kForward ? std::array<T, 3>{a, b, result}
         : kind == DnnKind::kInput ? std::array<T, 3>{result, a, b}
                                   : std::array<T, 3>{a, result, b};
}

DnnCall dnn_call(const char* name, DnnKind kind, void* a, void* b, void* convolution, void* result) {
  DnnCall call;
  call.kind = kind;
  const std::array<void*, 3> all = in_order(kind, a, b, result);
  call.x = *dnn_tensors().get(all[0]);
  call.w = *dnn_tensors().get(all[1]);
  call.y = *dnn_tensors().get(all[2]);
  call.convolution = *dnn_convolutions().get(convolution);
  check_convolution(name, call);
  return call;
}

// Algorithms that plugins may use: one with a workspace and one without. Others may be fast.
constexpr std::uint64_t kWithWorkspace = FAKE_GPU_NAME(1, 107);
constexpr std::uint64_t kWithoutWorkspace = FAKE_GPU_NAME(0, 85);

bool has_workspace(const char* name, DnnKind kind, std::uint64_t algorithm) {
  // Algorithm 0 of cuDNN adds with atomics in gradients.
  if (algorithm != kWithWorkspace &&
      (algorithm != kWithoutWorkspace || (!kHip && kind != DnnKind::kForward))) {
    refuse_dnn(name, "algorithm " + std::to_string(algorithm) + " is not modeled, or its order is not fixed");
  }
  return algorithm == kWithWorkspace;
}

// What the search returns: the fastest ones must not be used.
void put_results(const DnnCall& call, std::size_t wanted, std::size_t* found, void* results) {
#ifdef FAKE_GPU_HIP
  struct Result {
    float time;
    std::uint64_t workspace;
    std::uint64_t algorithm;
    int family;
  };
  // GEMM would round the sum of a 16-bit gradient after each image.
  const bool rounds_sums = call.kind != DnnKind::kForward && call.x.type != kF32;
  const Result all[] = {{1, 0, 53, 3},
                        {2, 0, 60, rounds_sums ? 0 : 2},
                        {3, std::uint64_t{workspace_of(call)}, kWithWorkspace, 5},
                        {4, 0, kWithoutWorkspace, 1}};
#else
  struct Result {
    int algorithm;
    int status;
    float time;
    std::uint64_t workspace;
    int is_fixed_order;
    int math;
    int reserved[3];
  };
  const bool is_forward = call.kind == DnnKind::kForward;
  const int atomics = call.kind == DnnKind::kFilter ? 3 : 0;
  const std::uint64_t size = workspace_of(call);
  const Result all[] = {{is_forward ? 6 : atomics, 0, 1, 0, is_forward ? 1 : 0, 1, {}},
                        {is_forward ? 7 : 5, 0, 2, 0, 1, 1, {}},
                        {1, kDnnNotSupported, -1, 0, 1, 0, {}},
                        {1, 0, 3, size, 1, 3, {}},
                        {0, 0, 4, 0, is_forward ? 1 : 0, 3, {}}};
  static_assert(sizeof(Result) == 48);
#endif
  const std::size_t count = std::min(wanted, std::size(all));
  std::memcpy(results, all, count * sizeof(Result));
#ifdef FAKE_GPU_HIP
  *found = count;
#else
  const int number = static_cast<int>(count);
  std::memcpy(found, &number, sizeof number);  // cuDNN counts in 4 bytes
#endif
}

int find(const char* name, DnnKind kind, void* handle, void* a, void* b, void* convolution, void* result,
         std::size_t wanted, std::size_t* found, void* results) {
  return run(name, [&] {
    refuse_during_capture(name);
    dnn_handle(name, handle);
    put_results(dnn_call(name, kind, a, b, convolution, result), wanted, found, results);
  });
}

int size_workspace(const char* name, DnnKind kind, void* handle, void* a, void* b, void* convolution,
                   void* result, std::uint64_t algorithm, std::size_t* byte_count, bool compiles = false) {
  return run(name, [&] {
    refuse_during_capture(name);
    const auto owner = dnn_handle(name, handle);
    const DnnCall call = dnn_call(name, kind, a, b, convolution, result);
    if (compiles) {
      owner->compiled.insert(number_of(call, algorithm));
    }
    *byte_count = has_workspace(name, kind, algorithm) ? workspace_of(call) : 0;
  });
}

struct DnnData {
  Address a, b, result;
  Address workspace;
  std::size_t workspace_bytes;
  std::uint64_t algorithm;
  bool accumulates = false;
};

int convolve(const char* name, DnnKind kind, void* handle, void* a, void* b, void* convolution, void* result,
             const DnnData& data) {
  return run(name, [&] {
    auto owner = dnn_handle(name, handle);
    const auto stream = streams().get(owner->stream);
    throw_sticky(stream->device);
    DnnCall call = dnn_call(name, kind, a, b, convolution, result);
    call.addresses = in_order(kind, data.a, data.b, data.result);
    call.accumulates = data.accumulates;
    Work work = {.name = "kernel"};
    const DnnTensor* tensors[] = {&call.x, &call.w, &call.y};
    for (std::size_t i = 0; i < 3; ++i) {
      if (call.addresses[i] % 16 != 0) {
        refuse_dnn(name, "an address is not a multiple of 16");
      }
      work.ranges.push_back({call.addresses[i], extent_of(*tensors[i])});
    }
    if (has_workspace(name, kind, data.algorithm)) {
      if (data.workspace % 16 != 0 || data.workspace_bytes < workspace_of(call)) {
        refuse_dnn(name, "the workspace is too small or misaligned");
      }
      call.workspace = data.workspace;
      work.ranges.push_back({call.workspace, workspace_of(call)});
    }
    if (owner->compiled.insert(number_of(call, data.algorithm)).second && (kHip || stream->is_capturing())) {
      refuse_dnn(name, "kernels are compiled or loaded by a launch, or during a capture");
    }
    work.run = [call, used_handle = owner.get()] {
      const std::unique_lock lock(used_handle->running, std::try_to_lock);
      if (!lock.owns_lock()) {
        complain("work with one handle of the library of convolutions runs on two streams at once");
      }
      run_convolution(call);
    };
    work.uses = std::move(owner);
    stream->push(std::move(work));
  });
}

}  // namespace

[[noreturn]] void refuse_dnn(const char* name, const std::string& reason) {
  complain(std::string(name) + ": " + reason);
  throw Error{kDnnBadParam};
}

Objects<DnnHandle>& dnn_handles() {
  return dnn_objects<DnnHandle, 0x71>("handle of the library of convolutions");
}

int fake_dnn_create(void** handle) {
  return run("dnn_create", [&] {
    refuse_during_capture("dnn_create");
    auto made = std::make_shared<DnnHandle>();
    made->device = current_device("dnn_create");
    *handle = dnn_handles().add(std::move(made));
  });
}

int fake_dnn_destroy(void* handle) {
  return run_to_free("dnn_destroy", [&] {
    if (dnn_handles().remove(handle).use_count() > 1) {
      complain("a handle is destroyed while queued work or a graph uses it");
    }
  });
}

int fake_dnn_set_stream(void* handle, void* stream) {
  return run("dnn_set_stream", [&] {
    const auto owner = dnn_handle("dnn_set_stream", handle);
    if (streams().get(stream)->device != owner->device) {
      refuse_dnn("dnn_set_stream", "the stream is of another device");
    }
    owner->stream = stream;
  });
}

int fake_dnn_tensor_create(void** tensor) {
  return run("dnn_tensor_create", [&] { *tensor = dnn_tensors().add(std::make_shared<DnnTensor>()); });
}

int fake_dnn_tensor_set(void* tensor, int type, int n, int c, int h, int w, int n_stride, int c_stride,
                        int h_stride, int w_stride) {
  constexpr const char* kName = "dnn_tensor_set";
  return run(kName, [&] {
    const DnnTensor made = {
        type_of(kName, type), false, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}};
    for (std::size_t i = 0; i < 4; ++i) {
      if (made.dims[i] < 1 || made.strides[i] < 1) {
        refuse_dnn(kName, "a dimension is empty, or has no stride");
      }
    }
    *dnn_tensors().get(tensor) = made;
  });
}

int fake_dnn_tensor_destroy(void* tensor) {
  return run("dnn_tensor_destroy", [&] { dnn_tensors().remove(tensor); });
}

int fake_dnn_convolution_create(void** convolution) {
  return run("dnn_convolution_create",
             [&] { *convolution = dnn_convolutions().add(std::make_shared<DnnConvolution>()); });
}

int fake_dnn_convolution_groups(void* convolution, int count) {
  return run("dnn_convolution_groups", [&] { dnn_convolutions().get(convolution)->groups = count; });
}

int fake_dnn_convolution_destroy(void* convolution) {
  return run("dnn_convolution_destroy", [&] { dnn_convolutions().remove(convolution); });
}

#define FAKE_GPU_DNN_QUERIES(member, kind)                                                                 \
  int fake_dnn_##member##_find(void* handle, void* a, void* b, void* convolution, void* result,            \
                               std::size_t wanted, std::size_t* found, void* results) {                    \
    return find("dnn_" #member "_find", kind, handle, a, b, convolution, result, wanted, found, results);  \
  }                                                                                                        \
  int fake_dnn_##member##_workspace(void* handle, void* a, void* b, void* convolution, void* result,       \
                                    std::uint64_t algorithm, std::size_t* byte_count) {                    \
    return size_workspace("dnn_" #member "_workspace", kind, handle, a, b, convolution, result, algorithm, \
                          byte_count);                                                                     \
  }
FAKE_GPU_DNN_QUERIES(forward, DnnKind::kForward)
FAKE_GPU_DNN_QUERIES(input, DnnKind::kInput)
FAKE_GPU_DNN_QUERIES(filter, DnnKind::kFilter)

#ifdef FAKE_GPU_HIP

int fake_dnn_miopen_version(std::size_t* major, std::size_t* minor, std::size_t* patch) {
  return run("dnn_miopen_version", [&] {
    const auto number = static_cast<std::size_t>(settings().dnn_version);
    *major = number / 10000;
    *minor = number / 100 % 100;
    *patch = number % 100;
  });
}

int fake_dnn_convolution_init(void* convolution, int mode, int padding_h, int padding_w, int stride_h,
                              int stride_w, int dilation_h, int dilation_w) {
  return run("dnn_convolution_init", [&] {
    if (mode != 0) {
      refuse_dnn("dnn_convolution_init", "mode " + std::to_string(mode) + " is not modeled");
    }
    DnnConvolution& made = *dnn_convolutions().get(convolution);
    made.padding = {padding_h, padding_w};
    made.stride = {stride_h, stride_w};
    made.dilation = {dilation_h, dilation_w};
  });
}

int fake_dnn_convolution_attribute(void* convolution, int attribute, int value) {
  return run("dnn_convolution_attribute", [&] {
    if (attribute != 0 && attribute != 1) {
      refuse_dnn("dnn_convolution_attribute", "attribute " + std::to_string(attribute) + " is not modeled");
    }
    DnnConvolution& made = *dnn_convolutions().get(convolution);
    (attribute == 1 ? made.is_fixed_order : made.rounds_gradients) = value != 0;
  });
}

#define FAKE_GPU_DNN_CALLS(member, kind)                                                                 \
  int fake_dnn_##member##_compile(void* handle, void* a, void* b, void* convolution, void* result,       \
                                  std::uint64_t algorithm) {                                             \
    std::size_t size = 0;                                                                                \
    return size_workspace("dnn_" #member "_compile", kind, handle, a, b, convolution, result, algorithm, \
                          &size, true);                                                                  \
  }                                                                                                      \
  int fake_dnn_##member##_now(void* handle, void* a, Address a_data, void* b, Address b_data,            \
                              void* convolution, void* result, Address result_data, Address workspace,   \
                              std::size_t workspace_bytes, std::uint64_t algorithm) {                    \
    return convolve("dnn_" #member, kind, handle, a, b, convolution, result,                             \
                    {a_data, b_data, result_data, workspace, workspace_bytes, algorithm});               \
  }

#else

int fake_dnn_cudnn_version() {
  return settings().dnn_version;
}

int fake_dnn_filters_create(void** filters) {
  return fake_dnn_tensor_create(filters);
}

int fake_dnn_filters_set(void* filters, int type, int format, int k, int c, int h, int w) {
  constexpr const char* kName = "dnn_filters_set";
  return run(kName, [&] {
    if (format != 0 && format != 1) {
      refuse_dnn(kName, "format " + std::to_string(format) + " is not modeled");
    }
    const std::array<int, 4> strides =
        format == 0 ? std::array{c * h * w, h * w, w, 1} : std::array{c * h * w, 1, w * c, c};
    *dnn_tensors().get(filters) = {type_of(kName, type), true, {k, c, h, w}, strides};
  });
}

int fake_dnn_filters_destroy(void* filters) {
  return fake_dnn_tensor_destroy(filters);
}

int fake_dnn_convolution_set(void* convolution, int padding_h, int padding_w, int stride_h, int stride_w,
                             int dilation_h, int dilation_w, int mode, int type) {
  return run("dnn_convolution_set", [&] {
    if (mode != 1 || type != 0) {
      refuse_dnn("dnn_convolution_set", "this mode, or sums of another type than f32, are not modeled");
    }
    DnnConvolution& made = *dnn_convolutions().get(convolution);
    made.padding = {padding_h, padding_w};
    made.stride = {stride_h, stride_w};
    made.dilation = {dilation_h, dilation_w};
  });
}

int fake_dnn_convolution_math(void* convolution, int math) {
  return run("dnn_convolution_math", [&] { dnn_convolutions().get(convolution)->math = math; });
}

#define FAKE_GPU_DNN_CALLS(member, kind)                                                                   \
  int fake_dnn_##member(void* handle, const void* alpha, void* a, Address a_data, void* b, Address b_data, \
                        void* convolution, int algorithm, Address workspace, std::size_t workspace_bytes,  \
                        const void* beta, void* result, Address result_data) {                             \
    float factors[2] = {};                                                                                 \
    std::memcpy(&factors[0], alpha, sizeof(float));                                                        \
    std::memcpy(&factors[1], beta, sizeof(float));                                                         \
    if (factors[0] != 1 || (factors[1] != 0 && factors[1] != 1)) {                                         \
      complain("dnn_" #member ": these factors are not modeled");                                          \
      return kDnnBadParam;                                                                                 \
    }                                                                                                      \
    return convolve("dnn_" #member, kind, handle, a, b, convolution, result,                               \
                    {a_data, b_data, result_data, workspace, workspace_bytes,                              \
                     static_cast<std::uint64_t>(algorithm), factors[1] == 1});                             \
  }

#endif
FAKE_GPU_DNN_CALLS(forward, DnnKind::kForward)
FAKE_GPU_DNN_CALLS(input, DnnKind::kInput)
FAKE_GPU_DNN_CALLS(filter, DnnKind::kFilter)

}  // namespace fake_gpu
