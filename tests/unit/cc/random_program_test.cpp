// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/random_program_test.cpp: the conformance kit's random programs on every instruction set.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <cstring>

#include "evaluate.h"
#include "generator.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

using conformance::Case;

std::span<const std::byte> bytes_of(const Guarded& memory) {
  return {memory.data(), memory.byte_count()};
}

// Runs one launch twice and checks every result against the kit's bounds.
void check_launch(const Case& one, const std::vector<Guarded>& start,
                  const std::vector<std::int64_t>& symbols, int threads, const KernelTable& table) {
  std::vector<Guarded> reference = start;
  std::vector<void*> pointers;
  std::vector<std::span<const std::byte>> inputs;
  for (std::size_t i = 0; i < start.size(); ++i) {
    pointers.push_back(reference[i].data());
    inputs.push_back(bytes_of(start[i]));
  }
  program::execute(one.program, pointers, symbols);
  const std::vector<conformance::Bounds> bounds = conformance::evaluate_bounds(one.program, inputs, symbols);

  const std::vector<Guarded> got = run_guarded(one.program, start, symbols, threads, table);
  const std::vector<std::uint32_t> ids = one.program.arguments();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    conformance::Mismatch mismatch;
    EXPECT_FALSE(conformance::find_mismatch(one.program, ids[i], bounds[ids[i]], bytes_of(reference[i]),
                                            bytes_of(got[i]), mismatch))
        << conformance::describe(one.program, mismatch);
  }
  EXPECT_TRUE(same_bytes(got, run_guarded(one.program, start, symbols, threads, table)))
      << "a second run gave different bits";
}

TEST(RandomProgramTest, RandomProgramsMatchTheReferenceOnEveryInstructionSet) {
  constexpr std::uint64_t kProgramCount = 600;
  const std::vector<const KernelTable*> tables = all_tables();
  for (std::uint64_t index = 0; index < kProgramCount && !HasFailure(); ++index) {
    const Case one = conformance::generate_case(7, index);
    std::vector<Guarded> start;
    for (const std::uint32_t id : one.program.arguments()) {
      const std::vector<std::byte> bytes = conformance::initial_bytes(one, id);
      start.emplace_back(bytes.size());
      std::memcpy(start.back().data(), bytes.data(), bytes.size());
    }
    const KernelTable& table =
        *tables[index / 2 % tables.size()];  // odd and even indices have different kinds of programs
    const int threads = index % 5 == 0 ? 2 : 1;
    SCOPED_TRACE("program " + std::to_string(index) + ", kernels " + table.name + ", threads " +
                 std::to_string(threads) + "\n" + program::print(one.program));
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      check_launch(one, start, symbols, threads, table);
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
