// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/difference.cpp: the same entry, launched again, elsewhere and on a stream.
#include <algorithm>

#include "batch.h"

namespace yoke::conformance {

using program::Tensor;

namespace {

constexpr std::uint64_t kLayouts = 3;

// "y[3] is 1.5, and 1.25 in launch 1 of memory layout 2"
std::string difference_of(const Case& one, const std::vector<Bytes>& first, const std::vector<Bytes>& now,
                          const std::string& where) {
  const std::vector<std::uint32_t> arguments = one.program.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Tensor& tensor = one.program.tensors[arguments[i]];
    const std::uint64_t size = program::byte_size(tensor.type);
    std::uint64_t count = 0;
    std::string which;
    for (std::uint64_t at = 0; at < tensor.element_count(); ++at) {
      const auto begin = static_cast<std::ptrdiff_t>(at * size);
      const auto end = begin + static_cast<std::ptrdiff_t>(size);
      if (!std::equal(first[i].begin() + begin, first[i].begin() + end, now[i].begin() + begin)) {
        which =
            count++ != 0
                ? which
                : text("element ", at, " of ", tensor.name, " is ", element_text(tensor.type, first[i], at),
                       " in launch 0 of memory layout 0, and ", element_text(tensor.type, now[i], at), where);
      }
    }
    if (count != 0) {
      return text(which, "; ", count, " of ", tensor.element_count(), " elements differ");
    }
  }
  return {};
}

}  // namespace

std::string BatchRunner::difference(const Case& one, Tally& tally) {
  if (supported({&one, 1}, tally).empty()) {
    return {};
  }
  const Code code = compile(device_, text_of({&one, 1}));
  const yoke_entry_info info = describe_entry(device_.plugin(), code);
  if (info.deterministic == 0) {
    return {};
  }
  ++tally.programs;
  const std::vector<Bytes> start = initial_arguments(one);
  std::vector<Bytes> first;
  for (std::uint64_t layout = 0; layout < kLayouts; ++layout) {
    Arena arena(device_, pool_, one, code, 0, info.workspace_byte_count, layout);
    const Routine routine = link(device_.plugin(), code, 0, arena);
    for (int run = 0; run < 3; ++run) {
      arena.upload(start);
      launch(device_.plugin(), routine, one.launches[0], run == 1 && stream_ ? &*stream_ : nullptr);
      const std::vector<Bytes> now = arena.download();
      if (first.empty()) {
        first = now;
      } else if (first != now) {
        return difference_of(one, first, now, text(" in launch ", run, " of memory layout ", layout));
      }
    }
  }
  return {};
}

}  // namespace yoke::conformance
