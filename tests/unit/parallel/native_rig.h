// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/native_rig.h: members on the mutant, a backend whose collectives add in the order of ranks.
#pragma once

#include <yoke/ext/fault.h>

#include "loader/status.h"
#include "rig.h"

namespace yoke::test {

inline RuntimeOptions mutant_options() {
  RuntimeOptions options;
  options.plugin_dirs = {YOKE_MUTANT_FOLDER};
  options.search_environment = false;
  options.wait_timeout = 30s;
  return options;
}

inline const char* type_name(std::int32_t type) {
  constexpr const char* kNames[] = {"", "f64", "f32", "f16", "bf16", "i64", "i32", "u32", "u8", "bool"};
  return kNames[type];
}

// Bytes that are numbers between 0.5 and 8 for every element type.
inline std::vector<std::byte> some_bytes(std::int32_t type, std::uint64_t count, std::uint32_t seed) {
  std::vector<std::byte> bytes;
  std::uint32_t state = seed * 2654435761U + 12345;
  const auto append = [&](auto value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t bits = state >> 8U;
    switch (type) {
      case YOKE_TYPE_F64:
        append(0.5 + static_cast<double>(bits) / (1U << 22U));
        break;
      case YOKE_TYPE_F32:
        append(0.5F + static_cast<float>(bits) / static_cast<float>(1U << 22U));
        break;
      case YOKE_TYPE_F16:
        append(static_cast<std::uint16_t>(0x3800U + bits % 0x1000U));
        break;
      case YOKE_TYPE_BF16:
        append(static_cast<std::uint16_t>(0x3f00U + bits % 0x200U));
        break;
      case YOKE_TYPE_I64:
        append(std::uint64_t{bits} << 20U);
        break;
      case YOKE_TYPE_I32:
      case YOKE_TYPE_U32:
        append(bits);
        break;
      case YOKE_TYPE_U8:
        append(static_cast<std::uint8_t>(bits));
        break;
      default:
        append(static_cast<std::uint8_t>(bits % 2));
    }
  }
  return bytes;
}

class Native : public ::testing::Test {
 protected:
  explicit Native(RuntimeOptions options = mutant_options()) : runtime(with_log(std::move(options))) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      devices.push_back(runtime.backend("mutant")->open_device(k));
    }
  }
  RuntimeOptions with_log(RuntimeOptions options) {
    options.log_level = LogLevel::kInfo;
    options.log_sink = log.sink();
    return options;
  }
  // Member k on device k mod 2, with a tensor "g".
  std::vector<Context> members(std::uint32_t size, std::int32_t type = YOKE_TYPE_F32,
                               std::uint64_t count = 1000) {
    std::vector<Context> contexts;
    for (std::uint32_t k = 0; k < size; ++k) {
      contexts.emplace_back(Stream::create(devices[k % 2]));
      const std::vector<std::byte> bytes = some_bytes(type, count, k);
      contexts[k].init_from_host("g", {type, {count}}, bytes);
      contexts[k].stream()->wait();
    }
    return contexts;
  }
  static std::vector<std::byte> contents(const Context& context) {
    return read<std::byte>(*context.stream(), context.tensor("g").view);
  }
  // The next copy of the device fails.
  void arm(std::uint32_t device, std::int32_t kind) {
    detail::Status status;
    const auto* faults = runtime.backend("mutant")->extension<yoke_fault_api>(YOKE_FAULT_TABLE);
    ASSERT_EQ(faults->fault_arm(devices[device]->get(), kind, 1, 0, status.get()), YOKE_STATUS_OK);
  }

  LogLines log;
  Runtime runtime;
  std::vector<std::shared_ptr<Device>> devices;
};

using Link = LinkedCollective (*)(Collectives&, Slice);
// Whether the result of member `rank` in part `part` is defined.
using IsDefined = bool (*)(std::uint32_t rank, std::uint32_t part);
struct Case {
  const char* name;
  Link link;
  IsDefined is_defined;
  bool sums;
};
inline constexpr Case kCases[] = {
    {"reduce", [](Collectives& all, Slice range) { return all.reduce("g", range); },
     [](std::uint32_t rank, std::uint32_t) { return rank == 0; }, true},
    {"reduce_scatter", [](Collectives& all, Slice range) { return all.reduce_scatter("g", range); },
     [](std::uint32_t rank, std::uint32_t part) { return rank == part; }, true},
    {"all_reduce", [](Collectives& all, Slice range) { return all.all_reduce("g", range); },
     [](std::uint32_t, std::uint32_t) { return true; }, true},
    {"all_gather", [](Collectives& all, Slice range) { return all.all_gather("g", range); },
     [](std::uint32_t, std::uint32_t) { return true; }, false},
    {"broadcast", [](Collectives& all, Slice range) { return all.broadcast("g", range); },
     [](std::uint32_t, std::uint32_t) { return true; }, false},
};

}  // namespace yoke::test
