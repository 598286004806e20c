// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/crooked.h: a small plugin in plain C style, right as it stands, whose tables a test
// bends; and a host that reaches it through layers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/backend.h>
#include <yoke/runtime/layers.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct yoke_device {
  std::uint64_t used = 0;
};
struct yoke_buffer {
  yoke_device* device = nullptr;
  std::vector<std::byte> bytes;
};
struct yoke_stream {};
struct yoke_event {};
struct yoke_code {};
struct yoke_routine {};

namespace yoke::test {

// One at a time; every test begins with a fresh one.
struct Crooked {
  yoke_plugin prefix{};
  yoke_host_api host{};
  yoke_backend_api backend{};
  yoke_stream_api stream{};
  yoke_program_api program{};
  yoke_live_counts live{};
  bool is_done = true;             // what streams and events say
  std::int32_t failure = YOKE_OK;  // what they answer
  std::int32_t source = YOKE_SOURCE_COPIED;
  std::atomic<int> calls{0};
  std::function<void()> on_call;  // in from_host
  std::function<void()> on_entry, on_table, on_destroy;
};

inline Crooked*& crooked() {
  static Crooked* current = nullptr;
  return current;
}

inline std::int32_t fail(yoke_error* error, std::int32_t code, const char* text) {
  crooked()->host.error_set(error, code, 0, text, std::strlen(text));
  return code;
}

namespace calls {

inline std::int32_t device_count(yoke_plugin*, std::uint32_t* out_count, yoke_error*) {
  *out_count = 1;
  return YOKE_OK;
}
inline std::int32_t device_describe(yoke_plugin*, std::uint32_t, yoke_device_info* info, yoke_error*) {
  std::strcpy(info->name, "crooked");
  info->kind = YOKE_DEVICE_OTHER;
  info->compute_unit_count = info->suggested_stream_count = 1;
  return YOKE_OK;
}
inline std::int32_t device_open(yoke_plugin*, std::uint32_t, const yoke_option*, std::uint32_t,
                                yoke_device** out_device, yoke_error*) {
  *out_device = new yoke_device;
  ++crooked()->live.devices;
  return YOKE_OK;
}
inline std::int32_t device_close(yoke_device* device, yoke_error* error) {
  const auto& live = crooked()->live;
  if (live.buffers + live.streams + live.events + live.codes + live.routines != 0) {
    return fail(error, YOKE_FAILED_PRECONDITION, "objects are alive");
  }
  --crooked()->live.devices;
  delete device;
  return YOKE_OK;
}
inline std::int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error*) {
  info->used_bytes = info->peak_bytes = device->used;
  return YOKE_OK;
}
inline std::int32_t buffer_create(yoke_device* device, std::uint64_t byte_count, std::int32_t,
                                  yoke_buffer** out_buffer, yoke_error*) {
  *out_buffer = new yoke_buffer{device, std::vector<std::byte>(byte_count)};
  device->used += byte_count;
  ++crooked()->live.buffers;
  return YOKE_OK;
}
inline void buffer_destroy(yoke_buffer* buffer) {
  if (buffer != nullptr) {
    buffer->device->used -= buffer->bytes.size();
    --crooked()->live.buffers;
    delete buffer;
  }
}
inline std::int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error*) {
  info->byte_count = buffer->bytes.size();
  return YOKE_OK;
}
inline bool leaves(const yoke_buffer* buffer, std::uint64_t offset, std::uint64_t byte_count) {
  return offset > buffer->bytes.size() || byte_count > buffer->bytes.size() - offset;
}
inline std::int32_t from_host(yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, const void* src,
                              std::uint64_t byte_count, std::int32_t* out_source, yoke_error* error) {
  ++crooked()->calls;
  if (crooked()->on_call) {
    crooked()->on_call();
  }
  if (leaves(dst, offset, byte_count)) {
    return fail(error, YOKE_OUT_OF_RANGE, "the range leaves the buffer");
  }
  if (byte_count != 0) {
    std::memcpy(dst->bytes.data() + offset, src, byte_count);
  }
  if (out_source != nullptr) {
    *out_source = stream == nullptr ? YOKE_SOURCE_COPIED : crooked()->source;
  }
  return YOKE_OK;
}
inline std::int32_t to_host(yoke_stream*, yoke_buffer* src, std::uint64_t offset, void* dst,
                            std::uint64_t byte_count, yoke_error* error) {
  if (leaves(src, offset, byte_count)) {
    return fail(error, YOKE_OUT_OF_RANGE, "the range leaves the buffer");
  }
  std::memcpy(dst, src->bytes.data() + offset, byte_count);
  return YOKE_OK;
}
inline std::int32_t live_counts(yoke_plugin*, yoke_live_counts* counts, yoke_error*) {
  const std::uint64_t size = counts->struct_size;
  *counts = crooked()->live;
  counts->struct_size = size;
  return YOKE_OK;
}
inline std::int32_t option_specs(yoke_plugin*, std::uint32_t capacity, yoke_option_spec* specs,
                                 std::uint32_t* out_count, yoke_error*) {
  for (std::uint32_t i = 0; i < std::min(capacity, 2U); ++i) {
    specs[i].name = i == 0 ? "first" : "second";
  }
  *out_count = 2;
  return YOKE_OK;
}

