// SPDX-License-Identifier: Apache-2.0
// tests/hip_on_cuda/shim.cpp: the functions of HIP whose arguments or numbers are not those of CUDA.
#include "shim.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hip_on_cuda {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kNotFound = 500;

using Address = unsigned long long;

void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    void* library = name == nullptr ? nullptr : ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      return library;
    }
  }
  return nullptr;
}

int missing() {
  return kNotFound;
}

template <class Signature>
Signature* cuda(const char* name) {
  return reinterpret_cast<Signature*>(find(Library::kDriver, name));
}

const char* text_of(const char* function, int code) {
  const char* text = nullptr;
  (void)cuda<int(int, const char**)>(function)(code, &text);
  return text == nullptr ? "unknown error" : text;
}

// Calls use(context) with the primary context of a device.
template <class Use>
int with_context(int device, const Use& use) {
  void* context = nullptr;
  const int code = cuda<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
  if (code != 0) {
    return code;
  }
  const int result = use(context);
  (void)cuda<int(int)>("cuDevicePrimaryCtxRelease_v2")(device);
  return result;
}

// "sm_90". All devices must be of one architecture.
std::string architecture_of(int device) {
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  int major = 0;
  int minor = 0;
  const auto attribute = cuda<int(int*, int, int)>("cuDeviceGetAttribute");
  (void)attribute(&major, kMajor, device);
  (void)attribute(&minor, kMinor, device);
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

struct Callback {
  void (*function)(void* stream, int status, void* user);
  void* stream;
  void* user;
};

void run_callback(void* given) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(given));
  callback->function(callback->stream, 0, callback->user);
}

}  // namespace

void* find(Library library, const char* name) {
  static void* const driver = open_first({std::getenv("YOKE_CUDA_LIBRARY"), "libcuda.so.1"});
  static void* const compiler =
      open_first({std::getenv("YOKE_NVRTC_LIBRARY"), "libnvrtc.so.13", "libnvrtc.so.12"});
  void* from = library == Library::kDriver ? driver : compiler;
  void* function = from == nullptr ? nullptr : ::dlsym(from, name);
  return function != nullptr ? function : reinterpret_cast<void*>(&missing);
}

#pragma GCC visibility push(default)
extern "C" {

int hipDriverGetVersion(int* version) {
  *version = 60000000;  // HIP 6
  return 0;
}

int hipDeviceGetAttribute(int* value, int attribute, int device) {
  // The numbers of hipDeviceAttribute_t and CUdevice_attribute that plugins/hip uses.
  constexpr int kNumbers[][2] = {{56, 1}, {63, 16}, {74, 8}, {87, 10}};
  for (const auto& [hip, number] : kNumbers) {
    if (attribute == hip) {
      return cuda<int(int*, int, int)>("cuDeviceGetAttribute")(value, number, device);
    }
  }
  return kInvalidValue;
}

// The layout of HIP 6: the name of the architecture is at byte 1160. "gfx1030" has warps of 32 lanes and no
// matrix cores, so the kernels for it need nothing that NVIDIA's devices lack.
int hipGetDevicePropertiesR0600(void* properties, int) {
  std::strcpy(static_cast<char*>(properties) + 1160, "gfx1030");
  return 0;
}

// CUDA's driver keeps no error of an earlier call.
int hipGetLastError() {
  return 0;
}

const char* hipGetErrorName(int code) {
  return text_of("cuGetErrorName", code);
}
const char* hipGetErrorString(int code) {
  return text_of("cuGetErrorString", code);
}

int hipStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* user, unsigned) {
  auto callback = std::make_unique<Callback>(Callback{function, stream, user});
  const auto launch = cuda<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc");
  const int code = launch(stream, &run_callback, callback.get());
  if (code == 0) {
    (void)callback.release();  // run_callback deletes it
  }
  return code;
}

int hipDeviceEnablePeerAccess(int device, unsigned flags) {
  return with_context(
      device, [&](void* other) { return cuda<int(void*, unsigned)>("cuCtxEnablePeerAccess")(other, flags); });
}

int hipMemcpyPeerAsync(Address target, int to, Address source, int from, std::size_t byte_count,
                       void* stream) {
  const auto copy = cuda<int(Address, void*, Address, void*, std::size_t, void*)>("cuMemcpyPeerAsync");
  return with_context(to, [&](void* there) {
    return with_context(from,
                        [&](void* here) { return copy(target, there, source, here, byte_count, stream); });
  });
}

int hiprtcCreateProgram(void** program, const char* source, const char* name, int header_count,
                        const char* const* headers, const char* const* header_names) {
  // HIP's shuffles have no mask of lanes.
  const std::string text =
      "#define __shfl(value, lane) __shfl_sync(0xffffffffu, value, lane)\n"
      "#define __shfl_xor(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)\n"
      "#define __shfl_down(value, delta) __shfl_down_sync(0xffffffffu, value, delta)\n"
      "#define __shfl_up(value, delta) __shfl_up_sync(0xffffffffu, value, delta)\n"
      "#line 1\n" +
      std::string(source);
  using Create = int(void**, const char*, const char*, int, const char* const*, const char* const*);
  return reinterpret_cast<Create*>(find(Library::kCompiler, "nvrtcCreateProgram"))(
      program, text.c_str(), name, header_count, headers, header_names);
}

int hiprtcCompileProgram(void* program, int option_count, const char* const* options) {
  std::vector<std::string> words = {"--gpu-architecture=" + architecture_of(0), "--fmad=false"};
  for (int i = 0; i < option_count; ++i) {
    if (std::string_view(options[i]).starts_with("-std=")) {
      words.emplace_back(options[i]);
    }
  }
  std::vector<const char*> pointers;
  for (const std::string& word : words) {
    pointers.push_back(word.c_str());
  }
  using Compile = int(void*, int, const char* const*);
  return reinterpret_cast<Compile*>(find(Library::kCompiler, "nvrtcCompileProgram"))(
      program, static_cast<int>(pointers.size()), pointers.data());
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace hip_on_cuda
