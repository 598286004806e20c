// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/lower.h: translates expressions into a program in yoke's program format.
#pragma once

#include <yoke/optimizer.h>
#include <yoke/program/program.h>
#include <yoke/tensor.h>

#include <span>
#include <string>
#include <vector>

namespace yoke {

struct Output {
  std::string name;  // becomes the name of the program's argument
  Tensor value;
};

struct LoweredArgument {
  enum class Kind : std::uint8_t { kPlaceholder, kLiteral, kParameter, kScalar, kOutput };
  std::string name;  // in the program
  program::Role role = program::Role::kIn;
  Kind kind = Kind::kPlaceholder;
  Tensor leaf;  // empty for outputs
};

struct Lowered {
  program::Program program;
  // In the order of the program's declarations: leaves in order of creation, then outputs.
  std::vector<LoweredArgument> arguments;
  // The index of a leaf in `arguments`. Error kNotFound: the program does not use the leaf.
  std::size_t find(const Tensor& leaf) const;
};

// Returns a valid program that computes `outputs` and stores the new values of `updates` in their leaves,
// which become inout arguments. Names that are not valid identifiers are changed (see program_identifier);
// duplicate names get a number as a suffix. Error kInvalidArgument: an empty Tensor, two outputs of one name,
// an update of a tensor that is not a placeholder or parameter, two updates of one leaf, an update whose
// shape or type differs from its leaf, or a symbol with two ranges.
Lowered lower(const std::string& program_name, std::span<const Output> outputs,
              std::span<const Update> updates = {});
Lowered lower(const std::string& program_name, const std::vector<Output>& outputs,
              const std::vector<Update>& updates = {});

// The identifier that lower() derives from a name. Valid names
// are unchanged; "0.weight" becomes "p_0_weight".
std::string program_identifier(const std::string& name);

}  // namespace yoke