template <class Handle, std::uint64_t yoke_live_counts::*kCount>
std::int32_t make(Handle** out) {
  *out = new Handle;
  ++(crooked()->live.*kCount);
  return YOKE_OK;
}
template <class Handle, std::uint64_t yoke_live_counts::*kCount>
void end(Handle* handle) {
  --(crooked()->live.*kCount);
  delete handle;
}
inline std::int32_t say(std::int32_t* out_done, yoke_error* error) {
  if (crooked()->failure != YOKE_OK) {
    return fail(error, crooked()->failure, "the work failed");
  }
  *out_done = crooked()->is_done ? 1 : 0;
  return YOKE_OK;
}
inline std::int32_t wait(std::uint64_t timeout_ns, yoke_error* error) {
  if (crooked()->failure != YOKE_OK) {
    return fail(error, crooked()->failure, "the work failed");
  }
  if (!crooked()->is_done) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(timeout_ns));
    return fail(error, YOKE_DEADLINE_EXCEEDED, "it is not done");
  }
  return YOKE_OK;
}
inline std::int32_t stream_create(yoke_device*, std::int32_t, yoke_stream** out, yoke_error*) {
  return make<yoke_stream, &yoke_live_counts::streams>(out);
}
inline std::int32_t stream_query(yoke_stream*, std::int32_t* out_done, yoke_error* error) {
  return say(out_done, error);
}
inline std::int32_t stream_wait(yoke_stream*, std::uint64_t timeout_ns, yoke_error* error) {
  return wait(timeout_ns, error);
}
inline std::int32_t event_record(yoke_stream*, yoke_event** out, yoke_error*) {
  return make<yoke_event, &yoke_live_counts::events>(out);
}
inline std::int32_t event_query(yoke_event*, std::int32_t* out_done, yoke_error* error) {
  return say(out_done, error);
}
inline std::int32_t event_wait(yoke_event*, std::uint64_t timeout_ns, yoke_error* error) {
  return wait(timeout_ns, error);
}
inline std::int32_t stream_wait_event(yoke_stream*, yoke_event*, yoke_error*) {
  return YOKE_OK;
}
inline std::int32_t formats(yoke_plugin*, std::uint32_t, yoke_format*, std::uint32_t* out_count,
                            yoke_error*) {
  *out_count = 0;
  return YOKE_OK;
}
inline std::int32_t can_compile(yoke_device*, const yoke_program_text*, std::uint32_t, yoke_verdict*,
                                std::uint32_t* out_count, yoke_error*) {
  *out_count = 0;
  return YOKE_OK;
}
inline std::int32_t code_compile(yoke_device*, const yoke_program_text*, yoke_code** out, yoke_error*) {
  return make<yoke_code, &yoke_live_counts::codes>(out);
}
inline std::int32_t code_entry_count(yoke_code*, std::uint32_t* out_count, yoke_error*) {
  *out_count = 1;
  return YOKE_OK;
}
inline std::int32_t code_describe(yoke_code*, std::uint32_t, yoke_entry_info*, yoke_error*) {
  return YOKE_OK;
}
inline std::int32_t code_argument(yoke_code*, std::uint32_t, std::uint32_t, yoke_argument_info*,
                                  yoke_error*) {
  return YOKE_OK;
}
inline std::int32_t routine_link(yoke_code*, std::uint32_t, const yoke_binding*, std::uint32_t, yoke_buffer*,
                                 std::uint64_t, yoke_routine** out, yoke_error*) {
  return make<yoke_routine, &yoke_live_counts::routines>(out);
}
inline std::int32_t routine_launch(yoke_stream*, yoke_routine*, const std::int64_t*, std::uint32_t,
                                   yoke_error*) {
  ++crooked()->calls;
  return YOKE_OK;
}

