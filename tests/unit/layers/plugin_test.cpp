// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/plugin_test.cpp: the layer validate finds violations by the plugin, except in work on
// streams. Each test replaces one function with a wrong one.
#include <signal.h>

#include <cfenv>
#include <stdexcept>
#include <thread>
#include <utility>

#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ValidatePlugin : public LayersTest {
 protected:
  std::int32_t create(yoke_buffer** out) {
    const yoke_buffer_args buffer_args{sizeof(buffer_args), 0, 16, YOKE_MEMORY_DEVICE, 0};
    return backend->buffer_create(device, &buffer_args, out, error());
  }
  void describe(yoke_buffer* buffer) {
    auto info = sized<yoke_buffer_info>();
    backend->buffer_describe(buffer, &info, error());
  }
  // What the layer finds if this function is called as device_count, or as buffer_describe.
  std::vector<std::string> found_if_counted(decltype(yoke_backend_api::device_count) function) {
    control->backend.device_count = function;
    enter();
    count_devices();
    return found();
  }
  std::vector<std::string> found_if_described(decltype(yoke_backend_api::buffer_describe) function) {
    control->backend.buffer_describe = function;
    enter();
    describe(make_buffer(16));
    return found();
  }
  yoke_buffer* out_ = nullptr;
};

TEST_F(ValidatePlugin, CorrectPluginIsNotBlamed) {
  control->option_specs = {sdk::OptionSpec::flag("first", "the first", false),
                           sdk::OptionSpec::flag("second", "the second", false)};
  enter();
  count_devices();
  yoke_option_spec row{};
  std::uint32_t count = 0;
  backend->option_specs(plugin, 1, sizeof(row), &row, &count, error());
  EXPECT_EQ(count, 2U);
  EXPECT_STREQ(row.name, "first");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(ValidatePlugin, WrongCountsAndCodesAreReported) {
  EXPECT_THAT(found_if_counted([](auto...) { return YOKE_STATUS_OK; }),
              ElementsAre("12 plugin device_count"));
  EXPECT_THAT(found_if_counted([](auto...) { return YOKE_STATUS_INTERNAL; }),
              ElementsAre("10 plugin device_count"))
      << "without a text";
  EXPECT_THAT(found_if_counted([](auto, auto, auto, auto, auto error) { return fail(error, 99, "what?"); }),
              ElementsAre("11 plugin device_count"));
  const auto no_device = [](auto, std::uint32_t* out, auto...) {
    *out = 0;
    return YOKE_STATUS_OK;
  };
  EXPECT_THAT(found_if_counted(no_device), ElementsAre("48 plugin device_count")) << "without a reason";
}

TEST_F(ValidatePlugin, ReasonWithoutNeedIsReported) {
  const auto reason_and_device = [](auto, std::uint32_t* out, char* reason, auto...) {
    *out = 1;
    std::strcpy(reason, "no card");
    return YOKE_STATUS_OK;
  };
  EXPECT_THAT(found_if_counted(reason_and_device), ElementsAre("48 plugin device_count"));
  EXPECT_THAT(lines, Contains(HasSubstr("reports 1 device and a reason why there are none")));
}

TEST_F(ValidatePlugin, DeviceWithoutLiveObjectsThatDoesNotCloseIsReported) {
  static bool fails = false;
  fails = true;
  control->backend.device_close = [](auto closed, auto error) {
    return std::exchange(fails, false) ? fail(error, YOKE_STATUS_FAILED_PRECONDITION, "a kernel is alive")
                                       : sdk::detail::device_close(closed, error);
  };
  enter();
  EXPECT_EQ(backend->device_close(device, error()), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(found(), ElementsAre("14 plugin device_close"));
  EXPECT_THAT(lines, Contains(HasSubstr("does not close a device without live objects: a kernel is alive")));
}

TEST_F(ValidatePlugin, WrongHandlesAreReported) {
  control->backend.buffer_create = [](auto, auto, auto out, auto) {
    *out = nullptr;
    return YOKE_STATUS_OK;
  };
  enter();
  create(&out_);
  EXPECT_THAT(found(), ElementsAre("12 plugin buffer_create"));
  control->backend.buffer_create = [](auto, auto, auto out, auto error) {
    *out = reinterpret_cast<yoke_buffer*>(out);
    return fail(error, YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "out of memory");
  };
  enter();
  EXPECT_EQ(create(&out_), YOKE_STATUS_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(out_, nullptr);
  EXPECT_THAT(found(), ElementsAre("10 plugin buffer_create"));
}

TEST_F(ValidatePlugin, WrongDescriptionsAreReported) {
  EXPECT_THAT(found_if_described([](auto, auto, auto error) { return fail(error, YOKE_STATUS_OK, "fine"); }),
              ElementsAre("10 plugin buffer_describe"));
  const auto writes_past_its_end_and_changes_its_size = [](auto, auto info, auto) {
    reinterpret_cast<std::byte*>(info)[info->struct_size] = std::byte{1};
    info->struct_size = 8;
    return YOKE_STATUS_OK;
  };
  EXPECT_THAT(found_if_described(writes_past_its_end_and_changes_its_size),
              ElementsAre("5 plugin buffer_describe", "5 plugin buffer_describe"));
  const auto fails = [](auto, auto, auto error) { return fail(error, YOKE_STATUS_INTERNAL, "no idea"); };
  EXPECT_THAT(found_if_described(fails), IsEmpty());
  const auto writes_and_fails = [](auto, auto info, auto error) {
    info->host_address = 4096;
    return fail(error, YOKE_STATUS_INTERNAL, "no idea");
  };
  EXPECT_THAT(found_if_described(writes_and_fails), ElementsAre("10 plugin buffer_describe"));
  control->backend.option_specs = [](auto, auto, auto, auto specs, auto out, auto) {
    specs[1].type = YOKE_OPTION_FLAG;
    *out = 2;
    return YOKE_STATUS_OK;
  };
  yoke_option_spec rows[2] = {};
  std::uint32_t count = 0;
  enter();
  backend->option_specs(plugin, 1, sizeof(rows[0]), rows, &count, error());
  EXPECT_EQ(rows[1].type, 0) << "the host's memory is untouched";
  EXPECT_THAT(found(), ElementsAre("12 plugin option_specs"));
}

TEST_F(ValidatePlugin, WrongCopiesAreReported) {
  do_no_work(*control, 7);
  enter();
  copy_in(make_stream(), make_buffer(16), kData.data(), 16);
  EXPECT_THAT(found(), ElementsAre("16 plugin from_host")) << "an unknown source value";
  enter();
  std::vector<std::byte> data(32);
  backend->to_host(nullptr, make_buffer(16), 0, data.data(), 32, error());
  EXPECT_THAT(found(), ElementsAre("16 host to_host", "16 plugin to_host"));
}

TEST_F(ValidatePlugin, SecondDeallocateAndLogLineAfterDestroyAreReportedAndNotPassedOn) {
  enter();
  void* const memory = plugin_host->allocate(plugin_host->host, 16, 8);
  plugin_host->deallocate(plugin_host->host, memory);
  plugin_host->deallocate(plugin_host->host, memory);
  backend->device_close(device, error());
  plugin->destroy(plugin);
  plugin_host->log(plugin_host->host, YOKE_LOG_INFO, "late", 4);
  EXPECT_THAT(found(), ElementsAre("15 plugin host.deallocate", "35 plugin log"));
  EXPECT_THAT(host.lines(), ::testing::Not(::testing::Contains(::testing::HasSubstr("late"))));
}

TEST_F(ValidatePlugin, ErrorSetAfterTheCallOrFromAnotherThreadIsReported) {
  static yoke_error* kept = nullptr;
  control->backend.device_count = [](auto, std::uint32_t* out, auto, auto, yoke_error* e) {
    std::thread([e] { fail(e, YOKE_STATUS_INTERNAL, "from another thread"); }).join();
    kept = e;
    *out = 1;
    return YOKE_STATUS_OK;
  };
  enter();
  count_devices();
  fail(kept, YOKE_STATUS_INTERNAL, "too late");
  EXPECT_THAT(found(), ElementsAre("10 plugin device_count", "10 plugin device_count"));
}

TEST_F(ValidatePlugin, SlowBoundedCallIsAWarning) {
  control->backend.buffer_describe = [](auto...) {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    return YOKE_STATUS_OK;
  };
  enter();
  describe(make_buffer(16));
  EXPECT_THAT(found(true), Contains("20 plugin buffer_describe"));
  EXPECT_EQ(layers::validation(*session).violations, 0);
  EXPECT_GE(layers::validation(*session).warnings, 1);
}

TEST_F(ValidatePlugin, ChangedFloatingPointModeAndSignalHandlerAreReported) {
  control->backend.device_count = [](auto, std::uint32_t* out, auto, auto, auto) {
    std::fesetround(FE_DOWNWARD);
    *out = 1;
    return YOKE_STATUS_OK;
  };
  control->on_compile = [](std::string_view) { ::signal(SIGUSR2, SIG_IGN); };
  enter();
  count_devices();
  std::fesetround(FE_TONEAREST);
  compile("yoke.program 1\nprogram one() {\n  arg a : f32[4] out\n  a[i] = 1.0\n}\n");
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_THAT(found(), ElementsAre("22 plugin device_count", "22 plugin code_compile"));
  EXPECT_THAT(lines, Contains(HasSubstr("the floating-point mode")));
  EXPECT_THAT(lines, Contains(HasSubstr("a signal handler")));
}

TEST_F(ValidatePlugin, ExceptionBecomesAnError) {
  control->backend.from_host = [](auto...) -> std::int32_t { throw std::runtime_error("oops"); };
  enter();
  EXPECT_EQ(copy_in(nullptr, make_buffer(16), kData.data(), 16), YOKE_STATUS_INTERNAL);
  EXPECT_THAT(status.text, HasSubstr("oops"));
  EXPECT_THAT(found(), Contains("13 plugin from_host"));
}

TEST_F(ValidatePlugin, ExceptionFromDestroyIsReportedAndRethrown) {
  control->on_destroy = [] { throw std::runtime_error("oops"); };
  enter();
  void* const memory = plugin_host->allocate(plugin_host->host, 16, 8);
  backend->device_close(device, error());
  EXPECT_THROW(plugin->destroy(plugin), std::runtime_error);
  plugin->destroy(plugin);
  EXPECT_THAT(found(), ElementsAre("13 plugin destroy", "15 plugin destroy", "35 host destroy"));
  std::free(memory);
}

TEST_F(ValidatePlugin, ExceptionFromEntryOrGetTableIsReportedAndRethrown) {
  control->on_table = [](const char*, const void*) -> const void* { throw std::runtime_error("oops"); };
  EXPECT_THROW(enter(), std::runtime_error);
  EXPECT_THAT(found(), ElementsAre("13 plugin get_table"));
  control->on_table = nullptr;
  control->on_entry = [](yoke_plugin&) { throw 7; };
  EXPECT_THROW(enter(), int);
  control->host->log(control->host->host, YOKE_LOG_INFO, "late", 4);
  EXPECT_THAT(found(), ElementsAre("13 plugin yoke_plugin_entry", "35 plugin log"));
}

TEST_F(ValidatePlugin, HandleThatIsStillAliveIsReported) {
  static yoke_buffer* same = nullptr;
  same = nullptr;
  control->backend.buffer_create = [](auto on, auto args, auto out, auto e) {
    const std::int32_t code =
        same == nullptr ? sdk::detail::buffer_create(on, args, &same, e) : YOKE_STATUS_OK;
    *out = same;
    return code;
  };
  enter();
  make_buffer(16);
  create(&out_);
  EXPECT_THAT(found(), ElementsAre("12 plugin buffer_create"));
}

TEST_F(ValidatePlugin, MisalignedDeviceAddressIsReported) {
  control->provides.memory = true;
  control->memory.buffer_device_address = [](auto, std::uint64_t* out, auto) {
    *out = 0x1010;
    return YOKE_STATUS_OK;
  };
  enter();
  const auto* const memory =
      static_cast<const yoke_memory_api*>(plugin->get_table(plugin, YOKE_MEMORY_TABLE));
  std::uint64_t address = 0;
  EXPECT_EQ(memory->buffer_device_address(make_buffer(16), &address, error()), YOKE_STATUS_OK);
  EXPECT_EQ(address, 0x1010U);
  EXPECT_THAT(found(), ElementsAre("42 plugin buffer_device_address"));
}

TEST_F(ValidatePlugin, MisalignedBufferAndArgumentAreReported) {
  control->backend.buffer_describe = [](auto, yoke_buffer_info* info, auto) {
    info->host_address = 0x1010;
    return YOKE_STATUS_OK;
  };
  control->program.code_argument = [](auto, auto, auto, yoke_argument_info* info, auto) {
    info->alignment = 48;
    return YOKE_STATUS_OK;
  };
  enter();
  describe(make_buffer(16));
  auto info = sized<yoke_argument_info>();
  programs->code_argument(compile("yoke.program 1\nprogram one() {\n  arg a : f32[4] out\n  a[i] = 1.0\n}\n"),
                          0, 0, &info, error());
  EXPECT_THAT(found(), ElementsAre("42 plugin buffer_describe", "42 plugin code_argument"));
}

TEST_F(ValidatePlugin, ViolationFailsTheCallWhenEnabled) {
  do_no_work(*control, 7);
  enter("validate", true);
  EXPECT_EQ(copy_in(make_stream(), make_buffer(16), kData.data(), 16), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("the plugin broke rule 16"));
}

}  // namespace
}  // namespace yoke::test
