// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/blas.cpp: the part of cublasLt and hipBLASLt that plugins use. Refuses the rest.
#include "blas.h"

#include <cstring>
#include <utility>

namespace fake_gpu {
namespace {

template <class T, std::uintptr_t kind>
Objects<T>& all_of(const char* name) {
  static auto* const all = new Objects<T>(name, kind);
  return *all;
}
Objects<BlasProduct>& products() {
  return all_of<BlasProduct, 0x62>("description of a product");
}
Objects<BlasLayout>& layouts() {
  return all_of<BlasLayout, 0x63>("layout");
}
Objects<BlasPreference>& preferences() {
  return all_of<BlasPreference, 0x64>("preference");
}

[[noreturn]] void refuse(const char* name, const std::string& reason, int status = kBlasInvalidValue) {
  complain(std::string(name) + ": " + reason);
  throw Error{status};
}

// Copies an attribute of this type.
template <class T>
void read(const char* name, T& to, const void* value, std::size_t byte_count) {
  if (value == nullptr || byte_count != sizeof to) {
    refuse(name,
           "an attribute of " + std::to_string(sizeof to) + " bytes gets " + std::to_string(byte_count));
  }
  std::memcpy(&to, value, sizeof to);
}

// The product that an algorithm was chosen for. A multiplication must not use it for another product.
struct Algorithm {
  std::uint64_t problem = 0;
  std::uint32_t alignments = 0;  // of a, b, the result and the bias, one byte each
  std::uint32_t has_workspace = 0;
};
static_assert(sizeof(Algorithm) == 16);  // what hipBLASLt's algorithms have room for

void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x100000001b3ULL;
}

std::uint64_t problem_of(const BlasCall& call) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const BlasProduct& product = call.product;
  for (const int number : {product.compute_type, product.operations[0], product.operations[1],
                           static_cast<int>(product.epilogue), product.bias_type}) {
    mix(hash, static_cast<std::uint64_t>(number));
  }
  for (const BlasLayout& layout : call.layouts) {
    for (const std::uint64_t number :
         {static_cast<std::uint64_t>(layout.type), layout.rows, layout.columns,
          static_cast<std::uint64_t>(layout.pitch), static_cast<std::uint64_t>(layout.batch),
          static_cast<std::uint64_t>(layout.batch_stride)}) {
      mix(hash, number);
    }
  }
  return hash;
}

std::uint32_t byte_of(std::uint32_t alignments, unsigned which) {
  return alignments >> (8 * which) & 0xffU;
}

BlasCall call_of(const char* name, void* product, void* a, void* b, void* c, void* d) {
  BlasCall call = {*products().get(product), {*layouts().get(a), *layouts().get(b), *layouts().get(d)}};
  if (c != d) {
    refuse(name, "different layouts of the old and the new result are not modeled");
  }
  check_shapes(name, call);
  return call;
}

std::shared_ptr<BlasHandle> handle_of(const char* name, void* handle) {
  auto found = blas_handles().get(handle);
  if (found->device != current_device(name)) {
    refuse(name, "the handle is of another device than the current context");
  }
  return found;
}

}  // namespace

Objects<BlasHandle>& blas_handles() {
  return all_of<BlasHandle, 0x61>("handle of the library of products");
}

void check_shapes(const char* name, BlasCall& call) {
  const auto& [a, b, d] = call.layouts;
  const auto is_transposed = [&](std::size_t which) {
    const std::int32_t operation = call.product.operations[which];
    if (operation != kPlain && operation != kTransposed) {
      refuse(name, "operation " + std::to_string(operation));
    }
    return operation == kTransposed;
  };
  const auto shape = [&](const BlasLayout& layout, bool transposed) {
    return transposed ? std::pair(layout.columns, layout.rows) : std::pair(layout.rows, layout.columns);
  };
  const auto [rows, depth] = shape(a, is_transposed(0));
  const auto [depth_of_b, columns] = shape(b, is_transposed(1));
  if (rows != d.rows || columns != d.columns || depth != depth_of_b) {
    refuse(name, "the shapes of the matrices do not fit together");
  }
  for (const BlasLayout& layout : call.layouts) {
    if (layout.rows == 0 || layout.columns == 0 || layout.pitch < static_cast<std::int64_t>(layout.rows) ||
        layout.batch < 1 || layout.batch != d.batch) {
      refuse(name, "a matrix is empty, its columns overlap, or its batch differs");
    }
  }
  const std::uint32_t epilogue = call.product.epilogue;
  if (epilogue != 1 && (epilogue & ~(kRelu | kBias)) != 0) {
    refuse(name, "epilogue " + std::to_string(epilogue) + " is not modeled");
  }
  if ((epilogue & kBias) != 0 &&
      (call.product.bias == 0 || call.product.bias_type != kF32 || d.type != kF32)) {
    refuse(name, "a bias without a pointer, or not of the type f32");
  }
  call.depth = depth;
}

