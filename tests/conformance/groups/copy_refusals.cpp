// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/copy_refusals.cpp: copies and fills that do not fit, or fill with what is no
// pattern.
#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

// Ranges that do not fit in `size` bytes, also where offset + count wraps around.
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
      const std::string what = range_text(range.offset, range.byte_count) + text(" in a buffer of ", size);
      expect_code(plugin.call<&yoke_backend_api::from_host>(nullptr, model.buffer.get(), range.offset,
                                                            host.data(), range.byte_count, &source),
                  YOKE_OUT_OF_RANGE, "from_host of " + what);
      check_equal(source, 12345, "*out_source after a refused from_host");
      expect_code(plugin.call<&yoke_backend_api::to_host>(nullptr, model.buffer.get(), range.offset,
                                                          host.data(), range.byte_count),
                  YOKE_OUT_OF_RANGE, "to_host of " + what);
      check(host == before, "a refused to_host of ", what, " wrote to host memory");
    }
    model.check_same("after copies that were refused");
  }
}

void outside_device_copies(Kit& kit) {
  Random random = kit.random();
  const Plugin& plugin = kit.plugin();
  const Modelled small(kit.device(), random, 100);
  const Modelled large(kit.device(), random, 9000);
  for (const Range& range : ranges_outside(100)) {
    const std::string what = range_text(range.offset, range.byte_count) + " in a buffer of 100";
    expect_code(plugin.call<&yoke_backend_api::device_to_device>(nullptr, small.buffer.get(), range.offset,
                                                                 large.buffer.get(), std::uint64_t{0},
                                                                 range.byte_count),
                YOKE_OUT_OF_RANGE, "device_to_device, target " + what);
    expect_code(
        plugin.call<&yoke_backend_api::device_to_device>(nullptr, large.buffer.get(), std::uint64_t{0},
                                                         small.buffer.get(), range.offset, range.byte_count),
        YOKE_OUT_OF_RANGE, "device_to_device, source " + what);
  }
  small.check_same("after device_to_device was refused");
  large.check_same("after device_to_device was refused");
}

void outside_fills(Kit& kit) {
  Random random = kit.random();
  const Modelled model(kit.device(), random, 96);
  const std::uint64_t pattern = 0x1122334455667788U;
  for (const Range& range : ranges_outside(96)) {
    for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
      if (range.byte_count % size == 0) {
        expect_code(kit.plugin().call<&yoke_backend_api::fill>(nullptr, model.buffer.get(), range.offset,
                                                               range.byte_count, &pattern, size),
                    YOKE_OUT_OF_RANGE,
                    "fill of " + range_text(range.offset, range.byte_count) + " in a buffer of 96");
      }
    }
  }
  model.check_same("after fills that were refused");
}

void pattern_sizes(Kit& kit) {
  Random random = kit.random();
  const Modelled model(kit.device(), random, 480);
  const Bytes pattern = random.bytes(480);
  for (const std::uint32_t size : {0U, 3U, 5U, 6U, 7U, 12U, 16U, 32U, 480U, 0x80000000U, UINT32_MAX}) {
    expect_code(kit.plugin().call<&yoke_backend_api::fill>(nullptr, model.buffer.get(), std::uint64_t{0},
                                                           std::uint64_t{480}, pattern.data(), size),
                YOKE_INVALID_ARGUMENT, text("filling with a pattern of ", size, " bytes"));
  }
  model.check_same("after fills that were refused");
}

}  // namespace

std::vector<Test> copy_refusal_tests() {
  return {
      {"host-out-of-range",
       "from_host and to_host outside of a buffer are OUT_OF_RANGE and change nothing",
       {10, 16},
       outside_host_copies},
      {"device-out-of-range",
       "device_to_device outside of either buffer is OUT_OF_RANGE and changes nothing",
       {10, 16},
       outside_device_copies},
      {"fill-out-of-range",
       "fill outside of a buffer is OUT_OF_RANGE and changes nothing",
       {10, 16},
       outside_fills},
      {"fill-pattern-sizes", "a pattern of another size is INVALID_ARGUMENT", {10}, pattern_sizes},
  };
}

}  // namespace yoke::conformance
