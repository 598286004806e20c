// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/device.cpp: counting, describing, opening and closing devices.
#include <cstring>
#include <set>

#include "groups.h"
#include "sized.h"

namespace yoke::conformance {
namespace {

// Describes a device into a struct filled with 0x7f bytes, so that a
// member that is not written has a strange value.
yoke_device_info described(const Plugin& plugin, std::uint32_t ordinal) {
  yoke_device_info info = sized<yoke_device_info>();
  std::memset(reinterpret_cast<char*>(&info) + sizeof info.struct_size, 0x7f,
              sizeof info - sizeof info.struct_size);
  expect_ok(plugin.device_describe(ordinal, &info), text("describing device ", ordinal));
  return info;
}

void description(Kit& kit) {
  const std::uint32_t count = kit.plugin().some_devices();
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    const yoke_device_info info = described(kit.plugin(), ordinal);
    const auto is_text = [&](const char(&field)[YOKE_NAME_CAPACITY], const char* what) {
      check(std::memchr(field, '\0', sizeof field) != nullptr, what, " of device ", ordinal,
            " has no terminating zero");
      check(field[0] != '\0' && is_utf8(field), what, " of device ", ordinal, " is empty or not UTF-8");
    };
    const auto in_range = [&](auto value, auto low, auto high, const char* what) {
      check(value >= low && value <= high, what, " of device ", ordinal, " is ", value, ", expected ", low,
            " to ", high);
    };
    is_text(info.name, "name");
    is_text(info.unique_id, "unique_id");
    in_range(info.kind, YOKE_DEVICE_CPU, YOKE_DEVICE_OTHER, "kind");
    in_range(info.compute_unit_count, 1U, 10'000'000U, "compute_unit_count");
    in_range(info.suggested_stream_count, 1U, 100'000U, "suggested_stream_count");
    in_range(info.host_visible, 0, 1, "host_visible");
    in_range(info.numa_node, -1, 100'000, "numa_node");
    in_range(info.memory_bytes, std::uint64_t{0}, std::uint64_t{1} << 56U, "memory_bytes");
    check((info.type_mask & 1U) == 0, "type_mask of device ", ordinal,
          " has bit 0 set, which is not a type; use 1 << YOKE_TYPE_F32 and so on");
  }
}

void description_sizes(Kit& kit) {
  const Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  check_sized<yoke_device_info>("device_describe", [&](yoke_device_info* info) {
    return plugin.device_describe(kit.settings().device, info);
  });
  check_sized<yoke_memory_info>("device_memory", [&](yoke_memory_info* info) {
    return plugin.call<&yoke_backend_api::device_memory>(device.get(), info);
  });
  check_sized<yoke_live_counts>("live_counts", [&](yoke_live_counts* counts) {
    return plugin.call<&yoke_backend_api::live_counts>(plugin.get(), counts);
  });
  const Buffer buffer(kit.device(), 100);
  check_sized<yoke_buffer_info>("buffer_describe", [&](yoke_buffer_info* info) {
    return plugin.call<&yoke_backend_api::buffer_describe>(buffer.get(), info);
  });
}

void invalid_ordinals(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const std::uint32_t count = plugin.device_count();
  for (const std::uint32_t ordinal : {count, count + 1, count + 1000, UINT32_MAX, UINT32_MAX / 2 + 1}) {
    check_untouched<yoke_device_info>(
        "describing a device that does not exist", YOKE_STATUS_OUT_OF_RANGE,
        [&](yoke_device_info* info) { return plugin.device_describe(ordinal, info); });
    expect_no_object<yoke_device>(YOKE_STATUS_OUT_OF_RANGE, text("opening device ", ordinal, " of ", count),
                                  [&](yoke_device** out) { return plugin.device_open(ordinal, {}, out); });
  }
  check_equal(plugin.live_counts().devices, 0U, "the number of live devices after failed opens");
}

std::string ids_of(const Plugin& plugin) {
  std::string ids;
  for (std::uint32_t i = 0; i < plugin.device_count(); ++i) {
    ids += std::string(described(plugin, i).unique_id) + "\n";
  }
  return ids;
}

void unique_ids(Kit& kit) {
  // Another process counts the devices first, before this process loads the plugin.
  const std::string of_child = in_child([&] {
    const Settings& settings = kit.settings();
    return ids_of(Plugin(Library(settings.plugin, settings.plugin_options)));
  });
  const std::string ids = ids_of(kit.plugin());
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < kit.plugin().device_count(); ++i) {
    const std::string id = described(kit.plugin(), i).unique_id;
    check(seen.insert(id).second, "two devices have the unique_id '", id, "'");
  }
  check_equal(ids_of(Plugin(kit.library())), ids, "the list of unique_ids in another instance");
  check_equal(of_child, ids, "the list of unique_ids in another process");
}

// Every device that device_count counts must exist. It may be in use, broken, or not permitted.
void every_device_opens(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  const std::uint32_t count = plugin.some_devices();
  std::uint32_t opened = 0;
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    yoke_device* device = nullptr;
    const Answer answer = plugin.device_open(ordinal, {}, &device);
    if (answer.ok()) {
      check(device != nullptr, "device_open returned OK but left its out-parameter NULL");
      expect_ok(plugin.device_close(device), "closing an unused device");
      ++opened;
    } else {
      check(answer.code != YOKE_STATUS_OUT_OF_RANGE && answer.code != YOKE_STATUS_INVALID_ARGUMENT &&
                answer.code != YOKE_STATUS_INTERNAL,
            "device_count is ", count, ", but opening device ", ordinal, ": ", answer.words());
      expect_refused(answer, text("opening device ", ordinal));
    }
  }
  kit.note(text(opened, " of ", count, " devices opened"));
}

}  // namespace

std::vector<Test> device_tests() {
  return {
      {"description",
       "the names of a device are terminated UTF-8 and its numbers are in range",
       {7},
       description},
      {"description-sizes",
       "info structs of older and newer hosts are filled up to their struct_size",
       {5},
       description_sizes},
      {"invalid-ordinals",
       "an ordinal that does not exist is OUT_OF_RANGE with a text, and out-parameters do not change",
       {10, 12},
       invalid_ordinals},
      {"unique-ids", "unique_ids differ between devices and are the same in every process", {}, unique_ids},
      {"every-device-opens", "each device opens, or fails with a reason", {12}, every_device_opens},
  };
}

}  // namespace yoke::conformance
