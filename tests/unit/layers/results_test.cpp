// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/results_test.cpp: the layer validate checks results, texts and handles against the
// limits of the rules, and does not blame plugins that reach the limits.
#include <yoke/ext/memory.h>

#include <functional>
#include <utility>

#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOne = "yoke.program 1\nprogram one() {\n  arg a : f32[4] out\n  a[i] = 1.0\n}\n";
constexpr std::uint64_t kSecond = 1'000'000'000;

class PluginResults : public LayersTest {
 protected:
  // The violations since the last call.
  std::vector<std::string> new_found() {
    auto all = found();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen_));
    seen_ += all.size();
    return all;
  }
  void wait(yoke_stream* stream) { streams->stream_wait(stream, kSecond, error()); }

 private:
  std::size_t seen_ = 0;
};

TEST_F(PluginResults, CodesFromOkToTheLastOneAreKnown) {
  static std::int32_t next = 0;
  control->backend.device_memory = [](auto, auto, auto error) { return fail(error, next, "why"); };
  enter();
  const auto found_for = [&](std::int32_t code) {
    next = code;
    auto info = sized<yoke_memory_info>();
    EXPECT_EQ(backend->device_memory(device, &info, error()), code);
    return new_found();
  };
  for (std::int32_t code = YOKE_STATUS_CANCELLED; code <= YOKE_STATUS_OUT_OF_DEVICE_MEMORY; ++code) {
    EXPECT_THAT(found_for(code), IsEmpty()) << code;
  }
  EXPECT_THAT(found_for(-1), ElementsAre("11 plugin device_memory"));
  EXPECT_THAT(found_for(YOKE_STATUS_OUT_OF_DEVICE_MEMORY + 1), ElementsAre("11 plugin device_memory"));
  EXPECT_THAT(lines, Contains(HasSubstr("returned the unknown code 18")));
  EXPECT_THAT(found_for(YOKE_STATUS_OK), ElementsAre("10 plugin device_memory"));
  EXPECT_THAT(lines, Contains(HasSubstr("returned OK but set an error: why")));
}

TEST_F(PluginResults, ErrorHasTheCodeThatIsReturned) {
  control->backend.device_memory = [](auto, auto, auto error) {
    fail(error, YOKE_STATUS_UNKNOWN, "why");
    return YOKE_STATUS_INTERNAL;
  };
  enter();
  auto info = sized<yoke_memory_info>();
  backend->device_memory(device, &info, error());
  EXPECT_THAT(found(), ElementsAre("10 plugin device_memory"));
  EXPECT_THAT(lines, Contains(HasSubstr("returned code 13 but set code 2 in its error")));
}

