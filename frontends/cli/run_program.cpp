// SPDX-License-Identifier: Apache-2.0
// frontends/cli/run_program.cpp: buffers, copies and one launch through the runtime's classes.
#include "run_program.h"

#include <yoke/program/execute.h>
#include <yoke/program/text.h>
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text.h"

namespace yoke::cli {
namespace {

using program::Type;

// Converts elements to another type with a program, so that the program format's rules for casts apply.
void cast(Type from_type, const void* from, Type to_type, void* to, std::uint64_t count) {
  const std::string n = "[" + std::to_string(count) + "]";
  const std::string to_name(program::type_name(to_type));
  const program::Module module = program::parse_and_verify(
      "yoke.program 1\nprogram cast() {\n  arg a : " + std::string(program::type_name(from_type)) + n +
      " in\n  arg b : " + to_name + n + " out\n  b[i] = " + to_name + "(a[i])\n}\n");
  void* const pointers[] = {const_cast<void*>(from), to};  // the program only reads `from`
  program::execute(module.programs.front(), pointers, {});
}

const program::Tensor& argument(const program::Program& program, std::size_t number) {
  return program.tensors[program.arguments()[number]];
}

}  // namespace

ArgumentBytes random_arguments(const program::Program& program, std::int64_t seed) {
  ArgumentBytes arguments;
  for (const std::uint32_t number : program.arguments()) {
    const program::Tensor& tensor = program.tensors[number];
    std::vector<double> values(tensor.element_count());
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const std::uint32_t bits = program::random_bits(seed, number, static_cast<std::int64_t>(i));
      values[i] = program::is_float(tensor.type) ? static_cast<double>(bits) * 0x1p-31 - 1
                  : tensor.type == Type::kBool   ? static_cast<double>(bits >> 31U)
                                                 : static_cast<double>(bits >> 28U);
    }
    arguments.emplace_back(tensor.byte_count());
    cast(Type::kF64, values.data(), tensor.type, arguments.back().data(), values.size());
  }
  return arguments;
}

std::vector<double> element_values(const program::Tensor& tensor, std::span<const std::byte> bytes) {
  std::vector<double> values(tensor.element_count());
  cast(tensor.type, bytes.data(), Type::kF64, values.data(), values.size());
  return values;
}

void run_on_reference(const program::Program& program, ArgumentBytes& arguments,
                      std::span<const std::int64_t> symbol_values) {
  std::vector<void*> pointers;
  for (auto& bytes : arguments) {
    pointers.push_back(bytes.data());
  }
  program::execute(program, pointers, symbol_values);
}

std::shared_ptr<const Code> run_on_device(const std::shared_ptr<Device>& device, const std::string& text,
                                          const program::Program& program, ArgumentBytes& arguments,
                                          std::span<const std::int64_t> symbol_values) {
  auto code = compile(device, text);
  const auto stream = Stream::create(device, device->name() + "/try");
  std::vector<BufferView> views;
  for (const auto& bytes : arguments) {
    views.push_back(
        {.buffer = std::make_shared<Buffer>(device, bytes.size()), .offset = 0, .byte_count = bytes.size()});
    stream->from_host(views.back(), bytes.data());
  }
  const auto routine = Routine::link(code, code->entry_number(program.name), views);
  stream->launch(*routine, symbol_values);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (argument(program, i).role != program::Role::kIn) {
      stream->to_host(arguments[i].data(), views[i]);
    }
  }
  stream->wait();
  return code;
}

Difference largest_difference(const program::Program& program, const ArgumentBytes& got,
                              const ArgumentBytes& expected) {
  Difference largest;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const program::Tensor& tensor = argument(program, i);
    if (tensor.role == program::Role::kIn) {
      continue;
    }
    const std::vector<double> got_values = element_values(tensor, got[i]);
    const std::vector<double> expected_values = element_values(tensor, expected[i]);
    for (std::uint64_t element = 0; element < got_values.size(); ++element) {
      const double a = got_values[element];
      const double b = expected_values[element];
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        continue;
      }
      const double difference = std::abs(a - b) / std::max({1.0, std::abs(a), std::abs(b)});
      const double relative = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
      if (relative > largest.relative) {
        largest = {.relative = relative,
                   .place = tensor.name + "[" + std::to_string(element) + "] is " + shortest(a) +
                            ", expected " + shortest(b)};
      }
    }
  }
  return largest;
}

}  // namespace yoke::cli
