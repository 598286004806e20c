// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/sdk_host_test.cpp: the host's services as the SDK offers them to plugins, and sized structs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>
#include <yoke/sdk/host.h>
#include <yoke/sdk/plugin.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "loaded_plugin.h"

namespace yoke::test {
namespace {

using testing::ElementsAre;

using Calls = std::vector<std::string>;

TEST(Host, ServicesReachTheHost) {
  Calls calls;
  int table = 0;
  yoke_host_api api = YOKE_HOST_API_INIT;
  api.host = &calls;
  api.log = [](void* host, std::int32_t level, const char* text, std::uint64_t length) {
    static_cast<Calls*>(host)->push_back("log " + std::to_string(level) + " " + std::string(text, length));
  };
  api.error_set = [](yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
                     std::uint64_t length) {
    *error = {code, vendor_code, std::string(text, length)};
  };
  api.trace_begin = [](void* host, const char* name) {
    static_cast<Calls*>(host)->push_back(std::string("begin ") + name);
  };
  api.trace_end = [](void* host) { static_cast<Calls*>(host)->emplace_back("end"); };
  static const void* found = nullptr;
  found = &table;
  api.get_table = [](void* host, const char* id) {
    static_cast<Calls*>(host)->push_back(std::string("table ") + id);
    return found;
  };
  const sdk::Host host(&api);
  yoke_error error;

  host.log(YOKE_LOG_WARN, "plugin.event a=1");
  {
    const sdk::TraceSpan span(host, "outer");
    EXPECT_EQ(host.table("org.example/1"), &table);
  }
  EXPECT_THAT(calls, ElementsAre("log 3 plugin.event a=1", "begin outer", "table org.example/1", "end"));
  EXPECT_EQ(host.report(&error, YOKE_STATUS_ABORTED, "why", 7), YOKE_STATUS_ABORTED);
  EXPECT_EQ(error.code, YOKE_STATUS_ABORTED);
  EXPECT_EQ(error.vendor_code, 7);
  EXPECT_EQ(error.text, "why");
  EXPECT_EQ(host.report(&error, YOKE_STATUS_INTERNAL, "other"), YOKE_STATUS_INTERNAL);
  EXPECT_EQ(error.vendor_code, 0);
  EXPECT_EQ(host.report(nullptr, YOKE_STATUS_ABORTED, "why"), YOKE_STATUS_ABORTED);
}

TEST(Host, ServicesThatTheHostLacksDoNothing) {
  const yoke_host_api empty = YOKE_HOST_API_INIT;
  yoke_error error;
  for (const sdk::Host& host : {sdk::Host(), sdk::Host(nullptr), sdk::Host(&empty)}) {
    host.log(YOKE_LOG_INFO, "plugin.event");
    const sdk::TraceSpan span(host, "span");
    EXPECT_EQ(host.table("org.example/1"), nullptr);
    EXPECT_EQ(host.report(&error, YOKE_STATUS_ABORTED, "why"), YOKE_STATUS_ABORTED);
    EXPECT_EQ(error.code, -1) << "not set";
  }
}

TEST(Host, MemoryOfTheCLibraryIsAlignedAndLargeEnough) {
  yoke_host_api half = YOKE_HOST_API_INIT;  // a host must offer both functions
  half.allocate = [](void*, std::uint64_t, std::uint64_t) -> void* { return nullptr; };
  yoke_host_api other_half = YOKE_HOST_API_INIT;
  other_half.deallocate = [](void*, void*) { ADD_FAILURE(); };
  for (const sdk::Host& host : {sdk::Host(), sdk::Host(&half), sdk::Host(&other_half)}) {
    for (const std::uint64_t alignment : {1U, 8U, 64U, 4096U}) {
      for (const std::uint64_t byte_count : {0U, 1U, 100U, 4096U, 8000U}) {
        void* memory = host.allocate(byte_count, alignment);
        ASSERT_NE(memory, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0U);
        EXPECT_GE(::malloc_usable_size(memory), byte_count) << "aligned to " << alignment;
        host.deallocate(memory);
      }
    }
    EXPECT_EQ(host.allocate(std::numeric_limits<std::uint64_t>::max(), 256), nullptr);
    host.deallocate(nullptr);
  }
}

TEST(MachineHolds, WhatFitsItsMemory) {
  const auto all = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_TRUE(sdk::machine_holds(std::uint64_t{1} << 30));
  EXPECT_TRUE(sdk::machine_holds(all));
  EXPECT_FALSE(sdk::machine_holds(std::max(all, std::uint64_t{1} << 30) + 1));
  EXPECT_FALSE(sdk::machine_holds(std::uint64_t{1} << 60));
}

TEST(SetText, CutsBetweenCharacters) {
  std::array<char, 8> memory{};
  auto& field = reinterpret_cast<char(&)[5]>(memory);
  const auto set = [&](std::string_view text) {
    memory.fill('z');
    sdk::set_text(field, text);
    EXPECT_EQ(std::string(&memory[5], 3), "zzz");
    return std::string(&field[0]);
  };
  EXPECT_EQ(set(""), "");
  EXPECT_EQ(set("abcd"), "abcd");
  EXPECT_EQ(set("abcde"), "abcd");
  EXPECT_EQ(set("ab\xC3\xA4"), "ab\xC3\xA4");
  EXPECT_EQ(set("abc\xC3\xA4"), "abc");
  EXPECT_EQ(set("a\xF0\x9F\x98\x80"), "a");
  EXPECT_EQ(set("\x80\x80\x80\x80\x80\x80"), "") << "not UTF-8";
}

// Structs grow at the end, so the other side may know fewer or more fields.
TEST(Sized, OnlyFieldsThatBothSidesKnowAreCopied) {
  struct Newer {
    yoke_memory_info info;
    std::uint64_t more;
  };
  const yoke_memory_info mine = {sizeof(yoke_memory_info), 1, 2, 3};
  Newer newer = {{sizeof(Newer), 7, 7, 7}, 7};
  sdk::write_sized(mine, &newer.info);
  EXPECT_EQ(newer.info.struct_size, sizeof(Newer));
  EXPECT_EQ(newer.info.used_bytes, 1U);
  EXPECT_EQ(newer.info.limit_bytes, 3U);
  EXPECT_EQ(newer.more, 7U);
  yoke_memory_info older = {16, 7, 7, 7};
  sdk::write_sized(mine, &older);
  EXPECT_EQ(older.struct_size, 16U);
  EXPECT_EQ(older.used_bytes, 1U);
  EXPECT_EQ(older.peak_bytes, 7U);
  older.struct_size = 8;
  sdk::write_sized(mine, &older);
  EXPECT_EQ(older.struct_size, 8U);
  older.struct_size = 7;
  EXPECT_THROW(sdk::write_sized(mine, &older), sdk::Failure);

  yoke_memory_info read = {9, 9, 9, 9};
  older = {16, 5, 6, 7};
  sdk::read_sized(read, &older);
  EXPECT_EQ(read.struct_size, 16U);
  EXPECT_EQ(read.used_bytes, 5U);
  EXPECT_EQ(read.peak_bytes, 9U);
  newer = {{sizeof(Newer), 1, 2, 3}, 4};
  sdk::read_sized(read, &newer.info);
  EXPECT_EQ(read.limit_bytes, 3U);
}

}  // namespace
}  // namespace yoke::test
