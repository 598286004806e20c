// SPDX-License-Identifier: Apache-2.0
// tests/parity/functions_test.cpp: functions and layers on random shapes, compared with PyTorch in f64 and in f32:
// values and gradients. functions.py computes PyTorch's side. YOKE_TEST_SEED changes the shapes.
#include <gtest/gtest.h>
#include <yoke/npz.h>
#include <yoke/yoke.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../unit/data/test_files.h"
#include "../unit/tensor/evaluate.h"
#include "calls.h"
#include "test_paths.h"

namespace yoke::parity {
namespace {

NamedArray array_of(std::string name, const Tensor& x) {
  return {std::move(name), x.type(), x.dims(), testing::value_bytes(x)};
}

// The inputs, values and gradients of a call, in f64 in even rounds and in f32 in odd ones.
void write_call(const Named& function, std::uint64_t round, std::uint64_t seed,
                const test::TemporaryFolder& folder) {
  Random random(seed * 1000 + round, round % 2 == 0 ? Type::kF64 : Type::kF32);
  const Call call = function.make(random);
  const Tensor dy = random.floats(call.output.dims());
  std::vector<NamedArray> arrays{array_of("y", call.output), array_of("dy", dy)};
  const std::vector<Tensor> wanted(call.inputs.begin(),
                                   call.inputs.begin() + static_cast<std::ptrdiff_t>(call.differentiable));
  const std::vector<Tensor> found = gradients(sum(call.output * dy), wanted);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    arrays.push_back(array_of("x" + std::to_string(i), call.inputs[i]));
    if (i < found.size()) {
      arrays.push_back(array_of("g" + std::to_string(i), found[i]));
    }
  }
  const std::string stem = std::string(function.name) + "-" + std::to_string(round);
  save_npz(folder / (stem + ".npz"), arrays);
  std::ofstream(folder / (stem + ".json")) << Json{{"function", function.name}, {"options", call.options}};
}

TEST(Functions, AgreeWithPyTorchOnRandomShapes) {
  const char* given = std::getenv("YOKE_PEER_PYTHON");
  const std::string python = given != nullptr ? given : "python3";
  if (std::system((python + " -c 'import torch, numpy' >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << python << " does not have torch and numpy; set YOKE_PEER_PYTHON";
  }
  const char* const seed_text = std::getenv("YOKE_TEST_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
  std::cout << "seed " << seed << '\n';
  const test::TemporaryFolder folder;
  for (const std::span<const Named> all : {functions(), layers()}) {
    for (const Named& function : all) {
      for (std::uint64_t round = 0; round < 24; ++round) {
        write_call(function, round, seed, folder);
      }
    }
  }
  EXPECT_EQ(std::system((python + " " + test::source_folder() + "/tests/parity/functions.py " +
                         folder.path().string())
                            .c_str()),
            0);
}

}  // namespace
}  // namespace yoke::parity
