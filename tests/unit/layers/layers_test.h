// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/layers_test.h: a host that reaches a fake backend through layers. A test plants one wrong
// behavior in the tables or hooks of `control`.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/runtime/layers.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../abi/loaded_plugin.h"
#include "fake_backend.h"

namespace yoke::test {

// The latest host that the plugin received.
inline const yoke_host_api* plugin_host = nullptr;

// Sets an error and returns `code`, like a failed call of the plugin.
inline std::int32_t fail(yoke_error* error, std::int32_t code, const char* text) {
  plugin_host->error_set(error, code, 0, text, std::strlen(text));
  return code;
}

// Copies and launches return OK and do nothing, so that a test may break the rules for them.
inline void do_no_work(Control& control, std::int32_t source = YOKE_SOURCE_COPIED) {
  static std::int32_t word = 0;
  word = source;
  control.backend.from_host = [](auto, auto, auto, auto, auto, std::int32_t* out_source, auto) {
    *out_source = word;
    return YOKE_STATUS_OK;
  };
  control.backend.to_host = [](auto...) { return YOKE_STATUS_OK; };
  control.program.routine_launch = [](auto...) { return YOKE_STATUS_OK; };
}

inline const std::vector<std::byte> kData(64);

class LayersTest : public ::testing::Test {
 protected:
  LayersTest() {
    control->name = "fake";
    control->provides.streams = true;
    host.api().allocate = [](void*, std::uint64_t byte_count, std::uint64_t alignment) {
      return std::aligned_alloc(alignment, (byte_count + alignment) / alignment * alignment);
    };
    host.api().deallocate = [](void*, void* memory) { std::free(memory); };
  }
  ~LayersTest() override {
    on_line = nullptr;
    control->on_destroy = nullptr;
    for (auto end = at_end_.rbegin(); end != at_end_.rend(); ++end) {
      (*end)();
    }
    session.reset();  // may log
  }

  void enter(const std::string& names = "validate", bool fail_calls = false) {
    LayerOptions options;
    options.names = names;
    options.use_environment = false;
    options.fail_calls = fail_calls;
    options.trace_file = trace_file;
    options.trace_data = trace_data;
    options.strict = strict;
    session = layers::open_session(options, [this](LogLevel, std::string_view line) {
      lines.emplace_back(line);
      if (on_line) {
        on_line();
      }
    });
    const yoke_entry_args args = host.args();
    const std::int32_t code = layers::enter(session, entry_of(0, control), &args, &plugin, error());
    plugin_host = control->host;
    ASSERT_EQ(code, YOKE_STATUS_OK) << status.text;
    at_end_.emplace_back([shown = plugin] { shown->destroy(shown); });
    backend = static_cast<const yoke_backend_api*>(plugin->get_table(plugin, YOKE_BACKEND_TABLE));
    streams = static_cast<const yoke_stream_api*>(plugin->get_table(plugin, YOKE_STREAM_TABLE));
    programs = static_cast<const yoke_program_api*>(plugin->get_table(plugin, YOKE_PROGRAM_TABLE));
    device = open_device(0);
  }
  yoke_device* open_device(std::uint32_t ordinal) {
    auto device_args = sized<yoke_device_args>();
    device_args.ordinal = ordinal;
    yoke_device* opened = nullptr;
    EXPECT_EQ(backend->device_open(plugin, &device_args, &opened, error()), YOKE_STATUS_OK);
    at_end_.emplace_back([table = backend, opened] { table->device_close(opened, nullptr); });
    return opened;
  }

  yoke_error* error() {
    status = {};
    return &status;
  }
  yoke_buffer* make_buffer(std::uint64_t byte_count) {
    yoke_buffer_args buffer_args{sizeof(buffer_args), 0, byte_count, YOKE_MEMORY_DEVICE, 0};
    yoke_buffer* buffer = nullptr;
    EXPECT_EQ(backend->buffer_create(device, &buffer_args, &buffer, error()), YOKE_STATUS_OK);
    at_end_.emplace_back([table = backend, buffer] { table->buffer_destroy(buffer); });
    return buffer;
  }
  yoke_stream* make_stream() {
    yoke_stream_args stream_args{sizeof(stream_args), 0, 0, 0};
    yoke_stream* stream = nullptr;
    EXPECT_EQ(streams->stream_create(device, &stream_args, &stream, error()), YOKE_STATUS_OK);
    at_end_.emplace_back([table = streams, stream] { table->stream_destroy(stream); });
    return stream;
  }
  yoke_event* record(yoke_stream* stream, std::uint64_t flags = 0) {
    yoke_event_args event_args{sizeof(event_args), flags};
    yoke_event* event = nullptr;
    EXPECT_EQ(streams->event_record(stream, &event_args, &event, error()), YOKE_STATUS_OK);
    at_end_.emplace_back([table = streams, event] { table->event_destroy(event); });
    return event;
  }
  std::int32_t copy_in(yoke_stream* stream, yoke_buffer* buffer, const void* from, std::uint64_t byte_count,
                       std::uint64_t offset = 0) {
    std::int32_t source = 0;
    return backend->from_host(stream, buffer, offset, from, byte_count, &source, error());
  }
  std::int32_t count_devices() {
    std::uint32_t count = 0;
    char reason[64] = {};
    return backend->device_count(plugin, &count, reason, sizeof(reason), error());
  }
  yoke_code* compile(const char* text) {
    const yoke_compile_args compile_args = as_text(text);
    yoke_code* code = nullptr;
    EXPECT_EQ(programs->code_compile(device, &compile_args, &code, error()), YOKE_STATUS_OK);
    at_end_.emplace_back([table = programs, code] { table->code_destroy(code); });
    return code;
  }
  yoke_routine* link(yoke_code* code, const std::vector<yoke_binding>& bindings) {
    auto link_args = sized<yoke_link_args>();
    link_args.bindings = bindings.data();
    link_args.binding_count = static_cast<std::uint32_t>(bindings.size());
    link_args.binding_stride = sizeof(yoke_binding);
    yoke_routine* routine = nullptr;
    programs->routine_link(code, &link_args, &routine, error());
    at_end_.emplace_back([table = programs, routine] { table->routine_destroy(routine); });
    return routine;
  }

  // "15 host buffer_destroy" for each violation. Warnings are separate: a busy machine may add some.
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

  std::shared_ptr<Control> control = std::make_shared<Control>();
  std::filesystem::path trace_file;
  bool trace_data = false;
  bool strict = false;
  std::shared_ptr<layers::Session> session;
  std::vector<std::string> lines;  // that the layers logged
  std::function<void()> on_line;   // for each of them
  yoke_error status;
  yoke_plugin* plugin = nullptr;
  const yoke_backend_api* backend = nullptr;
  const yoke_stream_api* streams = nullptr;
  const yoke_program_api* programs = nullptr;
  yoke_device* device = nullptr;
  TestHost host;

 private:
  std::vector<std::function<void()>> at_end_;  // run in reverse
};

}  // namespace yoke::test
