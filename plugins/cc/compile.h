// SPDX-License-Identifier: Apache-2.0
// plugins/cc/compile.h: a program as a list of steps: matrix products and tile kernels.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "contraction.h"
#include "dnnl_matmul.h"
#include "gemm.h"
#include "tile/kernel.h"

namespace yoke::cc {

struct MatmulStep {
  Contraction contraction;
  std::shared_ptr<const DnnlMatmul> dnnl;  // or
  std::unique_ptr<const Gemm> own;
  std::optional<Operand> bias;
};

struct Step {
  std::vector<std::uint32_t> statements;
  std::variant<MatmulStep, TileKernel> work;
};

// What became of a statement.
struct Note {
  bool native = true;
  std::string reason;
};

struct CompileOptions {
  const DnnlEngine* engine = nullptr;
  const KernelTable* table = nullptr;
  int threads = 1;  // of the stream that launches
};

struct CompiledProgram {
  program::Program program;
  std::vector<Step> steps;
  std::vector<Note> notes;  // per statement
  std::vector<std::uint64_t>
      temp_offset;  // per tensor, into the workspace; kNotInMemory: an argument, or never stored
  std::uint64_t scratch_offset = 0;  // into the workspace; shared by the steps
  std::uint64_t scratch_stride = 0;  // per thread
  std::uint64_t workspace_byte_count = 0;
  int threads = 1;

  static constexpr std::uint64_t kNotInMemory = ~std::uint64_t{0};
};

CompiledProgram compile_program(program::Program program, const CompileOptions& options);

}  // namespace yoke::cc