inline const void* get_table(yoke_plugin*, const char* id) {
  const std::string_view asked(id);
  Crooked& self = *crooked();
  const void* table = nullptr;
  if (self.on_table) {
    self.on_table();
  }
  if (asked == YOKE_BACKEND_TABLE) {
    table = &self.backend;
  } else if (asked == YOKE_STREAM_TABLE) {
    table = &self.stream;
  } else if (asked == YOKE_PROGRAM_TABLE) {
    table = &self.program;
  } else if (asked == "org.example.private/1") {
    table = &self.live;
  }
  return table;
}
inline void destroy(yoke_plugin*) {
  if (crooked()->on_destroy) {
    crooked()->on_destroy();
  }
}

}  // namespace calls

inline std::int32_t enter_crooked(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error*) {
  Crooked& self = *crooked();
  self.host = *args->host;
  if (self.on_entry) {
    self.on_entry();
  }
  self.prefix.magic = YOKE_PLUGIN_MAGIC;
  self.prefix.prefix_size = sizeof(self.prefix);
  self.prefix.abi_major = args->max_major;
  self.prefix.abi_minor = args->max_minor;
  self.prefix.backend_name = "crooked";
  self.prefix.plugin_version = "1.0";
  self.prefix.vendor = "test";
  self.prefix.destroy = calls::destroy;
  self.prefix.get_table = calls::get_table;
  *out_plugin = &self.prefix;
  return YOKE_OK;
}

inline std::unique_ptr<Crooked> make_crooked() {
  using namespace calls;
  auto self = std::make_unique<Crooked>();
  self->backend = {sizeof(yoke_backend_api),
                   device_count,
                   device_describe,
                   device_open,
                   device_close,
                   device_memory,
                   buffer_create,
                   buffer_destroy,
                   buffer_describe,
                   from_host,
                   to_host,
                   nullptr,
                   nullptr,
                   live_counts,
                   option_specs};
  self->stream = {sizeof(yoke_stream_api),
                  stream_create,
                  end<yoke_stream, &yoke_live_counts::streams>,
                  stream_query,
                  stream_wait,
                  event_record,
                  end<yoke_event, &yoke_live_counts::events>,
                  event_query,
                  event_wait,
                  stream_wait_event,
                  nullptr,
                  nullptr,
                  nullptr};
  self->program = {sizeof(yoke_program_api),
                   formats,
                   can_compile,
                   code_compile,
                   end<yoke_code, &yoke_live_counts::codes>,
                   code_entry_count,
                   code_describe,
                   code_argument,
                   routine_link,
                   end<yoke_routine, &yoke_live_counts::routines>,
                   routine_launch};
  crooked() = self.get();
  return self;
}

// A host: its status object, its log, and the tables as the layers give them.
class LayersTest : public ::testing::Test {
 protected:
  LayersTest() : plugin_side(make_crooked()) {
    host_.host = this;
    host_.log = [](void* self, std::int32_t, const char*, std::uint64_t) {
      if (const auto& act = static_cast<LayersTest*>(self)->on_log) {
        act();
      }
    };
    host_.error_set = [](yoke_error* error, std::int32_t code, std::int64_t, const char* text,
                         std::uint64_t length) {
      if (error != nullptr) {
        auto& target = *reinterpret_cast<Status*>(error);
        target.code = code;
        target.text.assign(text, length);
      }
    };
    host_.trace_begin = [](void*, const char*) {};
    host_.trace_end = [](void*) {};
    host_.allocate = [](void*, std::uint64_t byte_count, std::uint64_t) { return std::malloc(byte_count); };
    host_.deallocate = [](void*, void* memory) { std::free(memory); };
  }

