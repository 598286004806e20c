// SPDX-License-Identifier: Apache-2.0
// frontends/cli/run_program.h: runs a program on random input, on a device or on the reference executor, and
// compares; explains how it is optimized.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace yoke::cli {

// The bytes of each argument, in order of declaration.
using ArgumentBytes = std::vector<std::vector<std::byte>>;

// Floats in [-1, 1), integers in 0..15, bools. Outputs are filled, too, so
// that missing writes show up as differences.
ArgumentBytes random_arguments(const program::Program& program, std::int64_t seed);

void run_on_reference(const program::Program& program, ArgumentBytes& arguments,
                      std::span<const std::int64_t> symbol_values);

// Compiles `text` for the device and runs its entry `program.name`. Returns the code, which tells where it ran.
std::shared_ptr<const Code> run_on_device(const std::shared_ptr<Device>& device, const std::string& text,
                                          const program::Program& program, ArgumentBytes& arguments,
                                          std::span<const std::int64_t> symbol_values);

std::vector<double> element_values(const program::Tensor& tensor, std::span<const std::byte> bytes);

// The output element where two runs differ most, relative to the larger of 1 and the value. A NaN compared
// with a number counts as an infinite difference.
struct Difference {
  double relative = 0;
  std::string place;  // "y[3] is 0.5, expected 0.25"; empty if there is no difference
};
Difference largest_difference(const program::Program& program, const ArgumentBytes& got,
                              const ArgumentBytes& expected);

// Prints what the passes do with each statement of the program, and the result.
void explain_program(const program::Program& program);

}  // namespace yoke::cli
