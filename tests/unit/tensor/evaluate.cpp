// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/evaluate.cpp: runs lowered programs on the reference executor.
#include "evaluate.h"

#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

namespace yoke::testing {

Bytes& Leaves::of(const Tensor& leaf) {
  for (auto& [known, bytes] : held_) {
    if (known.is(leaf)) {
      return bytes;
    }
  }
  const auto own = leaf.host_bytes();
  if (own.size() != leaf.byte_count()) {
    ADD_FAILURE() << "leaf '" << leaf.name() << "' has no data";
  }
  held_.emplace_back(leaf, Bytes(own.begin(), own.end()));
  held_.back().second.resize(leaf.byte_count());
  return held_.back().second;
}

std::map<std::string, Bytes> run(const Lowered& lowered, Leaves& leaves, const SymbolValues& symbols) {
  program::verify(lowered.program);
  const auto round_trip = program::parse(program::print(lowered.program));
  EXPECT_EQ(program::print(round_trip), program::print(lowered.program));
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.leaf) {
      leaves.of(argument.leaf);
    }
  }
  std::map<std::string, Bytes> results;
  std::vector<void*> pointers;
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.leaf) {
      pointers.push_back(leaves.of(argument.leaf).data());
      continue;
    }
    const auto& tensor = lowered.program.tensors[*lowered.program.find_tensor(argument.name)];
    Bytes& bytes = results[argument.name];
    bytes.assign(tensor.byte_count(), std::byte{0xAB});
    pointers.push_back(bytes.data());
  }
  std::vector<std::int64_t> symbol_values;
  for (std::size_t i = 0; i < lowered.program.launch_symbol_count(); ++i) {
    const program::Symbol& symbol = lowered.program.symbols[i];
    const auto found = symbols.find(symbol.name);
    symbol_values.push_back(found == symbols.end() ? symbol.low : found->second);
  }
  program::execute(lowered.program, pointers, symbol_values);
  return results;
}

Bytes value_bytes(const Tensor& x, Leaves leaves, const SymbolValues& symbols) {
  return run(lower("value", {{"y", x}}), leaves, symbols).at("y");
}

std::string text_of(const Lowered& lowered) {
  return program::print(lowered.program);
}
std::string text_of(const Tensor& x) {
  return text_of(lower("value", {{"y", x}}));
}

}  // namespace yoke::testing
