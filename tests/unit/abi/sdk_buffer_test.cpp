// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_buffer_test.cpp: which copies and fills the SDK accepts, and imported, pinned and native
// memory.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "recording_backend.h"
#include "sdk_fixture.h"

namespace yoke::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

// A device without a stream, a buffer with the letters from 'a', and one with dots.
class SdkBufferTest : public SdkTest {
 protected:
  SdkBufferTest() {
    control_->provides.memory = true;
    entered_ = std::make_unique<Entered>(entry());
    api_ = entered_->backend;
    device_ = entered_->open();
    letters_ = entered_->buffer(device_, 16);
    dots_ = entered_->buffer(device_, 16);
    api_->from_host(nullptr, letters_, 0, "abcdefghijklmnop", 16, nullptr, nullptr);
    api_->from_host(nullptr, dots_, 0, "................", 16, nullptr, nullptr);
  }
  ~SdkBufferTest() override {
    api_->buffer_destroy(letters_);
    api_->buffer_destroy(dots_);
    entered_->close(device_);
  }
  yoke_error* error() { return &entered_->error; }
  std::string text_of(yoke_buffer* buffer) {
    std::string text(16, '?');
    EXPECT_EQ(api_->to_host(nullptr, buffer, 0, text.data(), 16, error()), YOKE_STATUS_OK);
    return text;
  }
  yoke_memory_info usage() {
    auto info = sized<yoke_memory_info>();
    EXPECT_EQ(api_->device_memory(device_, &info, error()), YOKE_STATUS_OK);
    return info;
  }

  std::unique_ptr<Entered> entered_;
  const yoke_backend_api* api_ = nullptr;
  yoke_device* device_ = nullptr;
  yoke_buffer* letters_ = nullptr;
  yoke_buffer* dots_ = nullptr;
};

