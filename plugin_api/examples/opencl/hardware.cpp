// SPDX-License-Identifier: Apache-2.0
// hardware.cpp: enumerates the devices of all platforms.
#include "hardware.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

namespace ocl {
namespace {

// From cl_khr_device_uuid, which the headers of OpenCL 1.2 lack.
constexpr cl_device_info kDeviceUuid = 0x106A;
constexpr std::size_t kUuidBytes = 16;

// Restores signal handlers. Enumerating devices may install some (PoCL's LLVM does so for 15 signals), but
// signal handlers belong to the application.
class KeepSignals {
 public:
  KeepSignals() {
    for (int number = 1; number < NSIG; ++number) {
      known_[index(number)] = ::sigaction(number, nullptr, &before_[index(number)]) == 0;
    }
  }
  ~KeepSignals() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now = {};
      const struct sigaction& before = before_[index(number)];
      if (known_[index(number)] && ::sigaction(number, nullptr, &now) == 0 &&
          (now.sa_handler != before.sa_handler || now.sa_flags != before.sa_flags)) {
        (void)::sigaction(number, &before, nullptr);
      }
    }
  }
  KeepSignals(const KeepSignals&) = delete;
  KeepSignals& operator=(const KeepSignals&) = delete;

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  std::array<struct sigaction, NSIG> before_ = {};
  std::array<bool, NSIG> known_ = {};
};

// Restores environment variables. Enumerating devices may set some (PoCL sets one for hwloc), which
// processes that the application starts would inherit.
class KeepEnvironment {
 public:
  KeepEnvironment() : before_(variables()) {}
  ~KeepEnvironment() {
    for (const auto& [name, value] : variables()) {
      const auto known = before_.find(name);
      if (known == before_.end()) {
        (void)::unsetenv(name.c_str());
      } else if (known->second != value) {
        (void)::setenv(name.c_str(), known->second.c_str(), 1);
      }
    }
  }
  KeepEnvironment(const KeepEnvironment&) = delete;
  KeepEnvironment& operator=(const KeepEnvironment&) = delete;

 private:
  static std::map<std::string, std::string> variables() {
    std::map<std::string, std::string> result;
    for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
      const std::string_view text = *one;
      const std::size_t end = std::min(text.find('='), text.size());
      result.emplace(text.substr(0, end), text.substr(std::min(end + 1, text.size())));
    }
    return result;
  }
  std::map<std::string, std::string> before_;
};

