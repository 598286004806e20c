// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/loaded_plugin.h: a host for tests that talk to a plugin through its tables alone.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <yoke/ext/peer.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

// What is behind the ABI's opaque status object in these tests.
struct yoke_error {
  std::int32_t code = -1;
  std::int64_t vendor_code = 0;
  std::string text;
};

namespace yoke::test {

// Keeps what a plugin logs.
class TestHost {
 public:
  TestHost() {
    api_.host = this;
    api_.log = [](void* host, std::int32_t level, const char* text, std::uint64_t length) {
      auto* self = static_cast<TestHost*>(host);
      const std::lock_guard<std::mutex> lock(self->mutex_);
      self->lines_.push_back(std::to_string(level) + " " + std::string(text, length));
    };
    api_.error_set = [](yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
                        std::uint64_t length) {
      if (error != nullptr) {
        *error = {code, vendor_code, std::string(text, length)};
      }
    };
    api_.trace_begin = [](void*, const char*) {};
    api_.trace_end = [](void*) {};
  }

  yoke_entry_args args() const {
    yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
    args.host = &api_;
    return args;
  }
  yoke_host_api& api() { return api_; }
  std::vector<std::string> lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  yoke_host_api api_ = YOKE_HOST_API_INIT;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

inline std::string plugin_path(const std::string& backend) {
  return std::string(YOKE_TEST_PLUGIN_DIR) + "/libyoke_backend_" + backend + ".so";
}

// The entry of a built plugin, which stays mapped.
inline yoke_plugin_entry_fn entry_of_plugin(const std::string& backend) {
  void* file = ::dlopen(plugin_path(backend).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    ADD_FAILURE() << ::dlerror();
    return nullptr;
  }
  return reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL));
}

// An entered plugin and its tables. Destruction checks that nothing was left alive.
class Entered {
 public:
  // `change` may change the host's table before the plugin sees it.
  explicit Entered(yoke_plugin_entry_fn entry, const std::function<void(yoke_host_api&)>& change = {}) {
    if (change) {
      change(host.api());
    }
    const yoke_entry_args args = host.args();
    EXPECT_EQ(entry(&args, &plugin, &error), YOKE_OK) << error.text;
    backend = table<yoke_backend_api>(YOKE_BACKEND_TABLE);
    streams = table<yoke_stream_api>(YOKE_STREAM_TABLE);
    programs = table<yoke_program_api>(YOKE_PROGRAM_TABLE);
    peers = table<yoke_peer_api>(YOKE_PEER_TABLE);
  }
  ~Entered() {
    const yoke_live_counts live = live_counts();
    EXPECT_EQ(live.devices + live.buffers + live.streams + live.events + live.codes + live.routines, 0U)
        << "a test left objects of the plugin alive";
    plugin->destroy(plugin);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

  template <class T>
  const T* table(const char* id) const {
    return static_cast<const T*>(plugin->get_table(plugin, id));
  }
  yoke_live_counts live_counts() {
    yoke_live_counts live{};
    live.struct_size = sizeof live;
    EXPECT_EQ(backend->live_counts(plugin, &live, &error), YOKE_OK) << error.text;
    return live;
  }
  yoke_device* open(std::uint32_t ordinal = 0, const std::vector<yoke_option>& options = {}) {
    yoke_device* device = nullptr;
    EXPECT_EQ(backend->device_open(plugin, ordinal, options.data(),
                                   static_cast<std::uint32_t>(options.size()), &device, &error),
              YOKE_OK)
        << error.text;
    return device;
  }
  void close(yoke_device* device) { EXPECT_EQ(backend->device_close(device, &error), YOKE_OK) << error.text; }
  yoke_buffer* buffer(yoke_device* device, std::uint64_t byte_count) {
    yoke_buffer* made = nullptr;
    EXPECT_EQ(backend->buffer_create(device, byte_count, YOKE_MEMORY_DEVICE, &made, &error), YOKE_OK)
        << error.text;
    return made;
  }

  TestHost host;
  yoke_error error;
  yoke_plugin* plugin = nullptr;
  const yoke_backend_api* backend = nullptr;
  const yoke_stream_api* streams = nullptr;
  const yoke_program_api* programs = nullptr;
  const yoke_peer_api* peers = nullptr;
};

inline yoke_program_text as_text(std::string_view bytes) {
  return {
      sizeof(yoke_program_text), YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0, bytes.data(), bytes.size()};
}

inline yoke_option integer_option(const char* name, std::int64_t value) {
  return {sizeof(yoke_option), name, YOKE_OPTION_INTEGER, 0, value, 0, nullptr};
}

}  // namespace yoke::test