TEST_F(PluginResults, ErrorsReachTheHostWholeWithTheirVendorCode) {
  static const std::string text(5'000, 'x');
  static bool has_text = true;
  has_text = true;
  control->backend.device_memory = [](auto, auto, yoke_error* error) {
    plugin_host->error_set(error, YOKE_STATUS_INTERNAL, -7, has_text ? text.data() : nullptr,
                           has_text ? text.size() : 0);
    plugin_host->error_set(nullptr, YOKE_STATUS_INTERNAL, 0, "to no one", 9);
    return YOKE_STATUS_INTERNAL;
  };
  enter();
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(backend->device_memory(device, &info, error()), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(status.code, YOKE_STATUS_INTERNAL);
  EXPECT_EQ(status.vendor_code, -7);
  EXPECT_EQ(status.text, text);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(backend->device_memory(device, &info, nullptr), YOKE_STATUS_INTERNAL);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(PluginResults, TextsEndInAZeroInsideTheirCapacity) {
  static std::size_t length = 0;
  control->stream.stream_debug_text = [](auto, char* text, auto, auto) {
    std::memset(text, 'x', length);
    return YOKE_STATUS_OK;
  };
  enter();
  auto* const stream = make_stream();
  const auto found_for = [&](std::size_t letters) {
    length = letters;
    char text[8] = {};
    streams->stream_debug_text(stream, text, sizeof(text), error());
    EXPECT_EQ(std::string(text, sizeof(text)).find('\0'), letters < 8 ? letters : std::string::npos);
    return new_found();
  };
  EXPECT_THAT(found_for(7), IsEmpty());
  EXPECT_THAT(found_for(8), ElementsAre("12 plugin stream_debug_text"));
  EXPECT_THAT(lines, Contains(HasSubstr("text is not closed by a zero")));
  EXPECT_THAT(found_for(9), ElementsAre("5 plugin stream_debug_text", "12 plugin stream_debug_text"));
  EXPECT_THAT(lines, Contains(HasSubstr("wrote past the end of text")));
  EXPECT_THAT(found_for(8 + 64), Contains("5 plugin stream_debug_text")) << "the last byte that is watched";
}

TEST_F(PluginResults, TextsUpToSixteenMebibytesAreWatched) {
  control->stream.stream_debug_text = [](auto, char* text, auto, auto error) {
    *text = 'x';
    return fail(error, YOKE_STATUS_INTERNAL, "fails");
  };
  enter();
  auto* const stream = make_stream();
  std::vector<char> text((std::size_t{16} << 20U) + 1);
  streams->stream_debug_text(stream, text.data(), text.size() - 1, error());
  EXPECT_EQ(text[0], '\0');
  streams->stream_debug_text(stream, text.data(), text.size(), error());
  EXPECT_EQ(text[0], 'x') << "the plugin writes to the host's memory";
}

TEST_F(PluginResults, CountsOfRowsHaveALimit) {
  static std::uint32_t next = 0;
  control->backend.option_specs = [](auto, auto, auto, auto, std::uint32_t* out, auto) {
    *out = next;
    return YOKE_STATUS_OK;
  };
  enter();
  const auto found_for = [&](std::uint32_t count) {
    next = count;
    std::uint32_t out = 0;
    backend->option_specs(plugin, 0, sizeof(yoke_option_spec), nullptr, &out, error());
    EXPECT_EQ(out, count);
    return new_found();
  };
  EXPECT_THAT(found_for(1U << 20U), IsEmpty());
  EXPECT_THAT(found_for((1U << 20U) + 1), ElementsAre("12 plugin option_specs"));
  EXPECT_THAT(lines, Contains(HasSubstr("out_count is 1048577; the most is 1048576")));
}

TEST_F(PluginResults, FailedCallsWriteNoResults) {
  control->stream.stream_query = [](auto, std::int32_t* out, auto error) {
    *out = YOKE_STATE_DONE;
    return fail(error, YOKE_STATUS_INTERNAL, "why");
  };
  enter();
  std::int32_t state = 9;
  EXPECT_EQ(streams->stream_query(make_stream(), &state, error()), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(state, 9);
  EXPECT_THAT(found(), ElementsAre("10 plugin stream_query"));
  EXPECT_THAT(lines, Contains(HasSubstr("failed but wrote to out_state")));
}

TEST_F(PluginResults, SourceOfACopyWithoutAStreamIsCopied) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  auto* const stream = make_stream();
  copy_in(stream, make_buffer(16), kData.data(), 16);
  wait(stream);
  EXPECT_THAT(new_found(), IsEmpty());
  copy_in(nullptr, make_buffer(16), kData.data(), 16);
  EXPECT_THAT(new_found(), ElementsAre("16 plugin from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("must be YOKE_SOURCE_COPIED without a stream")));
  do_no_work(*control, 0);
  copy_in(stream, make_buffer(16), kData.data(), 16);
  EXPECT_THAT(new_found(), ElementsAre("16 plugin from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("out_source is 0, which is not a YOKE_SOURCE_ value")));
  wait(stream);
}

TEST_F(PluginResults, DeviceWithLiveObjectsDoesNotClose) {
  static yoke_device* left_open = nullptr;
  control->backend.device_close = [](auto closed, auto error) {
    return closed == left_open ? YOKE_STATUS_OK : sdk::detail::device_close(closed, error);
  };
  enter();
  yoke_device* const other = open_device(1);
  const yoke_buffer_args args{sizeof(args), 0, 16, YOKE_MEMORY_DEVICE, 0};
  yoke_buffer* live = nullptr;
  EXPECT_EQ(backend->buffer_create(other, &args, &live, error()), YOKE_STATUS_OK);
  left_open = other;
  EXPECT_EQ(backend->device_close(other, error()), YOKE_STATUS_OK);
  EXPECT_THAT(found(), ElementsAre("14 host device_close", "14 plugin device_close"));
  EXPECT_THAT(lines, Contains(HasSubstr("device 2 is closed while 1 of its objects are alive")));
  EXPECT_THAT(lines, Contains(HasSubstr("closed a device with 1 live object")));
  backend->buffer_destroy(live);
  EXPECT_EQ(sdk::detail::device_close(other, nullptr), YOKE_STATUS_OK);
}

TEST_F(PluginResults, AlignmentsArePowersOfTwoUpToThatOfBuffers) {
  static std::uint64_t next = 0;
  control->program.code_argument = [](auto, auto, auto argument, yoke_argument_info* info, auto error) {
    if (argument != 0) {
      return fail(error, YOKE_STATUS_OUT_OF_RANGE, "no such argument");
    }
    info->alignment = static_cast<decltype(info->alignment)>(next);
    return YOKE_STATUS_OK;
  };
  enter();
  auto* const code = compile(kOne);
  for (const std::uint64_t alignment : {1U, 2U, 128U, 256U, 0U, 3U, 384U, 512U}) {
    next = alignment;
    auto info = sized<yoke_argument_info>();
    programs->code_argument(code, 0, 0, &info, error());
    const bool is_good = alignment == 1 || alignment == 2 || alignment == 128 || alignment == 256;
    EXPECT_EQ(new_found().size(), is_good ? 0U : 1U) << alignment;
  }
  auto info = sized<yoke_argument_info>();
  programs->code_argument(code, 0, 1, &info, error());
  EXPECT_THAT(new_found(), IsEmpty());
  EXPECT_THAT(lines, Contains(HasSubstr("the alignment 512 is not a power of two up to 256")));
}

TEST_F(PluginResults, ImportedMemoryHasAnyAddress) {
  control->provides.memory = true;
  control->backend.buffer_describe = [](auto, yoke_buffer_info* info, auto) {
    info->host_address = 0x1010;
    return YOKE_STATUS_OK;
  };
  enter();
  const auto* const memory =
      static_cast<const yoke_memory_api*>(plugin->get_table(plugin, YOKE_MEMORY_TABLE));
  alignas(256) static std::byte bytes[512];
  auto args = sized<yoke_import_args>();
  args.address = reinterpret_cast<decltype(args.address)>(&bytes[16]);
  args.byte_count = 256;
  args.kind = YOKE_MEMORY_HOST;
  yoke_buffer* imported = nullptr;
  ASSERT_EQ(memory->buffer_import(device, &args, &imported, error()), YOKE_STATUS_OK) << status.text;
  auto info = sized<yoke_buffer_info>();
  backend->buffer_describe(imported, &info, error());
  EXPECT_THAT(new_found(), IsEmpty());
  backend->buffer_destroy(imported);
  backend->buffer_describe(make_buffer(16), &info, error());
  EXPECT_THAT(new_found(), ElementsAre("42 plugin buffer_describe"));
}

TEST_F(PluginResults, CallInsideACallHasItsOwnError) {
  static std::function<void()> inside;
  control->backend.device_memory = [](auto, auto, auto error) {
    inside();
    return fail(error, YOKE_STATUS_INTERNAL, "the outer call");
  };
  enter();
  inside = [&] { count_devices(); };
  auto info = sized<yoke_memory_info>();
  for (int i = 0; i < 200; ++i) {  // status objects are reused in turn
    yoke_error outer;
    EXPECT_EQ(backend->device_memory(device, &info, &outer), YOKE_STATUS_INTERNAL);
    EXPECT_EQ(outer.text, "the outer call");
  }
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(PluginResults, OkWithoutAHandleMakesNoObject) {
  control->stream.event_record = [](auto, auto, auto out, auto) {
    *out = nullptr;
    return YOKE_STATUS_OK;
  };
  control->program.routine_link = [](auto, auto, auto out, auto) {
    *out = nullptr;
    return YOKE_STATUS_OK;
  };
  control->backend.device_open = [](auto on, auto args, auto out, auto error) {
    return args->ordinal == 0 ? sdk::detail::device_open(on, args, out, error) : YOKE_STATUS_OK;
  };
  enter();
  auto* const stream = make_stream();
  const yoke_event_args args{sizeof(args), 0};
  yoke_event* event = nullptr;
  EXPECT_EQ(streams->event_record(stream, &args, &event, error()), YOKE_STATUS_OK);
  EXPECT_EQ(event, nullptr);
  link(compile(kOne), {{make_buffer(16), 0, 16, 0}});
  EXPECT_THAT(new_found(), ElementsAre("12 plugin event_record", "12 plugin routine_link"));
  yoke_device* opened = nullptr;
  auto device_args = sized<yoke_device_args>();
  device_args.ordinal = 1;
  EXPECT_EQ(backend->device_open(plugin, &device_args, &opened, error()), YOKE_STATUS_OK);
  EXPECT_EQ(opened, nullptr);
  EXPECT_THAT(new_found(), ElementsAre("12 plugin device_open"));
  wait(stream);
}

TEST_F(PluginResults, UnwrittenHandleMakesNoObject) {
  control->backend.buffer_create = [](auto...) { return YOKE_STATUS_OK; };
  enter();
  EXPECT_EQ(make_buffer(16), nullptr);
  EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_OK);
  EXPECT_THAT(found(), ElementsAre("12 plugin buffer_create"));
}

TEST_F(PluginResults, MissingCountIsReportedOnce) {
  control->backend.device_count = [](auto, auto, char* reason, auto...) {
    std::strcpy(reason, "no card");
    return YOKE_STATUS_OK;
  };
  enter();
  count_devices();
  EXPECT_THAT(found(), ElementsAre("12 plugin device_count"));
}

TEST_F(PluginResults, ThrownObjectsOfAnyTypeBecomeErrors) {
  control->backend.device_memory = [](auto...) -> std::int32_t { throw 7; };
  enter();
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(backend->device_memory(device, &info, error()), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(status.text, "the plugin threw an exception: an object that is not a std::exception");
  EXPECT_THAT(found(), ElementsAre("13 plugin device_memory"));
  EXPECT_THAT(lines, Contains(HasSubstr("threw an exception: an object that is not a std::exception")));
  control->on_destroy = [] { throw 7; };
  backend->device_close(device, error());
  lines.clear();
  EXPECT_THROW(plugin->destroy(plugin), int);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("threw an exception: an object that is not a std::exception")));
}

TEST_F(PluginResults, OnlyViolationsFailCallsAndNotThoseThatMakeOrEndObjects) {
  control->backend.buffer_create = [](auto on, auto args, auto out, auto error) {
    sdk::detail::buffer_create(on, args, out, error);
    return fail(error, YOKE_STATUS_OK, "fine");
  };
  control->backend.device_memory = [](auto, auto, auto error) { return fail(error, YOKE_STATUS_OK, "fine"); };
  enter("validate", true);
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(backend->device_memory(device, &info, error()), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(status.text, "the plugin broke rule 10 in device_memory: returned OK but set an error: fine");
  auto* const buffer = make_buffer(16);
  EXPECT_NE(buffer, nullptr);
  EXPECT_THAT(found(), ElementsAre("10 plugin device_memory", "10 plugin buffer_create"));
}

TEST_F(PluginResults, BlocksThatAreNotDeallocatedAreCounted) {
  static int freed = 0;
  freed = 0;
  host.api().deallocate = [](void*, void* memory) {
    ++freed;
    std::free(memory);
  };
  enter();
  const auto allocate = [&] { return plugin_host->allocate(plugin_host->host, 16, 8); };
  plugin_host->deallocate(plugin_host->host, nullptr);
  EXPECT_EQ(freed, 1) << "the host accepts NULL";
  plugin_host->deallocate(plugin_host->host, allocate());
  EXPECT_EQ(freed, 2);
  void* const first = allocate();
  void* const second = allocate();
  backend->device_close(device, error());
  plugin->destroy(plugin);
  plugin_host->deallocate(plugin_host->host, first);
  EXPECT_EQ(freed, 2);
  EXPECT_THAT(found(), ElementsAre("15 plugin destroy", "35 plugin deallocate"));
  EXPECT_THAT(lines, Contains(HasSubstr("2 blocks from the host's allocate were not deallocated")));
  std::free(first);
  std::free(second);
}

TEST_F(PluginResults, FailedAllocationNeedsNoDeallocate) {
  host.api().allocate = [](auto...) -> void* { return nullptr; };
  enter();
  EXPECT_EQ(plugin_host->allocate(plugin_host->host, 16, 8), nullptr);
  backend->device_close(device, error());
  plugin->destroy(plugin);
  EXPECT_EQ(plugin_host->allocate(plugin_host->host, 16, 8), nullptr);
  EXPECT_THAT(found(), ElementsAre("35 plugin allocate"));
}

TEST_F(PluginResults, DestroyWithOpenDevicesIsReported) {
  enter();
  yoke_device* const other = open_device(1);
  backend->device_close(other, error());
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("35 host destroy"));
  EXPECT_THAT(lines, Contains(HasSubstr("1 device is open")));
}

}  // namespace
}  // namespace yoke::test