int fake_blas_create(void** handle) {
  return run("blas_create", [&] {
    refuse_during_capture("blas_create");
    auto made = std::make_shared<BlasHandle>();
    made->device = current_device("blas_create");
    *handle = blas_handles().add(std::move(made));
  });
}

int fake_blas_destroy(void* handle) {
  return run_to_free("blas_destroy", [&] {
    if (blas_handles().remove(handle).use_count() > 1) {
      complain("a handle is destroyed while queued work or a graph uses it");
    }
  });
}

#ifdef FAKE_GPU_HIP
int fake_blas_version(void*, int* version) {
  return run("blas_version", [&] { *version = settings().blas_version; });
}
#else
std::size_t fake_blas_version() {
  return static_cast<std::size_t>(settings().blas_version);
}
#endif

int fake_blas_product_create(void** product, int compute_type, int scale_type) {
  return run("blas_product_create", [&] {
    if ((compute_type != kComputeF32 && compute_type != kComputeTF32) || scale_type != kF32) {
      refuse("blas_product_create", "compute type " + std::to_string(compute_type) + " is not modeled");
    }
    auto made = std::make_shared<BlasProduct>();
    made->compute_type = compute_type;
    *product = products().add(std::move(made));
  });
}

int fake_blas_product_set(void* handle, int attribute, const void* value, std::size_t byte_count) {
  constexpr const char* kName = "blas_product_set";
  return run(kName, [&] {
    BlasProduct& product = *products().get(handle);
    switch (attribute) {
      case kTransposeA:
        return read(kName, product.operations[0], value, byte_count);
      case kTransposeB:
        return read(kName, product.operations[1], value, byte_count);
      case kEpilogue:
        return read(kName, product.epilogue, value, byte_count);
      case kBiasPointer:
        return read(kName, product.bias, value, byte_count);
      case kBiasType:
        return read(kName, product.bias_type, value, byte_count);
      default:
        refuse(kName, "attribute " + std::to_string(attribute) + " is not modeled");
    }
  });
}

int fake_blas_product_destroy(void* product) {
  return run("blas_product_destroy", [&] { products().remove(product); });
}

int fake_blas_layout_create(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                            std::int64_t pitch) {
  return run("blas_layout_create", [&] {
    if (type != kF32 && type != kF16 && type != kBF16) {
      refuse("blas_layout_create", "type " + std::to_string(type) + " is not modeled");
    }
    *layout = layouts().add(std::make_shared<BlasLayout>(BlasLayout{type, rows, columns, pitch, 1, 0}));
  });
}

int fake_blas_layout_set(void* handle, int attribute, const void* value, std::size_t byte_count) {
  constexpr const char* kName = "blas_layout_set";
  return run(kName, [&] {
    BlasLayout& layout = *layouts().get(handle);
    if (attribute == kBatchCount) {
      read(kName, layout.batch, value, byte_count);
    } else if (attribute == kBatchStride) {
      read(kName, layout.batch_stride, value, byte_count);
    } else {
      refuse(kName, "attribute " + std::to_string(attribute) + " is not modeled");
    }
  });
}

int fake_blas_layout_destroy(void* layout) {
  return run("blas_layout_destroy", [&] { layouts().remove(layout); });
}

int fake_blas_preference_create(void** preference) {
  return run("blas_preference_create",
             [&] { *preference = preferences().add(std::make_shared<BlasPreference>()); });
}

int fake_blas_preference_set(void* handle, int attribute, const void* value, std::size_t byte_count) {
  constexpr const char* kName = "blas_preference_set";
  return run(kName, [&] {
    BlasPreference& preference = *preferences().get(handle);
    if (attribute == kMaxWorkspace) {
      read(kName, preference.workspace, value, byte_count);
    } else if (attribute == kReductionSchemes) {
      read(kName, preference.schemes, value, byte_count);
    } else if (!kHip && attribute >= kAlignmentA && attribute < kAlignmentA + 4) {
      read(kName, preference.alignments[static_cast<std::size_t>(attribute - kAlignmentA)], value,
           byte_count);
    } else {
      refuse(kName, "attribute " + std::to_string(attribute) + " is not modeled");
    }
  });
}

int fake_blas_preference_destroy(void* preference) {
  return run("blas_preference_destroy", [&] { preferences().remove(preference); });
}

