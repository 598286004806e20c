// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/handle_test.cpp: the layers recognize handles that are destroyed, of another kind or of
// another plugin.
#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ValidateHandles : public LayersTest {};

TEST_F(ValidateHandles, UseAfterDestroyNeverReachesPlugin) {
  enter();
  auto* buffer = make_buffer(16);
  backend->buffer_destroy(buffer);
  EXPECT_EQ(copy_in(nullptr, buffer, kData.data(), 16), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("already destroyed"));
  EXPECT_EQ(control->call_count, 0);
  EXPECT_THAT(found(), ElementsAre("15 host from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("rule=15 who=host call=from_host backend=fake")));
  backend->buffer_destroy(buffer);
  EXPECT_THAT(found(), ElementsAre("15 host from_host", "15 host buffer_destroy"));
}

TEST_F(ValidateHandles, GarbageAndHandlesOfAnotherKindAreRefused) {
  enter();
  auto* stream = make_stream();
  yoke_memory_info info{sizeof(info), 0, 0, 0};
  EXPECT_EQ(backend->device_memory(reinterpret_cast<yoke_device*>(stream), &info, error()),
            YOKE_STATUS_FAILED_PRECONDITION);
  std::uint64_t garbage[8] = {};
  yoke_event* event = nullptr;
  const yoke_event_args event_args{sizeof(event_args), 0};
  EXPECT_EQ(streams->event_record(reinterpret_cast<yoke_stream*>(garbage), &event_args, &event, error()),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(event, nullptr);
  // The source is not a handle, even if it has the address of one.
  EXPECT_EQ(copy_in(nullptr, reinterpret_cast<yoke_buffer*>(garbage), make_buffer(16), 16),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(found(), ElementsAre("15 host device_memory"));  // garbage belongs to no plugin
}

TEST_F(ValidateHandles, HandlesAreForgottenUnlessANewOneHasTheirAddress) {
  static std::byte addresses[3];
  static std::byte* next = nullptr;
  do_no_work(*control);
  control->backend.buffer_create = [](auto, auto, yoke_buffer** out, auto) {
    *out = reinterpret_cast<yoke_buffer*>(next);
    return YOKE_STATUS_OK;
  };
  control->backend.buffer_destroy = [](auto) {};
  enter();
  const auto create = [&](int address) {
    next = &addresses[address];
    const yoke_buffer_args args{sizeof(args), 0, 16, YOKE_MEMORY_DEVICE, 0};
    yoke_buffer* buffer = nullptr;
    EXPECT_EQ(backend->buffer_create(device, &args, &buffer, error()), YOKE_STATUS_OK);
    return buffer;
  };
  yoke_buffer* const forgotten = create(2);
  backend->buffer_destroy(forgotten);
  EXPECT_EQ(copy_in(nullptr, forgotten, kData.data(), 16), YOKE_STATUS_FAILED_PRECONDITION);
  backend->buffer_destroy(create(0));
  yoke_buffer* const alive = create(0);
  for (int i = 0; i < 9000; ++i) {  // the layers remember the last 8,192
    backend->buffer_destroy(create(1));
  }
  EXPECT_EQ(copy_in(nullptr, forgotten, kData.data(), 16), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(copy_in(nullptr, alive, kData.data(), 16), YOKE_STATUS_OK) << status.text;
  yoke_buffer* const last = create(1);
  EXPECT_EQ(copy_in(nullptr, last, kData.data(), 16), YOKE_STATUS_OK) << status.text;
  backend->buffer_destroy(last);
  backend->buffer_destroy(alive);
  EXPECT_EQ(copy_in(nullptr, alive, kData.data(), 16), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(found(), ElementsAre("15 host from_host", "15 host from_host"));
}

TEST_F(ValidateHandles, HandleOfAnotherPluginIsNamed) {
  enter();
  auto* foreign = make_buffer(16);
  enter();
  EXPECT_EQ(copy_in(make_stream(), foreign, kData.data(), 16), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(status.text, HasSubstr("of another plugin"));
  EXPECT_THAT(found(), ElementsAre("15 host from_host"));
}

}  // namespace
}  // namespace yoke::test