  ~LayersTest() override {
    plugin_side->on_destroy = nullptr;
    on_line = nullptr;
    for (yoke_plugin* const one : entered_) {
      one->destroy(one);  // else its devices stay open, and later tests may not fork
    }
  }

  struct Status {
    std::int32_t code = 0;
    std::string text;
  };

  void enter(const std::string& names = "validate", bool fail_calls = false) {
    LayerOptions options;
    options.names = names;
    options.use_environment = false;
    options.fail_calls = fail_calls;
    options.trace_file = trace_file;
    options.trace_data = trace_data;
    session = layers::open_session(options, [this](LogLevel, std::string_view line) {
      lines.emplace_back(line);
      if (on_line) {
        on_line();
      }
    });
    yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
    args.host = &host_;
    ASSERT_EQ(layers::enter(session, enter_crooked, &args, &plugin, error()), YOKE_OK);
    entered_.push_back(plugin);
    backend = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
    streams = static_cast<const yoke_stream_api*>(plugin->get_table(plugin, YOKE_STREAM_TABLE));
    programs = static_cast<const yoke_program_api*>(plugin->get_table(plugin, YOKE_PROGRAM_TABLE));
    ASSERT_EQ(backend->device_open(plugin, 0, nullptr, 0, &device, error()), YOKE_OK);
  }
  yoke_error* error() {
    status = {};
    return reinterpret_cast<yoke_error*>(&status);
  }
  yoke_buffer* make_buffer(std::uint64_t byte_count) {
    yoke_buffer* buffer = nullptr;
    EXPECT_EQ(backend->buffer_create(device, byte_count, YOKE_MEMORY_DEVICE, &buffer, error()), YOKE_OK);
    return buffer;
  }
  yoke_stream* make_stream() {
    yoke_stream* stream = nullptr;
    EXPECT_EQ(streams->stream_create(device, 0, &stream, error()), YOKE_OK);
    return stream;
  }
  yoke_event* record(yoke_stream* stream) {
    yoke_event* event = nullptr;
    EXPECT_EQ(streams->event_record(stream, &event, error()), YOKE_OK);
    return event;
  }
  std::int32_t copy_in(yoke_stream* stream, yoke_buffer* buffer, const void* from, std::uint64_t byte_count,
                       std::uint64_t offset = 0) {
    std::int32_t source = 0;
    return backend->from_host(stream, buffer, offset, from, byte_count, &source, error());
  }
  yoke_code* compile(const char* text) {
    const yoke_program_text program = {sizeof(program), YOKE_PROGRAM_FORMAT, 1, 0, text, std::strlen(text)};
    yoke_code* code = nullptr;
    EXPECT_EQ(programs->code_compile(device, &program, &code, error()), YOKE_OK);
    return code;
  }
  yoke_routine* link(yoke_code* code, const std::vector<yoke_binding>& bindings) {
    yoke_routine* routine = nullptr;
    EXPECT_EQ(programs->routine_link(code, 0, bindings.data(), static_cast<std::uint32_t>(bindings.size()),
                                     nullptr, 0, &routine, error()),
              YOKE_OK);
    return routine;
  }

  // "15 host buffer_destroy", one per violation. Warnings apart: on a busy machine there may be more of them.
  std::vector<std::string> found(bool warnings = false) const {
    std::vector<std::string> all;
    for (const Violation& one : layers::validation(*session).first) {
      if (one.is_warning == warnings) {
        all.push_back(std::to_string(one.rule) + (one.who == Culprit::kHost ? " host " : " plugin ") +
                      one.call);
      }
    }
    return all;
  }

  std::unique_ptr<Crooked> plugin_side;
  std::filesystem::path trace_file;
  bool trace_data = false;
  std::shared_ptr<layers::Session> session;
  std::vector<std::string> lines;  // of the layers
  std::function<void()> on_line;   // of the layers
  std::function<void()> on_log;
  Status status;
  yoke_plugin* plugin = nullptr;
  const yoke_backend_api* backend = nullptr;
  const yoke_stream_api* streams = nullptr;
  const yoke_program_api* programs = nullptr;
  yoke_device* device = nullptr;

 private:
  yoke_host_api host_ = YOKE_HOST_API_INIT;
  std::vector<yoke_plugin*> entered_;
};

}  // namespace yoke::test