TEST_F(SdkBufferTest, CopiesMayReachTheEndOfTheBufferOnly) {
  struct Case {
    std::uint64_t offset;
    std::uint64_t byte_count;
    std::int32_t code;
  };
  std::array<char, 16> host{};
  for (const Case& one : std::vector<Case>{{0, 16, YOKE_STATUS_OK},
                                           {15, 1, YOKE_STATUS_OK},
                                           {16, 0, YOKE_STATUS_OK},
                                           {17, 0, YOKE_STATUS_OUT_OF_RANGE},
                                           {16, 1, YOKE_STATUS_OUT_OF_RANGE},
                                           {1, 16, YOKE_STATUS_OUT_OF_RANGE},
                                           {8, kHuge - 4, YOKE_STATUS_OUT_OF_RANGE},
                                           {kHuge, 2, YOKE_STATUS_OUT_OF_RANGE}}) {
    const auto [offset, byte_count, code] = one;
    EXPECT_EQ(api_->from_host(nullptr, dots_, offset, host.data(), byte_count, nullptr, error()), code);
    EXPECT_EQ(api_->to_host(nullptr, dots_, offset, host.data(), byte_count, error()), code);
    EXPECT_EQ(api_->device_to_device(nullptr, dots_, offset, letters_, 0, byte_count, error()), code);
    EXPECT_EQ(api_->fill(nullptr, dots_, offset, byte_count, "x", 1, error()), code);
    if (byte_count <= 16) {
      EXPECT_EQ(api_->device_to_device(nullptr, dots_, 0, letters_, offset, byte_count, error()), code);
    }
  }
  EXPECT_EQ(api_->device_to_device(nullptr, dots_, 0, letters_, 9, 8, error()), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(error()->text, "device_to_device, source: 8 bytes at offset 9 exceed the 16-byte buffer");
  EXPECT_EQ(api_->device_to_device(nullptr, dots_, 9, letters_, 0, 8, error()), YOKE_STATUS_OUT_OF_RANGE);
  EXPECT_THAT(error()->text, HasSubstr("target"));
}

TEST_F(SdkBufferTest, HostMemoryIsNeededUnlessTheCopyIsEmpty) {
  std::int32_t source = 0;
  EXPECT_EQ(api_->from_host(nullptr, dots_, 0, nullptr, 0, &source, error()), YOKE_STATUS_OK);
  EXPECT_EQ(source, YOKE_SOURCE_COPIED);
  EXPECT_EQ(api_->to_host(nullptr, dots_, 0, nullptr, 0, error()), YOKE_STATUS_OK);
  EXPECT_EQ(api_->to_host(nullptr, dots_, 0, nullptr, 1, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "dst is NULL");
  EXPECT_EQ(api_->from_host(nullptr, dots_, 0, nullptr, 1, nullptr, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "src is NULL");
}

TEST_F(SdkBufferTest, RangesOfOneBufferMayTouchButNotOverlap) {
  EXPECT_EQ(api_->device_to_device(nullptr, letters_, 0, letters_, 4, 4, error()), YOKE_STATUS_OK);
  EXPECT_EQ(api_->device_to_device(nullptr, letters_, 12, letters_, 8, 4, error()), YOKE_STATUS_OK);
  EXPECT_EQ(text_of(letters_), "efghefghijklijkl");
  EXPECT_EQ(api_->device_to_device(nullptr, letters_, 0, letters_, 3, 4, error()),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(api_->device_to_device(nullptr, letters_, 7, letters_, 4, 4, error()),
            YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(api_->device_to_device(nullptr, dots_, 0, letters_, 0, 4, error()), YOKE_STATUS_OK)
      << "the same range of another buffer";
  EXPECT_EQ(text_of(dots_), "efgh............");
}

TEST_F(SdkBufferTest, FillTakesPatternsOfOneTwoFourAndEightBytes) {
  const std::string pattern = "123456789";
  for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
    ASSERT_EQ(api_->fill(nullptr, dots_, 0, 16, ".", 1, error()), YOKE_STATUS_OK);
    ASSERT_EQ(api_->fill(nullptr, dots_, 8, 8, pattern.data(), size, error()), YOKE_STATUS_OK);
    std::string expected(8, '.');
    for (std::uint32_t i = 0; i < 8; ++i) {
      expected += pattern[i % size];
    }
    EXPECT_EQ(text_of(dots_), expected);
    EXPECT_EQ(api_->fill(nullptr, dots_, 0, 0, pattern.data(), size, error()), YOKE_STATUS_OK);
  }
  for (const std::uint32_t size : {0U, 3U, 5U, 9U, 16U}) {
    EXPECT_EQ(api_->fill(nullptr, dots_, 0, 0, pattern.data(), size, error()), YOKE_STATUS_INVALID_ARGUMENT);
  }
  EXPECT_EQ(api_->fill(nullptr, dots_, 0, 6, pattern.data(), 4, error()), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(
      error()->text,
      "fill: the pattern must have 1, 2, 4 or 8 bytes and divide the range; it has 4 bytes, the range 6");
  EXPECT_EQ(api_->fill(nullptr, dots_, 0, 6, nullptr, 1, error()), YOKE_STATUS_INVALID_ARGUMENT);
}

TEST_F(SdkBufferTest, BuffersHaveTheirSizeKindAndAddress) {
  yoke_buffer* unified = nullptr;
  ASSERT_EQ(entered_->try_buffer(device_, 48, YOKE_MEMORY_UNIFIED, &unified), YOKE_STATUS_OK);
  auto info = sized<yoke_buffer_info>();
  std::uint64_t address = 0;
  ASSERT_EQ(api_->buffer_describe(unified, &info, error()), YOKE_STATUS_OK);
  ASSERT_EQ(entered_->memory->buffer_device_address(unified, &address, error()), YOKE_STATUS_OK);
  EXPECT_EQ(info.byte_count, 48U);
  EXPECT_EQ(info.kind, YOKE_MEMORY_UNIFIED);
  EXPECT_NE(info.host_address, 0U);
  EXPECT_EQ(info.host_address % YOKE_BUFFER_ALIGNMENT, 0U);
  EXPECT_EQ(address, info.host_address);
  api_->buffer_destroy(unified);
  for (const std::int32_t kind : {0, YOKE_MEMORY_HOST}) {
    EXPECT_EQ(entered_->try_buffer(device_, 8, kind, &unified), YOKE_STATUS_UNIMPLEMENTED);
    EXPECT_EQ(error()->text, "unknown kind of memory: " + std::to_string(kind));
  }
}

TEST_F(SdkBufferTest, ImportedMemoryIsReleasedOnceAndDoesNotCountAgainstTheLimit) {
  control_->memory_limit = 32;  // which the two buffers fill
  std::array<char, 64> memory{};
  int release_count = 0;
  auto args = sized<yoke_import_args>();
  args.address = reinterpret_cast<std::uintptr_t>(memory.data());
  args.byte_count = memory.size();
  args.kind = YOKE_MEMORY_HOST;
  args.release = [](void* user) { ++*static_cast<int*>(user); };
  args.user = &release_count;
  yoke_buffer* buffer = nullptr;
  ASSERT_EQ(entered_->memory->buffer_import(device_, &args, &buffer, error()), YOKE_STATUS_OK);
  auto info = sized<yoke_buffer_info>();
  EXPECT_EQ(api_->buffer_describe(buffer, &info, error()), YOKE_STATUS_OK);
  EXPECT_EQ(info.byte_count, 64U);
  EXPECT_EQ(info.kind, YOKE_MEMORY_HOST);
  EXPECT_EQ(info.host_address, args.address);
  EXPECT_EQ(api_->from_host(nullptr, buffer, 60, "tail", 4, nullptr, error()), YOKE_STATUS_OK);
  EXPECT_EQ(std::string(&memory[60], 4), "tail");
  EXPECT_EQ(usage().used_bytes, 32U);
  EXPECT_EQ(release_count, 0);
  api_->buffer_destroy(buffer);
  EXPECT_EQ(release_count, 1);
  args.release = nullptr;
  ASSERT_EQ(entered_->memory->buffer_import(device_, &args, &buffer, error()), YOKE_STATUS_OK);
  api_->buffer_destroy(buffer);
}

TEST_F(SdkBufferTest, ImportsNeedAnAddressAndAKnownKind) {
  int release_count = 0;
  auto args = sized<yoke_import_args>();
  args.release = [](void* user) { ++*static_cast<int*>(user); };
  args.user = &release_count;
  yoke_buffer* buffer = nullptr;
  const auto code_of = [&](std::uint64_t byte_count, std::int32_t kind) {
    args.byte_count = byte_count;
    args.kind = kind;
    const std::int32_t code = entered_->memory->buffer_import(device_, &args, &buffer, error());
    if (code == YOKE_STATUS_OK) {
      api_->buffer_destroy(buffer);
      --release_count;
    }
    return code;
  };
  EXPECT_EQ(code_of(1, YOKE_MEMORY_HOST), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(error()->text, "buffer_import: the address is 0");
  for (const std::int32_t kind : {YOKE_MEMORY_DEVICE, YOKE_MEMORY_UNIFIED, YOKE_MEMORY_HOST}) {
    EXPECT_EQ(code_of(0, kind), YOKE_STATUS_OK);
  }
  for (const std::int32_t kind : {YOKE_MEMORY_DEVICE - 1, YOKE_MEMORY_HOST + 1}) {
    EXPECT_EQ(code_of(0, kind), YOKE_STATUS_UNIMPLEMENTED);
    EXPECT_EQ(error()->text, "unknown kind of memory: " + std::to_string(kind));
  }
  EXPECT_EQ(release_count, 0) << "a refused import leaves the memory to the caller";
}

TEST_F(SdkBufferTest, PinnedMemoryIsAlignedAndKeepsTheDeviceOpen) {
  const auto& table = *entered_->memory;
  auto args = sized<yoke_pinned_args>();
  args.byte_count = 100;
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(table.pinned_allocate(device_, &args, &first, error()), YOKE_STATUS_OK);
  ASSERT_EQ(table.pinned_allocate(device_, &args, &second, error()), YOKE_STATUS_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % YOKE_BUFFER_ALIGNMENT, 0U);
  EXPECT_EQ(control_->live_pinned_count, 2);
  EXPECT_EQ(api_->device_close(device_, error()), YOKE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(error()->text, "device 0 cannot be closed: 2 buffers, 2 pinned blocks alive; destroy them first");
  table.pinned_free(device_, nullptr);
  table.pinned_free(nullptr, second);
  EXPECT_EQ(control_->live_pinned_count, 2);
  table.pinned_free(device_, second);
  table.pinned_free(device_, first);
  EXPECT_EQ(control_->live_pinned_count, 0);
  args.byte_count = std::uint64_t{1} << 60;
  EXPECT_EQ(table.pinned_allocate(device_, &args, &first, error()), YOKE_STATUS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(error()->text, "the machine is out of memory to pin: 1152921504606846976 bytes requested");
}

TEST_F(SdkBufferTest, FlagsAreUnknown) {
  const auto check = [&](std::int32_t code, const std::string& function) {
    EXPECT_EQ(code, YOKE_STATUS_UNIMPLEMENTED);
    EXPECT_EQ(error()->text, function + ": unknown flags 3; update the plugin");
  };
  auto device_args = sized<yoke_device_args>();
  auto buffer_args = sized<yoke_buffer_args>();
  auto pinned_args = sized<yoke_pinned_args>();
  auto import_args = sized<yoke_import_args>();
  device_args.flags = buffer_args.flags = pinned_args.flags = import_args.flags = 3;
  yoke_device* device = nullptr;
  yoke_buffer* buffer = nullptr;
  void* pinned = nullptr;
  check(api_->device_open(entered_->plugin, &device_args, &device, error()), "device_open");
  check(api_->buffer_create(device_, &buffer_args, &buffer, error()), "buffer_create");
  check(entered_->memory->pinned_allocate(device_, &pinned_args, &pinned, error()), "pinned_allocate");
  check(entered_->memory->buffer_import(device_, &import_args, &buffer, error()), "buffer_import");
}

TEST_F(SdkBufferTest, PeerAccessIsThatOfTheBackend) {
  yoke_device* other = entered_->open(1);
  std::int32_t allowed = -1;
  for (const bool has_peers : {true, false}) {
    control_->has_peers = has_peers;
    EXPECT_EQ(entered_->peers->peer_access(device_, other, &allowed, error()), YOKE_STATUS_OK);
    EXPECT_EQ(allowed, has_peers ? 1 : 0);
  }
  entered_->close(other);
}

TEST_F(SdkTest, NativeHandlesAreDescribed) {
  Entered entered(&recording_entry);
  yoke_device* device = entered.open();
  auto info = sized<yoke_native_info>();
  EXPECT_EQ(entered.memory->device_native(device, &info, &entered.error), YOKE_STATUS_OK);
  EXPECT_STREQ(info.api, "recording");
  EXPECT_EQ(info.handle, 5U);
  EXPECT_EQ(info.context, 6U);
  entered.close(device);
}

TEST_F(SdkTest, LinksPassTheEntryItsBindingsAndItsWorkspace) {
  Entered entered(&recording_entry);
  Recorded& recorded = RecordingBackend::recorded();
  recorded.entries.resize(2);
  recorded.entries[1].name = "second";
  recorded.entries[1].arguments = {{"x", YOKE_TYPE_F32, YOKE_ACCESS_IN, {2}, 8, 4},
                                   {"y", YOKE_TYPE_F32, YOKE_ACCESS_INOUT, {2}, 8, 4}};
  recorded.entries[1].symbols = {{"row", 0, 9, 1}};
  recorded.entries[1].workspace_byte_count = 32;
  yoke_device* device = entered.open();
  yoke_buffer* first = entered.buffer(device, 512);
  yoke_buffer* second = entered.buffer(device, 512);
  yoke_code* code = entered.compile(device, "the text");
  EXPECT_EQ(recorded.text, "the text");
  struct Longer {  // a newer host has longer rows
    yoke_binding binding;
    std::uint64_t more;
  };
  const std::array<Longer, 2> rows = {Longer{{first, 4, 8, 0}, 1}, Longer{{second, 16, 8, 0}, 2}};
  const Longer workspace = {{second, 256, 32, 0}, 3};
  auto args = sized<yoke_link_args>();
  args.bindings = &rows[0].binding;
  args.binding_count = 2;
  args.binding_stride = sizeof(Longer);
  args.workspace = &workspace.binding;
  args.entry = 1;
  yoke_routine* routine = nullptr;
  ASSERT_EQ(entered.programs->routine_link(code, &args, &routine, &entered.error), YOKE_STATUS_OK)
      << entered.error.text;
  EXPECT_EQ(recorded.entry, 1U);
  ASSERT_EQ(recorded.bindings.size(), 2U);
  EXPECT_EQ(recorded.bindings[0].buffer, &sdk::object_of(first));
  EXPECT_EQ(recorded.bindings[0].offset, 4U);
  EXPECT_EQ(recorded.bindings[1].buffer, &sdk::object_of(second));
  EXPECT_EQ(recorded.bindings[1].offset, 16U);
  EXPECT_EQ(recorded.workspace.buffer, &sdk::object_of(second));
  EXPECT_EQ(recorded.workspace.offset, 256U);
  entered.programs->code_destroy(code);  // the routine keeps what it needs
  const std::int64_t row = 5;
  EXPECT_EQ(entered.programs->routine_launch(nullptr, routine, &row, 1, &entered.error), YOKE_STATUS_OK);
  EXPECT_THAT(recorded.symbol_values, testing::ElementsAre(5));
  entered.programs->routine_destroy(routine);
  for (yoke_buffer* buffer : {first, second}) {
    entered.backend->buffer_destroy(buffer);
  }
  entered.close(device);
}

// Memory that the host cannot address.
class FarBuffer final : public sdk::Buffer {};

TEST(Buffer, WithoutAHostAddressOnlyEmptyCopiesAreImplemented) {
  FarBuffer far;
  sdk::HostBuffer near(4);
  std::array<char, 4> host{};
  const auto pattern = std::as_bytes(std::span("ab", 2));
  far.from_host(nullptr, 0, nullptr, 0);
  far.to_host(nullptr, 0, nullptr, 0);
  far.copy_from(nullptr, 0, near, 0, 0);
  near.copy_from(nullptr, 0, far, 0, 0);
  far.fill(nullptr, 0, 0, pattern);
  EXPECT_EQ(near.from_host(nullptr, 0, "abcd", 4), YOKE_SOURCE_COPIED);
  EXPECT_THROW(far.from_host(nullptr, 0, host.data(), 4), sdk::Failure);
  EXPECT_THROW(far.to_host(nullptr, 0, host.data(), 4), sdk::Failure);
  EXPECT_THROW(far.copy_from(nullptr, 0, near, 0, 4), sdk::Failure);
  EXPECT_THROW(near.copy_from(nullptr, 0, far, 0, 4), sdk::Failure);
  EXPECT_THROW(far.fill(nullptr, 0, 4, pattern), sdk::Failure);
  EXPECT_THROW((void)far.device_address(), sdk::Failure);
  EXPECT_EQ((sdk::Binding{&near, 3}).host_address(), static_cast<char*>(near.host_address()) + 3);
  EXPECT_EQ(sdk::Binding{}.host_address(), nullptr);
}

}  // namespace
}  // namespace yoke::test
