// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/harness.cpp: runs programs on generated kernels and compares the results.
#include "harness.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <cstring>

#include "evaluate.h"

namespace yoke::codegen::test {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::byte kGuardByte{0xA5};

// Memory between guard bytes, `shift` bytes after a multiple of 256.
class Memory {
 public:
  Memory(std::uint64_t byte_count, std::uint64_t shift)
      : bytes_(byte_count + 3 * kGuard + shift, kGuardByte), byte_count_(byte_count) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuard;
    offset_ = kGuard + (256 - address % 256) % 256 + shift;
  }
  std::byte* data() { return bytes_.data() + offset_; }
  std::uint64_t byte_count() const { return byte_count_; }
  bool guards_are_intact() const {
    const auto intact = [](std::byte one) { return one == kGuardByte; };
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(bytes_.begin(), begin, intact) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(byte_count_), bytes_.end(), intact);
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t byte_count_;
  std::uint64_t offset_;
};

conformance::Contents run(const CpuPlans& plans, std::size_t number, const conformance::Case& one,
                          const conformance::Contents& start, const std::vector<std::int64_t>& symbols,
                          bool is_aligned) {
  const std::vector<std::uint32_t> ids = one.program.arguments();
  std::vector<Memory> memory;
  memory.reserve(start.size());
  std::vector<std::byte*> arguments;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const std::uint64_t size = program::byte_size(one.program.tensors[ids[i]].type);
    memory.emplace_back(start[i].size(), is_aligned ? 0 : size * (1 + i));
    std::copy(start[i].begin(), start[i].end(), memory.back().data());
    arguments.push_back(memory.back().data());
  }
  Memory workspace(plans.plan(number).workspace_byte_count, 0);
  std::memset(workspace.data(), 0xFF, workspace.byte_count());  // NaN, so that unwritten bytes show
  plans.run(number, arguments, workspace.data(), symbols);
  EXPECT_TRUE(workspace.guards_are_intact()) << "a kernel wrote outside the workspace";
  conformance::Contents results;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const program::Tensor& tensor = one.program.tensors[ids[i]];
    EXPECT_TRUE(memory[i].guards_are_intact()) << "a kernel wrote outside " << tensor.name;
    results.emplace_back(memory[i].data(), memory[i].data() + start[i].size());
    if (tensor.role == program::Role::kIn) {
      EXPECT_EQ(results.back(), start[i]) << "a kernel wrote to the input " << tensor.name;
    }
  }
  return results;
}

CpuPlans plans_of(std::span<const conformance::Case> cases, const Target& target) {
  std::vector<Plan> made;
  for (const conformance::Case& one : cases) {
    made.push_back(generate(one.program, target));
  }
  return CpuPlans(std::move(made), target);
}

}  // namespace

std::vector<conformance::Contents> results_of(std::span<const conformance::Case> cases,
                                              std::span<const conformance::Contents> starts,
                                              const Target& target) {
  const CpuPlans plans = plans_of(cases, target);
  std::vector<conformance::Contents> results;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    results.push_back(run(plans, i, cases[i], starts[i], cases[i].launches[0], true));
    EXPECT_EQ(results.back(), run(plans, i, cases[i], starts[i], cases[i].launches[0], false))
        << "alignment changes the results of case " << i;
  }
  return results;
}

void check_cases(std::span<const conformance::Case> cases, const Target& target) {
  const CpuPlans plans = plans_of(cases, target);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(cases[i].index) + "\n" + program::print(cases[i].program));
    for (const std::vector<std::int64_t>& symbols : cases[i].launches) {
      const conformance::Contents start = conformance::initial_arguments(cases[i]);
      const conformance::Contents got = run(plans, i, cases[i], start, symbols, true);
      const conformance::AllowedResults allowed(cases[i], symbols);
      EXPECT_EQ(allowed.compare(got), "");
      EXPECT_EQ(got, run(plans, i, cases[i], start, symbols, false)) << "alignment changes the results";
    }
    if (testing::Test::HasFailure()) {
      const std::string& source = plans.plan(i).source;
      ADD_FAILURE() << source.substr(
          std::min(source.find("YK_KERNEL(", source.find("yk_random_bits")), source.size()));
      return;
    }
  }
}

conformance::Case case_of(std::string_view text) {
  conformance::Case one;
  one.seed = 5;
  one.program = program::parse_and_verify(text).programs.at(0);
  one.data.assign(one.program.tensors.size(), {conformance::DataKind::kUniform, 1, -1});
  one.launches.emplace_back();
  for (std::size_t i = 0; i < one.program.launch_symbol_count(); ++i) {
    one.launches[0].push_back(one.program.symbols[i].low);
  }
  return one;
}

std::string program_text(const std::string& body) {
  return "yoke.program 1\nprogram p(symbol s in 0..9 step 4) {\n" + body + "}\n";
}

void check_texts(std::span<const Text> texts, const Target& target, std::string_view sign) {
  std::vector<conformance::Case> cases;
  for (const Text& text : texts) {
    cases.push_back(case_of(program_text(text.body)));
    const std::string source = generate(cases.back().program, target).source;
    for (const std::string_view wanted : {sign, std::string_view(text.sign)}) {
      EXPECT_NE(source.find(wanted), std::string::npos) << text.name << " does not use " << wanted;
    }
  }
  check_cases(cases, target);
}

std::string launches_of(std::string_view text) {
  const program::Program program = program::parse_and_verify(text).programs.at(0);
  const Plan plan = generate(program, Target{});
  std::string lines;
  for (const Launch& launch : plan.launches) {
    const Kernel& kernel = plan.kernels[launch.kernel];
    lines += std::to_string(launch.statements.front()) + ".." + std::to_string(launch.statements.back() + 1) +
             ": " + kernel.name + ", " + std::to_string(launch.grid[0]) + " blocks of " +
             std::to_string(kernel.threads) + (launch.remark.empty() ? "" : ", " + launch.remark) + "\n";
  }
  return lines;
}

}  // namespace yoke::codegen::test
