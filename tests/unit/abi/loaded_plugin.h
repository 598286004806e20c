// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/loaded_plugin.h: a host for tests that call a plugin through its tables.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/peer.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "test_paths.h"

// The ABI's opaque status object, as these tests define it.
struct yoke_error {
  std::int32_t code = -1;
  std::int64_t vendor_code = 0;
  std::string text;
};

namespace yoke::test {

// A host that stores the lines that a plugin logs.
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
  return test::plugin_folder() + "/libyoke_backend_" + backend + ".so";
}

// The entry function of a built plugin, which stays mapped.
inline yoke_plugin_entry_fn entry_of_plugin(const std::string& backend) {
  void* file = ::dlopen(plugin_path(backend).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    ADD_FAILURE() << ::dlerror();
    return nullptr;
  }
  return reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL));
}

// A zeroed struct of arguments or information with its size.
template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

inline yoke_compile_args as_text(std::string_view bytes) {
  auto args = sized<yoke_compile_args>();
  args.format = YOKE_PROGRAM_FORMAT;
  args.text = bytes.data();
  args.byte_count = bytes.size();
  args.version = YOKE_PROGRAM_VERSION;
  return args;
}

// An entered plugin and its tables. The destructor checks that no object of the plugin is alive.
class Entered {
 public:
  // `change` may modify the host's table first. `options` are those of the whole plugin, as text.
  explicit Entered(yoke_plugin_entry_fn entry, const std::function<void(yoke_host_api&)>& change = {},
                   const std::vector<yoke_option>& options = {}) {
    if (change) {
      change(host.api());
    }
    yoke_entry_args args = host.args();
    args.options = options.data();
    args.option_count = static_cast<std::uint32_t>(options.size());
    args.option_stride = sizeof(yoke_option);
    EXPECT_EQ(entry(&args, &plugin, &error), YOKE_STATUS_OK) << error.text;
    backend = table<yoke_backend_api>(YOKE_BACKEND_TABLE);
    streams = table<yoke_stream_api>(YOKE_STREAM_TABLE);
    programs = table<yoke_program_api>(YOKE_PROGRAM_TABLE);
    peers = table<yoke_peer_api>(YOKE_PEER_TABLE);
    memory = table<yoke_memory_api>(YOKE_MEMORY_TABLE);
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
    auto live = sized<yoke_live_counts>();
    EXPECT_EQ(backend->live_counts(plugin, &live, &error), YOKE_STATUS_OK) << error.text;
    return live;
  }
  yoke_device* open(std::uint32_t ordinal = 0, const std::vector<yoke_option>& options = {}) {
    yoke_device* device = nullptr;
    EXPECT_EQ(try_open(ordinal, options, &device), YOKE_STATUS_OK) << error.text;
    return device;
  }
  std::int32_t try_open(std::uint32_t ordinal, const std::vector<yoke_option>& options,
                        yoke_device** device) {
    auto args = sized<yoke_device_args>();
    args.options = options.data();
    args.option_count = static_cast<std::uint32_t>(options.size());
    args.option_stride = sizeof(yoke_option);
    args.ordinal = ordinal;
    return backend->device_open(plugin, &args, device, &error);
  }
  void close(yoke_device* device) {
    EXPECT_EQ(backend->device_close(device, &error), YOKE_STATUS_OK) << error.text;
  }
  yoke_buffer* buffer(yoke_device* device, std::uint64_t byte_count) {
    yoke_buffer* made = nullptr;
    EXPECT_EQ(try_buffer(device, byte_count, YOKE_MEMORY_DEVICE, &made), YOKE_STATUS_OK) << error.text;
    return made;
  }
  std::int32_t try_buffer(yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                          yoke_buffer** buffer) {
    auto args = sized<yoke_buffer_args>();
    args.byte_count = byte_count;
    args.kind = kind;
    return backend->buffer_create(device, &args, buffer, &error);
  }
  yoke_code* compile(yoke_device* device, std::string_view text) {
    const yoke_compile_args args = as_text(text);
    yoke_code* code = nullptr;
    EXPECT_EQ(programs->code_compile(device, &args, &code, &error), YOKE_STATUS_OK) << error.text;
    return code;
  }
  // A buffer as large as the workspace of an entry; null if the entry needs none.
  yoke_buffer* workspace(yoke_device* device, yoke_code* code, std::uint32_t entry) {
    auto info = sized<yoke_entry_info>();
    EXPECT_EQ(programs->code_describe(code, entry, &info, &error), YOKE_STATUS_OK) << error.text;
    return info.workspace_byte_count == 0 ? nullptr : buffer(device, info.workspace_byte_count);
  }
  // Links an entry to whole buffers. `workspace` may be null.
  yoke_routine* link(yoke_code* code, std::uint32_t entry, const std::vector<yoke_buffer*>& buffers,
                     yoke_buffer* workspace) {
    std::vector<yoke_binding> bindings;
    for (yoke_buffer* buffer : buffers) {
      bindings.push_back(whole(buffer));
    }
    const yoke_binding work = whole(workspace);
    auto args = sized<yoke_link_args>();
    args.bindings = bindings.data();
    args.binding_count = static_cast<std::uint32_t>(bindings.size());
    args.binding_stride = sizeof(yoke_binding);
    args.workspace = workspace == nullptr ? nullptr : &work;
    args.entry = entry;
    yoke_routine* routine = nullptr;
    EXPECT_EQ(programs->routine_link(code, &args, &routine, &error), YOKE_STATUS_OK) << error.text;
    return routine;
  }
  // A binding of the whole buffer, which may be null.
  yoke_binding whole(yoke_buffer* buffer) {
    auto info = sized<yoke_buffer_info>();
    if (buffer != nullptr) {
      EXPECT_EQ(backend->buffer_describe(buffer, &info, &error), YOKE_STATUS_OK) << error.text;
    }
    return {buffer, 0, info.byte_count, 0};
  }

  TestHost host;
  yoke_error error;
  yoke_plugin* plugin = nullptr;
  const yoke_backend_api* backend = nullptr;
  const yoke_stream_api* streams = nullptr;
  const yoke_program_api* programs = nullptr;
  const yoke_peer_api* peers = nullptr;
  const yoke_memory_api* memory = nullptr;
};

inline yoke_option integer_option(const char* name, std::int64_t value) {
  return {name, YOKE_OPTION_INTEGER, 0, value, 0, nullptr};
}
inline yoke_option text_option(const char* name, const char* value) {
  return {name, YOKE_OPTION_TEXT, 0, 0, 0, value};
}

}  // namespace yoke::test
