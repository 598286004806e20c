// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/lower.h: expressions to a program in yoke's program format.
#pragma once

#include <yoke/optimizer.h>
#include <yoke/program/program.h>
#include <yoke/tensor.h>

#include <span>
#include <string>
#include <vector>

namespace yoke {

struct Output {
  std::string name;  // becomes the argument's name
  Tensor value;
};

struct LoweredArgument {
  enum class Kind : std::uint8_t { kPlaceholder, kLiteral, kParameter, kOutput };
  std::string name;  // in the program
  program::Role role = program::Role::kIn;
  Kind kind = Kind::kPlaceholder;
  Tensor leaf;  // empty for outputs
};

struct Lowered {
  program::Program program;
  std::vector<LoweredArgument>
      arguments;  // in the order of the program's declaration: leaves by creation, then outputs
  // Place in `arguments` of a leaf; Error kNotFound when the program does not use it.
  std::size_t find(const Tensor& leaf) const;
};

// The program that computes `outputs` and then has the leaves of `updates` hold their new values (role
// inout). Names that the format does not allow are spelt with `_`: parameter "0.weight" is argument
// "p_0_weight"; equal names get a number. Every result verifies.
Lowered lower(const std::string& program_name, std::span<const Output> outputs,
              std::span<const Update> updates = {});
Lowered lower(const std::string& program_name, const std::vector<Output>& outputs,
              const std::vector<Update>& updates = {});

// The identifier that lower() starts from: a name is kept where it is allowed, "0.weight" gives "p_0_weight".
std::string program_identifier(const std::string& name);

}  // namespace yoke
