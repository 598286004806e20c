// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/program_text.cpp: parse, print, verify, execute.
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "audit.h"
#include "guarded.h"
#include "harness.h"

namespace yoke::fuzz {
namespace {

using program::Program;
using program::Role;
using program::Statement;
using program::Tensor;

// Chooses the first, the last or a random value of each symbol.
std::vector<std::int64_t> symbol_values(const Program& program, std::mt19937_64& random, int choice) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < program.launch_symbol_count(); ++i) {
    const program::Symbol& symbol = program.symbols[i];
    const std::uint64_t span =
        static_cast<std::uint64_t>(symbol.high) - static_cast<std::uint64_t>(symbol.low);
    const std::uint64_t last = (span - 1) / static_cast<std::uint64_t>(symbol.step);
    const std::uint64_t step = choice == 0                 ? 0
                               : choice == 1               ? last
                               : last == ~std::uint64_t{0} ? random()
                                                           : random() % (last + 1);
    values.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(symbol.low) +
                                               step * static_cast<std::uint64_t>(symbol.step)));
  }
  return values;
}

// The contents of arguments before a run: small numbers, which can be indices, or random bytes.
std::vector<std::vector<std::uint8_t>> contents(const Program& program, std::mt19937_64& random) {
  std::vector<std::vector<std::uint8_t>> all;
  for (const std::uint32_t argument : program.arguments()) {
    const Tensor& tensor = program.tensors[argument];
    std::vector<std::uint8_t> bytes(tensor.byte_count());
    const bool small_numbers = random() % 2 == 0;
    const std::uint64_t size = program::byte_size(tensor.type);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(small_numbers ? (i % size == 0 ? random() % 8 : 0) : random());
    }
    all.push_back(std::move(bytes));
  }
  return all;
}

// Runs in guarded memory. `out` arguments are filled with `poison` first.
std::vector<std::vector<std::uint8_t>> run(const Program& program,
                                           const std::vector<std::vector<std::uint8_t>>& before,
                                           std::span<const std::int64_t> symbols, std::uint8_t poison) {
  const std::vector<std::uint32_t> arguments = program.arguments();
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    memory.push_back(std::make_unique<Guarded>(before[i].size()));
    if (program.tensors[arguments[i]].role == Role::kOut) {
      std::memset(memory[i]->data(), poison, before[i].size());
    } else if (!before[i].empty()) {
      std::memcpy(memory[i]->data(), before[i].data(), before[i].size());
    }
    addresses.push_back(memory[i]->data());
  }
  program::execute(program, addresses, symbols);
  std::vector<std::vector<std::uint8_t>> after;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::uint8_t* bytes = memory[i]->data();
    after.emplace_back(bytes, bytes + before[i].size());
    require(program.tensors[arguments[i]].role != Role::kIn || after[i] == before[i],
            "'" + program.tensors[arguments[i]].name + "' is an `in` argument and was written");
  }
  return after;
}

void execute(const Program& program) {
  std::mt19937_64 random(program.statements.size());
  for (int choice = 0; choice < 3; ++choice) {
    const std::vector<std::int64_t> symbols = symbol_values(program, random, choice);
    audit(program, symbols);
    const auto before = contents(program, random);
    const auto first = run(program, before, symbols, 0x00);
    const auto second = run(program, before, symbols, 0xFF);
    require(first == second, "an `out` argument was not fully written, or read before it was written");
    if (program.symbols.empty()) {
      break;
    }
  }
}

// Whether the program is small enough to run. Larger ones could take an hour, so only their text is tested.
bool is_small(const Program& program) {
  constexpr std::uint64_t kMostBytes = 1U << 14U;
  constexpr std::uint64_t kMostIterations = 2000;
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;
  for (const Tensor& tensor : program.tensors) {
    bytes += std::min(tensor.byte_count(), kMostBytes + 1);
  }
  for (const Statement& statement : program.statements) {
    std::uint64_t count = 1;
    for (const auto& loop : statement.loops) {
      count = std::min(count * std::min(loop.extent, kMostIterations + 1), kMostIterations + 1);
    }
    if (statement.repeat >= 0) {
      const std::uint64_t rounds = program.symbols[static_cast<std::size_t>(statement.repeat)].value_count();
      count *= std::min(rounds, kMostIterations + 1);
    }
    iterations += count;
  }
  return bytes <= kMostBytes && iterations <= kMostIterations && program.tensors.size() <= 64;
}

std::string verdict_on(program::Module& module) {
  try {
    program::verify(module);
  } catch (const program::ProgramError& error) {
    return error.reason();
  }
  return "accepted";
}

}  // namespace

void program_text(std::span<const std::uint8_t> input) {
  // A copy without a terminating zero, so that the sanitizer detects reads past the end.
  const std::vector<char> bytes(input.begin(), input.end());
  const std::string_view text(bytes.data(), bytes.size());
  program::Module module;
  try {
    module = program::parse(text);
  } catch (const program::ProgramError& error) {
    require(!error.reason().empty(), "a refusal without a reason");
    return;
  }
  const std::string printed = program::print(module);
  program::Module again;
  try {
    again = program::parse(printed);
  } catch (const program::ProgramError& error) {
    throw Finding("the printed program is refused: " + std::string(error.what()) + "\n" + printed);
  }
  require(program::print(again) == printed,
          "a second round trip prints a different text:\n" + printed + "\n" + program::print(again));
  require(program::fingerprint(again) == program::fingerprint(module),
          "the fingerprint changed on the round trip");
  const std::string first = verdict_on(module);
  const std::string second = verdict_on(again);
  require(first == second, "verified as: " + first + "; after the round trip: " + second + "\n" + printed);
  if (first != "accepted") {
    return;
  }
  for (const Program& one : module.programs) {
    if (is_small(one)) {
      execute(one);
    }
  }
}

}  // namespace yoke::fuzz
