// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/device.cpp: initialization, devices, contexts and peers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "blas.h"
#include "context.h"
#include "dnn.h"
#include "dnn_graph.h"
#include "module.h"

namespace fake_gpu {
namespace {

std::atomic<bool> initialized = false;
constexpr int kNoCurrent = kHip ? 0 : -1;  // HIP uses device 0 unless told otherwise

// The device of the thread's current context.
struct CurrentDevice {
  int index = kNoCurrent;
  ~CurrentDevice() {
    if (index != kNoCurrent && std::getenv("FAKE_GPU_RESTORED") != nullptr) {
      complain("a thread ends while the context of device " + std::to_string(index) +
               " is current, so a call did not restore the earlier context");
    }
  }
};
thread_local CurrentDevice current_of_thread;

// Contexts are numbers, not addresses, like all handles.
constexpr std::uintptr_t kContext = std::uintptr_t{0x50} << 44;

void* context_of(int device) {
  return reinterpret_cast<void*>(kContext + static_cast<std::uintptr_t>(device) *
                                                16);  // NOLINT(performance-no-int-to-ptr)
}

int count() {
  return static_cast<int>(settings().devices.size());
}

int attribute(int number, int device) {
  const int capability = kHip ? 90 : std::stoi(architecture_of(device).substr(3));
  const int threads = 1024;
  const int shared = kHip ? 64 * 1024 : 48 * 1024;
  // {CUDA, HIP, value}
  const std::map<int, int> all = [&] {
    const int rows[][3] = {{1, 56, threads},
                           {2, 26, threads},
                           {3, 27, threads},
                           {4, 28, kHip ? threads : 64},
                           {5, 29, 0x7fffffff},
                           {6, 30, 65535},
                           {7, 31, 65535},
                           {8, 74, shared},
                           {10, 87, static_cast<int>(warp_size_of(architecture_of(device)))},
                           {12, 71, 65536},
                           {13, 5, 1500000},
                           {16, 63, 4},
                           {18, 16, 0},
                           {19, 3, 1},
                           {31, 8, 1},
                           {33, 67, 1},
                           {38, 19, 4 << 20},
                           {39, 57, 2048},
                           {40, 2, 2},
                           {75, 23, capability / 10},
                           {76, 61, capability % 10},
                           {97, 75, most_shared_bytes(device)},
                           {99, 90, 1},
                           {115, 88, 1},
                           {17, 18, 0},
                           {20, 6, 0},
                           {41, 85, 1},
                           {106, 25, 32},
                           {81, 76, 2 * shared},
                           {32, 0, 0}};
    std::map<int, int> result;
    for (const auto& row : rows) {
      result[row[kHip ? 1 : 0]] = row[2];
    }
    return result;
  }();
  const auto at = all.find(number);
  if (at == all.end()) {
    complain("device attribute " + std::to_string(number) + " is not modeled");
    throw Error{kInvalidValue};
  }
  return at->second;
}

// The objects that live when the last user of a device releases its context.
void report_leaks(int device) {
  const std::pair<const char*, std::size_t> counts[] = {
      {"allocations", memory().count(device)},
      {"pinned or registered ranges of host memory", kHip ? 0 : memory().host_count(device)},
      {"streams", streams().count(device)},
      {"events", events().count(device)},
      {"graphs", graphs().count(device)},
      {"executable graphs", executables().count(device)},
      {"handles of the library of products", blas_handles().count(device)},
      {"handles of the library of convolutions", dnn_handles().count(device)},
#ifndef FAKE_GPU_HIP
      {"descriptors of graphs of the library of convolutions", graph_objects().count(device)},
#endif
  };
  for (const auto& [kind, number] : counts) {
    if (number != 0) {
      complain("the context of device " + std::to_string(device) + " is released with " +
               std::to_string(number) + " live " + kind);
    }
  }
}

}  // namespace

int most_shared_bytes(int device) {
  if (kHip) {
    return 64 * 1024;
  }
  const int capability = std::stoi(architecture_of(device).substr(3));
  return (capability >= 90 ? 227 : capability == 80 ? 163 : 99) * 1024;
}

void require_driver(const char* call) {
  if (in_host_function()) {
    complain(std::string(call) + " is called in a host function");
    throw Error{kNotPermitted};
  }
  if (!initialized && !kHip) {
    throw Error{kNotInitialized};
  }
}

void throw_sticky(int device) {
  if (const int code = device_at(device).error; code != 0) {
    throw Error{code};
  }
}

int current_device(const char* call) {
  require_driver(call);
  const int device = current_of_thread.index;
  if (device < 0) {
    throw Error{kInvalidContext};
  }
  throw_sticky(device);
  return device;
}

bool has_context() {
  return current_of_thread.index >= 0;
}

void require_context() {
  if (!has_context()) {
    throw Error{kInvalidContext};
  }
}

std::shared_ptr<Stream> stream_of(void* handle) {
  if (handle == nullptr) {
    complain("the default stream is not modeled");
    throw Error{kInvalidHandle};
  }
  return streams().get(handle);
}

int device_of_context(void* context) {
  const auto device = static_cast<int>((reinterpret_cast<std::uintptr_t>(context) - kContext) / 16);
  if (reinterpret_cast<std::uintptr_t>(context) < kContext || device >= count() ||
      (!kHip && device_at(device).retained == 0)) {  // a context of HIP is its device
    complain("a handle is not a context, or its context was released");
    throw Error{kInvalidContext};
  }
  return device;
}

int fake_init(unsigned flags) {
  return run("init", [&] {
    if (flags != 0) {
      throw Error{kInvalidValue};
    }
    if (count() == 0) {
      throw Error{kHip ? kInvalidDevice : kNoDevice};
    }
    initialized = true;
  });
}

int fake_driver_version(int* version) {
  return run("driver_version", [&] { *version = settings().driver_version; });
}

int fake_device_count(int* number) {
  return run("device_count", [&] {
    require_driver("device_count");
    *number = count();
    if (kHip && count() == 0) {
      throw Error{kNoDevice};
    }
  });
}

int fake_device_get(int* device, int ordinal) {
  return run("device_get", [&] {
    require_driver("device_get");
    device_at(ordinal);
    *device = ordinal;
  });
}

int fake_device_name(char* name, int capacity, int device) {
  return run("device_name", [&] {
    device_at(device);
    (void)std::snprintf(name, static_cast<std::size_t>(capacity), "Fake GPU %d",
                        settings().devices.at(static_cast<std::size_t>(device)));
  });
}

int fake_device_uuid(void* bytes16, int device) {
  return run("device_uuid", [&] {
    device_at(device);
    char text[17] = {};
    (void)std::snprintf(text, sizeof(text), "fake-%s-gpu-%d", FAKE_GPU_NAME("cuda", "hip0"),
                        settings().devices.at(static_cast<std::size_t>(device)));
    std::memcpy(bytes16, text, 16);
  });
}

int fake_device_pci_bus_id(char* text, int capacity, int device) {
  return run("device_pci_bus_id", [&] {
    device_at(device);
    (void)std::snprintf(text, static_cast<std::size_t>(capacity), "0000:%02x:00.0",
                        settings().devices.at(static_cast<std::size_t>(device)) + 1);
  });
}

int fake_device_attribute(int* value, int number, int device) {
  return run("device_attribute", [&] {
    device_at(device);
    *value = attribute(number, device);
  });
}

int fake_device_total_memory(std::size_t* byte_count, int device) {
  return run("device_total_memory", [&] {
    device_at(device);
    *byte_count = settings().memory;
  });
}

int fake_context_retain(void** context, int device) {
  return run("context_retain", [&] {
    require_driver("context_retain");
    ++device_at(device).retained;
    *context = context_of(device);
  });
}

int fake_context_release(int device) {
  return run("context_release", [&] {
    require_driver("context_release");
    if (device_at(device).retained == 0) {
      complain("the context of device " + std::to_string(device) +
               " is released more often than it was retained");
      throw Error{kInvalidContext};
    }
    if (--device_at(device).retained == 0) {
      if (device_at(device).error == 0) {  // the memory of a lost device is gone
        report_leaks(device);
      }
      device_at(device).error = 0;  // the next context is new
      if (!kHip) {                  // HIP never ends a primary context
        memory().disable_peers(device);
      }
    }
  });
}

int fake_context_get(void** context) {
  return run("context_get", [&] {
    require_driver("context_get");
    const int device = current_of_thread.index;
    *context = device < 0 ? nullptr : context_of(device);
  });
}

int fake_context_set(void* context) {
  const int code = run("context_set", [&] {
    require_driver("context_set");
    current_of_thread.index = context == nullptr ? kNoCurrent : device_of_context(context);
  });
  if (is_sticky(code) && context != nullptr) {  // injected
    (void)run("", [&] { device_at(device_of_context(context)).error = code; });
  }
  return code;
}

int fake_peer_can_access(int* allowed, int device, int other) {
  return run("peer_can_access", [&] {
    device_at(device);
    device_at(other);
    *allowed = settings().peers && device != other ? 1 : 0;
  });
}

int fake_peer_enable(FAKE_GPU_NAME(void*, int) peer, unsigned flags) {
  return run_on_device("peer_enable", [&](int device) {
#ifdef FAKE_GPU_HIP
    const int other = peer;
#else
    const int other = device_of_context(peer);
#endif
    device_at(other);
    if (flags != 0 || other == device || !settings().peers) {
      throw Error{flags != 0 ? kInvalidValue : kInvalidDevice};
    }
    memory().enable_peer(device, other);
  });
}

#ifdef FAKE_GPU_HIP
// The layout up to ROCm 5: the name first, the name of the architecture at byte 396.
int fake_properties(void* properties, int device) {
  return run("properties", [&] {
    device_at(device);
    auto* bytes = static_cast<char*>(properties);
    std::memset(bytes, 0, 396 + 256);
    (void)std::snprintf(bytes, 256, "Fake GPU %d", device);
    (void)std::snprintf(bytes + 396, 256, "%s:sramecc+:xnack-", architecture_of(device).c_str());
  });
}
#endif

namespace {

const char* error_text(int code, bool name) {
  struct Row {
    int code;
    const char* name;
    const char* text;
  };
  static const Row rows[] = {
      {0, FAKE_GPU_NAME("CUDA_SUCCESS", "hipSuccess"), "no error"},
      {kInvalidValue, FAKE_GPU_NAME("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue"), "invalid argument"},
      {kOutOfMemory, FAKE_GPU_NAME("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory"), "out of memory"},
      {kNotInitialized, FAKE_GPU_NAME("CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized"),
       "initialization error"},
      {kNoDevice, FAKE_GPU_NAME("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice"), "no GPU is detected"},
      {kInvalidDevice, FAKE_GPU_NAME("CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice"),
       "invalid device ordinal"},
      {kInvalidImage, FAKE_GPU_NAME("CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage"),
       "device kernel image is invalid"},
      {kInvalidContext, FAKE_GPU_NAME("CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext"),
       "invalid device context"},
      {kNoBinaryForGpu, FAKE_GPU_NAME("CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu"),
       "no kernel image for the device"},
      {304, FAKE_GPU_NAME("CUDA_ERROR_OPERATING_SYSTEM", "hipErrorOperatingSystem"), "an OS call failed"},
      {kInvalidHandle, FAKE_GPU_NAME("CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle"),
       "invalid resource handle"},
      {kNotFound, FAKE_GPU_NAME("CUDA_ERROR_NOT_FOUND", "hipErrorNotFound"), "named symbol not found"},
      {kNotReady, FAKE_GPU_NAME("CUDA_ERROR_NOT_READY", "hipErrorNotReady"), "device not ready"},
      {kIllegalAddress, FAKE_GPU_NAME("CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress"),
       "an illegal memory access was encountered"},
      {999, FAKE_GPU_NAME("CUDA_ERROR_UNKNOWN", "hipErrorUnknown"), "unknown error"},
      {kLaunchFailed, FAKE_GPU_NAME("CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure"),
       "unspecified launch failure"},
  };
  const auto* at =
      std::find_if(std::begin(rows), std::end(rows), [&](const Row& row) { return row.code == code; });
  if (at == std::end(rows)) {
    return name ? FAKE_GPU_NAME("CUDA_ERROR_OTHER", "hipErrorOther") : "an error without a text in the fake";
  }
  return name ? at->name : at->text;
}

}  // namespace

#ifdef FAKE_GPU_HIP
const char* fake_error_name(int code) {
  return error_text(code, true);
}
const char* fake_error_string(int code) {
  return error_text(code, false);
}
#else
int fake_error_name(int code, const char** text) {
  return *text = error_text(code, true), 0;
}
int fake_error_string(int code, const char** text) {
  return *text = error_text(code, false), 0;
}
#endif

}  // namespace fake_gpu
