// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/gpu.h: a small program's view of a driver: its functions by name, and short forms of
// what tests do.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace fake_gpu_test {

using Address = unsigned long long;

// Sets environment variables for one test.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& all) {
    for (const auto& [name, value] : all) {
      names_.push_back(name);
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& name : names_) {
      unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::string> names_;
};

// The libraries of one vendor, opened for one test. The destructor checks that the fake has nothing to
// complain about.
class Gpu {
 public:
  explicit Gpu(bool is_hip, std::map<std::string, std::string> variables = {})
      : hip(is_hip), variables_(with_report(std::move(variables))) {
    const std::string folder = FAKE_GPU_FOLDER;
    driver_ = dlopen((folder + (hip ? "/hip/libamdhip64.so.5" : "/cuda/libcuda.so.1")).c_str(),
                     RTLD_NOW | RTLD_LOCAL);
    compiler_ = hip ? driver_ : dlopen((folder + "/cuda/libnvrtc.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(driver_, nullptr) << dlerror();
    EXPECT_NE(compiler_, nullptr) << dlerror();
#define YOKE_DRIVER(member, parameters, cuda, hip_name) \
  member = find<int parameters>(driver_, hip ? (hip_name) : (cuda));
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) \
  compiler_##member = find<int parameters>(compiler_, hip ? (hiprtc) : (nvrtc));
#include "gpu/driver.def"
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    EXPECT_EQ(complaints(), "");
    // Under the sanitizers the libraries stay open, because what a closed library still holds counts as a
    // leak; ctest then runs each test in its own process.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (!hip) {
      dlclose(compiler_);
    }
    dlclose(driver_);
#endif
  }

  // What the fake complained about since the last call.
  std::string complaints() {
    std::ifstream file(report_path());
    std::string text(std::istreambuf_iterator<char>(file), {});
    if (!text.empty()) {  // a line that is being written into an empty file must not be lost
      std::filesystem::remove(report_path());
    }
    for (void* library : {driver_, compiler_}) {
      reinterpret_cast<int (*)(int)>(dlsym(library, "fake_gpu_report"))(1);
    }
    return text;
  }

  template <class Signature>
  Signature* find(void* library, const char* name) {
    void* address = dlsym(library, name);
    EXPECT_NE(address, nullptr) << name;
    return reinterpret_cast<Signature*>(address);
  }

  // Initializes the driver and makes the context of a device current.
  void use(int ordinal = 0) {
    ASSERT_EQ(init(0), 0);
    int device = 0;
    ASSERT_EQ(device_get(&device, ordinal), 0);
    void* context = nullptr;
    ASSERT_EQ(context_retain(&context, device), 0);
    ASSERT_EQ(context_set(context), 0);
  }

  std::vector<std::string> options() const {
    return hip ? std::vector<std::string>{"--offload-arch=gfx90a", "-ffp-contract=off"}
               : std::vector<std::string>{"--gpu-architecture=sm_90", "--fmad=false"};
  }

  // Compiles; returns the error number.
  int compile(const std::string& source, const std::vector<std::string>& words, std::string& image,
              std::string& log) {
    std::vector<const char*> pointers;
    for (const auto& word : words) {
      pointers.push_back(word.c_str());
    }
    void* program = nullptr;
    EXPECT_EQ(compiler_create(&program, source.c_str(), "test", 0, nullptr, nullptr), 0);
    const int code = compiler_compile(program, static_cast<int>(pointers.size()), pointers.data());
    std::size_t size = 0;
    EXPECT_EQ(compiler_log_size(program, &size), 0);
    log.resize(size);
    EXPECT_EQ(compiler_log(program, log.data()), 0);
    log.resize(size - 1);
    EXPECT_EQ(compiler_code_size(program, &size), 0);
    image.resize(size);
    EXPECT_EQ(compiler_code(program, image.data()), 0);
    EXPECT_EQ(compiler_destroy(&program), 0);
    return code;
  }

  // Compiles and loads a text; returns its module.
  void* load(const std::string& source) {
    std::string image;
    std::string log;
    EXPECT_EQ(compile(source, options(), image, log), 0) << log;
    void* module = nullptr;
    EXPECT_EQ(module_load(&module, image.data()), 0);
    return module;
  }

  void* function(void* module, const char* name) {
    void* result = nullptr;
    EXPECT_EQ(module_function(&result, module, name), 0);
    return result;
  }

  template <class... A>
  int launch_1d(void* stream, void* kernel, unsigned blocks, unsigned threads, A... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    return launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
  }

  void* new_stream() {
    void* stream = nullptr;
    EXPECT_EQ(stream_create(&stream, 1, 0), 0);
    return stream;
  }

  Address new_memory(std::size_t byte_count) {
    Address address = 0;
    EXPECT_EQ(memory_allocate(&address, byte_count), 0);
    return address;
  }

  template <class T>
  Address upload(void* stream, const std::vector<T>& values) {
    const Address address = new_memory(values.size() * sizeof(T));
    EXPECT_EQ(copy_from_host(address, values.data(), values.size() * sizeof(T), stream), 0);
    return address;
  }

  template <class T>
  std::vector<T> download(void* stream, Address address, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(copy_to_host(values.data(), address, count * sizeof(T), stream), 0);
    EXPECT_EQ(stream_synchronize(stream), 0);
    return values;
  }

  // Queues a function that runs on the stream's thread.
  int call_on_stream(void* stream, void (*body)(void*), void* data) {
    if (!hip) {
      return find<int(void*, void (*)(void*), void*)>(driver_, "cuLaunchHostFunc")(stream, body, data);
    }
    call_ = {body, data};
    const auto callback = [](void*, int, void* call) {
      static_cast<Call*>(call)->body(static_cast<Call*>(call)->data);
    };
    return find<int(void*, void (*)(void*, int, void*), void*, unsigned)>(driver_, "hipStreamAddCallback")(
        stream, callback, &call_, 0);
  }

#define YOKE_DRIVER(member, parameters, cuda, hip_name) int(*member) parameters = nullptr;
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) int(*compiler_##member) parameters = nullptr;
#include "gpu/driver.def"

  const bool hip;

 private:
  struct Call {
    void (*body)(void*) = nullptr;
    void* data = nullptr;
  };

  static std::string report_path() {
    return testing::TempDir() + "/fake_gpu_report_" + std::to_string(getpid());
  }
  static std::map<std::string, std::string> with_report(std::map<std::string, std::string> variables) {
    variables["FAKE_GPU_REPORT"] = report_path();
    return variables;
  }

  Variables variables_;
  void* driver_ = nullptr;
  void* compiler_ = nullptr;
  Call call_;
};

// Holds a stream until it is opened.
class Gate {
 public:
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open_) {
      std::this_thread::yield();
    }
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_ = false;
};

class FakeGpu : public testing::TestWithParam<bool> {};

}  // namespace fake_gpu_test