int fake_blas_find(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference_handle,
                   int wanted, void* results, int* found) {
  constexpr const char* kName = "blas_find";
  return run(kName, [&] {
    handle_of(kName, handle);
    const BlasCall call = call_of(kName, product, a, b, c, d);
    const auto preference = preferences().get(preference_handle);
    const auto& [left, right, result] = call.layouts;
    if (wanted != 1) {
      refuse(kName, "it is asked for " + std::to_string(wanted) + " algorithms instead of one");
    }
    if (left.type != right.type || (result.type != left.type && result.type != kF32) ||
        (call.product.compute_type == kComputeTF32 && left.type != kF32)) {
      throw Error{kBlasNotSupported};
    }
    constexpr std::uint64_t kLongDepth = 256;
    constexpr std::uint32_t kPartsInComputeType = 2;
    if (!kHip && preference->schemes != kPartsInComputeType) {
      refuse(kName, "the order of sums is not fixed, or their parts are rounded");
    }
    const bool is_split = call.depth >= kLongDepth && workspace_of(call) <= preference->workspace;
    Algorithm algorithm = {problem_of(call), 0, is_split ? 1U : 0U};
    const auto bias = static_cast<std::uint32_t>(call.product.bias & (~call.product.bias + 1));
    // hipBLASLt does not ask for alignments, so its algorithms need that of elements only.
    const std::uint32_t alignments[] = {preference->alignments[0], preference->alignments[1],
                                        preference->alignments[3], bias};
    for (unsigned i = 0; i < 4; ++i) {
      algorithm.alignments |= (kHip ? 1U : std::min(alignments[i], 128U)) << (8 * i);
    }
    // The algorithm, the size of its workspace, a status, the number of waves, and 4 reserved numbers.
    const std::size_t algorithm_bytes = kHip ? 24 : 64;
    std::memset(results, 0, algorithm_bytes + 32);
    std::memcpy(results, &algorithm, sizeof algorithm);
    const std::uint64_t workspace = is_split ? workspace_of(call) : 0;
    std::memcpy(static_cast<char*>(results) + algorithm_bytes, &workspace, sizeof workspace);
    *found = 1;
  });
}

int fake_blas_multiply(void* handle, void* product, const void* alpha, Address a, void* a_layout, Address b,
                       void* b_layout, const void* beta, Address c, void* c_layout, Address d, void* d_layout,
                       const void* algorithm_bytes, Address workspace, std::size_t workspace_bytes,
                       void* stream_handle) {
  constexpr const char* kName = "blas_multiply";
  return run(kName, [&] {
    auto owner = handle_of(kName, handle);
    const auto stream = streams().get(stream_handle);
    throw_sticky(stream->device);
    BlasCall call = call_of(kName, product, a_layout, b_layout, c_layout, d_layout);
    call.addresses = {a, b, d};
    float factors[2] = {};
    std::memcpy(&factors[0], alpha, sizeof(float));
    std::memcpy(&factors[1], beta, sizeof(float));
    call.accumulates = factors[1] == 1;
    if (factors[0] != 1 || (factors[1] != 0 && factors[1] != 1) || c != d ||
        stream->device != owner->device) {
      refuse(kName, "these factors, an old result elsewhere, or a stream of another device are not modeled");
    }
    Algorithm algorithm;
    std::memcpy(&algorithm, algorithm_bytes, sizeof algorithm);
    if (algorithm.problem != problem_of(call)) {
      refuse(kName, "the algorithm was chosen for another product");
    }
    const Address used[] = {a, b, d, call.product.bias};
    for (unsigned i = 0; i < 4; ++i) {
      if (const std::uint32_t alignment = byte_of(algorithm.alignments, i);
          alignment != 0 && used[i] % alignment != 0) {
        refuse(kName,
               "an address is not a multiple of " + std::to_string(alignment) + ", as the algorithm needs");
      }
    }
    Work work = {.name = "kernel"};
    for (std::size_t i = 0; i < 3; ++i) {
      work.ranges.push_back({call.addresses[i], extent_of(call.layouts[i])});
    }
    if ((call.product.epilogue & kBias) != 0) {
      work.ranges.push_back({call.product.bias, call.layouts[2].rows * sizeof(float)});
    }
    if (algorithm.has_workspace != 0) {
      if (workspace % 16 != 0 || workspace_bytes < workspace_of(call)) {
        refuse(kName, "the workspace is too small or misaligned");
      }
      call.workspace = workspace;
      work.ranges.push_back({workspace, workspace_of(call)});
    }
    work.run = [call, used_handle = owner.get()] {
      const std::unique_lock lock(used_handle->running, std::try_to_lock);
      if (kHip && !lock.owns_lock()) {
        complain("work with one handle of hipBLASLt runs on two streams at once");
      }
      run_product(call);
    };
    work.uses = std::move(owner);
    stream->push(std::move(work));
  });
}

}  // namespace fake_gpu