template <class Id, class Function>
std::string text_of(Function function, Id id, cl_uint what) {
  std::size_t size = 0;
  if (function(id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) {
    return {};
  }
  std::string text(size, '\0');
  if (function(id, what, size, text.data(), nullptr) != CL_SUCCESS) {
    return {};
  }
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

template <class T>
T number_of(cl_device_id id, cl_device_info what, T otherwise) {
  T value{};
  return api().clGetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

bool has_word(std::string_view words, std::string_view word) {
  const std::string padded = " " + std::string(words) + " ";
  return padded.find(" " + std::string(word) + " ") != std::string::npos;
}

// The device's UUID if it has one. Otherwise the names of the device and driver, and a number that separates
// devices with the same names.
std::string unique_id(const Hardware& device, const std::string& extensions,
                      const std::vector<Hardware>& before) {
  std::array<unsigned char, kUuidBytes> uuid = {};
  if (has_word(extensions, "cl_khr_device_uuid") &&
      api().clGetDeviceInfo(device.id, kDeviceUuid, uuid.size(), uuid.data(), nullptr) == CL_SUCCESS) {
    std::string text = "opencl:uuid:";
    for (const unsigned char byte : uuid) {
      std::array<char, 3> digits = {};
      (void)std::snprintf(digits.data(), digits.size(), "%02x", byte);
      text += digits.data();
    }
    return text;
  }
  const auto names_of = [](const Hardware& one) { return one.driver.substr(0, 100); };  // an id has 127 bytes
  const auto alike = std::count_if(before.begin(), before.end(), [&](const Hardware& other) {
    return names_of(other) == names_of(device);
  });
  return "opencl:" + names_of(device) + ":" + std::to_string(alike);
}

Hardware describe(cl_platform_id platform, cl_device_id id, const std::vector<Hardware>& before) {
  const auto text = [&](cl_device_info what) { return text_of(api().clGetDeviceInfo, id, what); };
  Hardware device;
  device.platform = platform;
  device.id = id;
  device.driver = text(CL_DEVICE_NAME) + "/" + text(CL_DRIVER_VERSION) + "/" +
                  text_of(api().clGetPlatformInfo, platform, CL_PLATFORM_NAME);
  const std::string extensions = text(CL_DEVICE_EXTENSIONS);
  const auto type = number_of<cl_device_type>(id, CL_DEVICE_TYPE, CL_DEVICE_TYPE_DEFAULT);
  device.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  device.has_f64 = has_word(extensions, "cl_khr_fp64");
  const auto single = number_of<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG, 0);
  device.divides_exactly = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  device.max_buffer_bytes = number_of<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0);
  device.max_argument_bytes = number_of<std::size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE, 256);
  // A multiple of common warp and wavefront sizes. On a CPU, groups of one item spread best over the cores.
  constexpr std::size_t kGroup = 64;
  device.work_group_size =
      device.is_cpu ? 1 : std::min(kGroup, number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1));
  device.vector_bytes = sizeof(float) * number_of<cl_uint>(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 0);

  yoke::sdk::DeviceInfo& info = device.info;
  info.name =
      text(CL_DEVICE_NAME) + " (" + text_of(api().clGetPlatformInfo, platform, CL_PLATFORM_NAME) + ")";
  info.unique_id = unique_id(device, extensions, before);
  info.memory_bytes = number_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  info.types = {YOKE_TYPE_F32, YOKE_TYPE_F16, YOKE_TYPE_BF16, YOKE_TYPE_I64,
                YOKE_TYPE_I32, YOKE_TYPE_U32, YOKE_TYPE_U8,   YOKE_TYPE_BOOL};
  if (device.has_f64) {
    info.types.insert(info.types.begin(), YOKE_TYPE_F64);
  }
  info.kind = device.is_cpu                      ? YOKE_DEVICE_CPU
              : (type & CL_DEVICE_TYPE_GPU) != 0 ? YOKE_DEVICE_GPU
                                                 : YOKE_DEVICE_OTHER;
  info.compute_unit_count = std::max<cl_uint>(number_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1), 1);
  info.suggested_stream_count = 2;
  return device;
}

// Devices without a compiler cannot run programs, and big-endian devices would need byte swapping.
bool is_usable(cl_device_id id) {
  return number_of<cl_bool>(id, CL_DEVICE_AVAILABLE, CL_FALSE) == CL_TRUE &&
         number_of<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE, CL_FALSE) == CL_TRUE &&
         number_of<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE, CL_FALSE) == CL_TRUE;
}

Machine enumerate() {
  Machine found;
  if (!missing_library().empty()) {
    found.why_none = missing_library();
    return found;
  }
  const KeepSignals signals;
  const KeepEnvironment environment;
  cl_uint platform_count = 0;
  const cl_int status = api().clGetPlatformIDs(0, nullptr, &platform_count);
  if (status != CL_SUCCESS || platform_count == 0) {
    found.why_none =
        "no OpenCL platform: " + (status == CL_SUCCESS ? "none is installed" : status_name(status)) +
        "; install the driver of a device (Debian: pocl-opencl-icd for the CPU)";
    return found;
  }
  std::vector<cl_platform_id> platforms(platform_count);
  check(api().clGetPlatformIDs(platform_count, platforms.data(), nullptr), "clGetPlatformIDs",
        "listing devices");
  std::size_t unusable = 0;
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) {
      continue;
    }
    std::vector<cl_device_id> ids(count);
    check(api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr), "clGetDeviceIDs",
          "listing devices");
    for (cl_device_id id : ids) {
      if (is_usable(id)) {
        found.devices.push_back(describe(platform, id, found.devices));
      } else {
        ++unusable;
      }
    }
  }
  if (found.devices.empty()) {
    found.why_none = "no usable device on " + std::to_string(platform_count) + " OpenCL platforms (" +
                     std::to_string(unusable) + " devices are unavailable, big-endian or lack a compiler)";
  }
  return found;
}

}  // namespace

const Machine& machine() {
  static const Machine& found = *new Machine(enumerate());
  return found;
}

}  // namespace ocl
