// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/settings.cpp: see settings.h.
#include "settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "vendor.h"

namespace fake_gpu {
namespace {

std::atomic<int> complaints = 0;

const char* variable(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : fallback;
}

// Like both drivers: entries after the first invalid one are ignored.
void restrict_devices(std::vector<int>& devices, const char* list) {
  if (list == nullptr) {
    return;
  }
  std::vector<int> kept;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long index = std::strtol(word.c_str(), &end, 10);
    if (end == word.c_str() || *end != '\0' || index < 0 || index >= static_cast<long>(devices.size())) {
      break;
    }
    kept.push_back(devices[static_cast<std::size_t>(index)]);
  }
  devices = kept;
}

Settings read_settings() {
  Settings result;
  const int count = std::clamp(std::atoi(variable("FAKE_GPU_DEVICES", "1")), 0, 8);
  for (int i = 0; i < count; ++i) {
    result.devices.push_back(i);
  }
  if (kHip) {
    restrict_devices(result.devices, std::getenv("ROCR_VISIBLE_DEVICES"));
    restrict_devices(result.devices, std::getenv("HIP_VISIBLE_DEVICES"));
    restrict_devices(result.devices, std::getenv("CUDA_VISIBLE_DEVICES"));
  } else {
    restrict_devices(result.devices, std::getenv("CUDA_VISIBLE_DEVICES"));
  }
  if (const char* memory = std::getenv("FAKE_GPU_MEMORY")) {
    result.memory = std::strtoull(memory, nullptr, 10);
  }
  result.peers = std::atoi(variable("FAKE_GPU_PEERS", "1")) != 0;
  result.seed = std::strtoull(variable("FAKE_GPU_SEED", "0"), nullptr, 10);
  std::istringstream words(kHip ? variable("FAKE_GPU_ARCHITECTURE", "gfx90a")
                                : variable("FAKE_GPU_CAPABILITY", "90"));
  for (std::string word; std::getline(words, word, ',');) {
    result.architectures.push_back((kHip ? "" : "sm_") + word);
  }
  result.driver_version = std::atoi(variable("FAKE_GPU_DRIVER", kHip ? "50221153" : "13000"));
  result.blas_version = std::atoi(variable("FAKE_GPU_BLAS", kHip ? "100200" : "130100"));
  result.dnn_version = std::atoi(variable("FAKE_GPU_DNN", kHip ? "30400" : "91900"));
  result.comm_version = std::atoi(variable("FAKE_GPU_COMM", "22809"));
  result.comm_ranks = std::atoi(variable("FAKE_GPU_COMM_RANKS", "8"));
  return result;
}

void append_to_file(const char* path, const std::string& line) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0) {
    [[maybe_unused]] const auto written = write(file, line.data(), line.size());
    close(file);
  }
}

// What FAKE_GPU_FAIL=call:nth:error asks for; call:nth+:error also fails the calls after it.
struct Injection {
  std::string call;
  long nth = 0;
  bool is_lasting = false;
  int code = 0;
};

Injection read_injection() {
  Injection result;
  std::istringstream words(variable("FAKE_GPU_FAIL", ""));
  std::string nth;
  std::string code;
  if (std::getline(words, result.call, ':') && std::getline(words, nth, ':') && std::getline(words, code)) {
    result.nth = std::atol(nth.c_str());
    result.is_lasting = nth.ends_with('+');
    result.code = std::atoi(code.c_str());
  }
  return result;
}

struct Calls {
  std::mutex mutex;
  Injection injection = read_injection();
  std::map<std::string, long> counts;
  std::uint64_t random = settings().seed * 0x9e3779b97f4a7c15ULL + 1;

  ~Calls() {
    if (const char* path = std::getenv("FAKE_GPU_CALLS")) {
      std::string text;
      for (const auto& [name, count] : counts) {
        text += name + " " + std::to_string(count) + "\n";
      }
      append_to_file(path, text);
    }
  }
};

Calls& calls() {
  static Calls all;
  return all;
}

struct Held {
  std::mutex mutex;
  std::condition_variable changed;
  std::string call;
  int count = 0;
};

Held& held() {
  static auto* const all = new Held;
  return *all;
}

__attribute__((destructor)) void end_of_process() {
  if (complaints > 0 && std::getenv("FAKE_GPU_REPORT") == nullptr) {
    (void)std::fflush(nullptr);
    _exit(99);
  }
}

}  // namespace

const Settings& settings() {
  static const Settings all = read_settings();
  return all;
}

const std::string& architecture_of(int device) {
  const auto number = static_cast<std::size_t>(settings().devices.at(static_cast<std::size_t>(device)));
  return settings().architectures[std::min(number, settings().architectures.size() - 1)];
}

unsigned warp_size_of(const std::string& architecture) {
  return architecture.rfind("gfx9", 0) == 0 ? 64 : 32;
}

void complain(const std::string& sentence) {
  ++complaints;
  const std::string line = std::string("fake_gpu ") + FAKE_GPU_NAME("cuda", "hip") + ": " + sentence + "\n";
  [[maybe_unused]] const auto written = write(2, line.data(), line.size());
  if (const char* path = std::getenv("FAKE_GPU_REPORT")) {
    append_to_file(path, line);
  }
}

int count_call(const char* name) {
  Calls& all = calls();
  const std::scoped_lock lock(all.mutex);
  const long count = ++all.counts[name];
  const Injection& injection = all.injection;
  const bool fails = injection.nth == count || (injection.is_lasting && count > injection.nth);
  return fails && injection.call == name ? injection.code : 0;
}

void wait_if_held(const char* name) {
  std::unique_lock lock(held().mutex);
  if (!held().call.empty() && held().call == name) {
    ++held().count;
    held().changed.wait(lock, [&] { return held().call != name; });
    --held().count;
  }
}

std::uint64_t chance(std::uint64_t bound) {
  if (settings().seed == 0) {
    return 0;
  }
  Calls& all = calls();
  const std::scoped_lock lock(all.mutex);
  all.random ^= all.random << 13;
  all.random ^= all.random >> 7;
  all.random ^= all.random << 17;
  return all.random % bound;
}

void delay() {
  if (chance(4) == 3) {
    std::this_thread::sleep_for(std::chrono::microseconds(chance(300)));
  }
}

}  // namespace fake_gpu

void fake_gpu_hold(const char* call) {
  const std::scoped_lock lock(fake_gpu::held().mutex);
  fake_gpu::held().call = call != nullptr ? call : "";
  fake_gpu::held().changed.notify_all();
}

int fake_gpu_held() {
  const std::scoped_lock lock(fake_gpu::held().mutex);
  return fake_gpu::held().count;
}

int fake_gpu_report(int clear) {
  const int count = fake_gpu::complaints;
  if (clear != 0) {
    fake_gpu::complaints = 0;
  }
  return count;
}
