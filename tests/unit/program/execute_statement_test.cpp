// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/execute_statement_test.cpp: programs that run statement by statement.
#include <gtest/gtest.h>
#include <yoke/program/access.h>
#include <yoke/program/execute.h>
#include <yoke/program/execute_statement.h>
#include <yoke/program/text.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace yoke::program {
namespace {

// The results of a program whose statements run one by one.
std::vector<std::vector<std::byte>> run_by_statements(const Program& program,
                                                      std::vector<std::vector<std::byte>> tensors,
                                                      std::vector<std::int64_t> symbols) {
  std::vector<void*> pointers;
  for (auto& tensor : tensors) {
    pointers.push_back(tensor.data());
  }
  symbols.resize(program.symbols.size());
  run_in_order(program, symbols,
               [&](std::size_t statement) { execute(program, statement, pointers, symbols); });
  return tensors;
}

TEST(ExecuteStatement, RunsAProgramStatementByStatement) {
  const Program program = parse_and_verify(R"(yoke.program 1
program p(symbol base in 0..3) {
  arg x : f32[8] in
  arg y : f32[6] out
  arg h : f32[5, 6] out
  temp t : f32[6]
  t[i] = x[base + i] * 2
  y[i] = sum[k:6] t[k] + t[i]
  h[0, i] = y[i]
  repeat r in 0..4 {
    h[r + 1, i] = h[r, i] + t[i]
  }
}
)")
                              .programs[0];
  std::vector<std::vector<std::byte>> tensors;
  for (const Tensor& tensor : program.tensors) {
    tensors.emplace_back(tensor.byte_count());
  }
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy(tensors[0].data(), x.data(), tensors[0].size());
  const auto by_statements = run_by_statements(program, tensors, {2});
  auto whole = tensors;
  const std::vector<void*> arguments = {whole[0].data(), whole[1].data(), whole[2].data()};
  execute(program, arguments, std::vector<std::int64_t>{2});
  EXPECT_EQ(by_statements[1], whole[1]);
  EXPECT_EQ(by_statements[2], whole[2]);
  EXPECT_NE(whole[2], tensors[2]);
}

TEST(ExecuteStatement, WrongCallsAreRefused) {
  const Program program =
      parse_and_verify(
          "yoke.program 1\nprogram p(symbol s in 0..2) {\n  arg x : f32[2] in\n  arg y : f32[2] "
          "out\n  y[i] = x[i]\n}\n")
          .programs[0];
  float x[2] = {};
  float y[2] = {};
  const std::vector<void*> both = {x, y};
  const std::vector<void*> one = {x};
  const std::vector<void*> null = {nullptr, y};
  const std::vector<std::int64_t> symbol = {1};
  const std::vector<std::int64_t> beyond = {2};
  EXPECT_NO_THROW(execute(program, 0, both, symbol));
  EXPECT_THROW(execute(program, 1, both, symbol), std::invalid_argument);
  EXPECT_THROW(execute(program, 0, one, symbol), std::invalid_argument);
  EXPECT_THROW(execute(program, 0, null, symbol), std::invalid_argument);
  EXPECT_THROW(execute(program, 0, both, beyond), std::invalid_argument);
  EXPECT_THROW(execute(program, 0, both, {}), std::invalid_argument);
}

}  // namespace
}  // namespace yoke::program
