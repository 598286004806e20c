// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/copy_refusals.cpp: copies and fills that must fail:
// ranges out of bounds and invalid patterns.
#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

// Ranges that exceed a buffer of `size` bytes, some with an end that overflows.
std::vector<Range> ranges_outside(std::uint64_t size) {
  return {{size + 1, 0},
          {size, 1},
          {0, size + 1},
          {1, size},
          {size - 1, 2},
          {UINT64_MAX, 0},
          {UINT64_MAX, 1},
          {UINT64_MAX, 2},
          {UINT64_MAX - 7, 16},
          {2, UINT64_MAX},
          {1, UINT64_MAX},
          {0, UINT64_MAX},
          {size, UINT64_MAX - size + 1},
          {UINT64_MAX / 2 + 1, UINT64_MAX / 2 + 1},
          {8, UINT64_MAX - 7},
          {std::uint64_t{1} << 32U, 1}};
}

void outside_host_copies(Kit& kit) {
  Random random = kit.random();
  const Plugin& plugin = kit.plugin();
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{4096}}) {
    const Modelled model(kit.device(), random, size);
    Bytes host = random.bytes(8192);
    const Bytes before = host;
    for (const Range& range : ranges_outside(size)) {
      std::int32_t source = 12345;
      const std::string what =
          range_text(range.offset, range.byte_count) + text(" of a ", size, "-byte buffer");
      expect_code(
          plugin.from_host(nullptr, model.buffer.get(), range.offset, host.data(), range.byte_count, &source),
          YOKE_STATUS_OUT_OF_RANGE, "from_host to " + what);
      check_equal(source, 12345, "*out_source after a failed from_host");
      expect_code(plugin.to_host(nullptr, model.buffer.get(), range.offset, host.data(), range.byte_count),
                  YOKE_STATUS_OUT_OF_RANGE, "to_host from " + what);
      check(host == before, "a failed to_host from ", what, " wrote host memory");
    }
    model.check_same("after failed copies");
  }
}

void outside_device_copies(Kit& kit) {
  Random random = kit.random();
  const Plugin& plugin = kit.plugin();
  const Modelled small(kit.device(), random, 100);
  const Modelled large(kit.device(), random, 9000);
  for (const Range& range : ranges_outside(100)) {
    const std::string what = range_text(range.offset, range.byte_count) + " of a 100-byte buffer";
    expect_code(plugin.device_to_device(nullptr, small.buffer.get(), range.offset, large.buffer.get(), 0,
                                        range.byte_count),
                YOKE_STATUS_OUT_OF_RANGE, "device_to_device to " + what);
    expect_code(plugin.device_to_device(nullptr, large.buffer.get(), 0, small.buffer.get(), range.offset,
                                        range.byte_count),
                YOKE_STATUS_OUT_OF_RANGE, "device_to_device from " + what);
  }
  small.check_same("after a failed device_to_device");
  large.check_same("after a failed device_to_device");
}

void outside_fills(Kit& kit) {
  Random random = kit.random();
  const Modelled model(kit.device(), random, 96);
  const std::uint64_t pattern = 0x1122334455667788U;
  for (const Range& range : ranges_outside(96)) {
    for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
      if (range.byte_count % size == 0) {
        expect_code(
            kit.plugin().fill(nullptr, model.buffer.get(), range.offset, range.byte_count, &pattern, size),
            YOKE_STATUS_OUT_OF_RANGE,
            "fill of " + range_text(range.offset, range.byte_count) + " of a 96-byte buffer");
      }
    }
  }
  model.check_same("after failed fills");
}

void pattern_sizes(Kit& kit) {
  Random random = kit.random();
  const Modelled model(kit.device(), random, 480);
  const Bytes pattern = random.bytes(480);
  for (const std::uint32_t size : {0U, 3U, 5U, 6U, 7U, 12U, 16U, 32U, 480U, 0x80000000U, UINT32_MAX}) {
    expect_code(kit.plugin().fill(nullptr, model.buffer.get(), 0, 480, pattern.data(), size),
                YOKE_STATUS_INVALID_ARGUMENT, text("filling with a ", size, "-byte pattern"));
  }
  model.check_same("after failed fills");
}

}  // namespace

std::vector<Test> copy_refusal_tests() {
  return {
      {"host-out-of-range",
       "from_host and to_host out of range fail with OUT_OF_RANGE and change nothing",
       {10, 16},
       outside_host_copies},
      {"device-out-of-range",
       "device_to_device out of range of either buffer fails with OUT_OF_RANGE and changes nothing",
       {10, 16},
       outside_device_copies},
      {"fill-out-of-range",
       "fill out of range fails with OUT_OF_RANGE and changes nothing",
       {10, 16},
       outside_fills},
      {"fill-pattern-sizes",
       "fill with a pattern size other than 1, 2, 4 or 8 fails with INVALID_ARGUMENT",
       {10},
       pattern_sizes},
  };
}

}  // namespace yoke::conformance
