// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_long_row.cpp: indices and counts in a row of more than 2^24 elements. f32
// represents no odd number above 2^24, so a plugin that passes them through f32 gives a wrong one.
#include <algorithm>
#include <array>
#include <string>

#include "groups.h"
#include "program/run/launch.h"

namespace yoke::conformance {
namespace {

constexpr std::int64_t kCount = (1 << 24) + 43;
constexpr std::int64_t kPeak = kCount - 2;  // of the one element that is 201; the others are 1
constexpr std::int64_t kHole = kCount - 6;  // of the one element that is 0
static_assert(kPeak % 2 == 1 && kHole % 2 == 1);

struct Form {
  const char* what;
  std::string_view statement;  // y is i64[]; x the row; at holds kPeak
  std::int64_t expected;
};

constexpr Form kForms[] = {
    {"the index of the maximum", "y[] = argmax[i] x[i]", kPeak},
    {"the index of the minimum", "y[] = argmin[i] x[i]", kHole},
    {"a sum of counts", "y[] = sum[i] i64(x[i])", kCount + 199},
    {"a sum that contains a loop variable", "y[] = sum[i] select(x[i] > 9, i64(i), 0)", kPeak},
    {"the maximum of a loop variable", "y[] = max[i] select(x[i] < 1, i64(i), -1)", kHole},
    {"a gather", "y[] = i64((x[at[]] else 9))", 201},
};

void long_row(Kit& kit) {
  kit.plugin().table<yoke_program_api>();
  Device& device = kit.device();
  const yoke_memory_info memory = device.memory();
  if (memory.limit_bytes != 0 && memory.limit_bytes < 4 * kCount) {
    unsupported("no memory for a row of 2^24 bytes");
  }
  Bytes row(kCount, std::byte{1});
  row[kPeak] = std::byte{201};
  row[kHole] = std::byte{0};
  const Buffer x(device, kCount);
  x.write(0, row);
  const Buffer at(device, sizeof kPeak);
  at.write(0, std::as_bytes(std::span(&kPeak, 1)));
  const Buffer y(device, sizeof(std::int64_t));
  std::size_t count = 0;
  std::string reason;
  for (const Form& form : kForms) {
    kit.progress(form.what);
    const std::string bytes =
        text("yoke.program 1\nprogram long_row() {\n arg x : u8[", kCount,
             "] in\n arg at : i64[] in\n arg y : i64[] out\n ", form.statement, "\n}\n");
    try {
      require_supported(device, bytes, 1);
    } catch (const Unsupported& unsupported_form) {
      reason = unsupported_form.what();
      continue;
    }
    const Code code = compile(device, bytes);
    const Buffer workspace = workspace_for(device, code);
    const yoke_binding bindings[] = {binding(x), binding(at), binding(y)};
    const Routine routine = link(device.plugin(), code, 0, bindings, binding(workspace));
    launch(device.plugin(), routine, {});
    std::int64_t got = 0;
    y.read(0, std::as_writable_bytes(std::span(&got, 1)));
    check_equal(got, form.expected, form.what, " in a row of ", kCount, " elements");
    ++count;
  }
  if (count == 0) {
    unsupported(reason);
  }
}

}  // namespace

std::vector<Test> long_row_tests() {
  return {{"long-row", "indices and counts beyond 2^24 are exact", {26}, long_row, 3}};
}

}  // namespace yoke::conformance
