// SPDX-License-Identifier: Apache-2.0
// frontends/cli/run_program.cpp: buffers, copies and one launch, by the runtime's own classes.
#include "run_program.h"

#include <yoke/program/execute.h>
#include <yoke/runtime/stream.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "text.h"

namespace yoke::cli {
namespace {

using program::Type;

template <class Number>
void store(std::byte* at, Number value) {
  std::memcpy(at, &value, sizeof value);
}

template <class Number>
Number load(const std::byte* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store_random(Type type, std::byte* at, std::uint32_t bits) {
  const double fraction = static_cast<double>(bits) * 0x1p-31 - 1;
  const std::uint32_t small = bits >> 28U;
  switch (type) {
    case Type::kF64:
      return store(at, fraction);
    case Type::kF32:
      return store(at, static_cast<float>(fraction));
    case Type::kF16:
      return store(at, program::f32_to_f16(static_cast<float>(fraction)));
    case Type::kBF16:
      return store(at, program::f32_to_bf16(static_cast<float>(fraction)));
    case Type::kI64:
      return store(at, static_cast<std::int64_t>(small));
    case Type::kI32:
    case Type::kU32:
      return store(at, small);
    case Type::kU8:
      return store(at, static_cast<std::uint8_t>(small));
    case Type::kBool:
      return store(at, static_cast<std::uint8_t>(bits >> 31U));
  }
}

const program::Tensor& argument(const program::Program& program, std::size_t number) {
  return program.tensors[program.arguments()[number]];
}

}  // namespace

ArgumentBytes random_arguments(const program::Program& program, std::int64_t seed) {
  ArgumentBytes arguments;
  for (const std::uint32_t number : program.arguments()) {
    const program::Tensor& tensor = program.tensors[number];
    std::vector<std::byte> bytes(tensor.byte_count());
    const std::uint64_t size = program::byte_size(tensor.type);
    for (std::uint64_t i = 0; i < tensor.element_count(); ++i) {
      store_random(tensor.type, bytes.data() + i * size,
                   program::random_bits(seed, number, static_cast<std::int64_t>(i)));
    }
    arguments.push_back(std::move(bytes));
  }
  return arguments;
}

void run_on_reference(const program::Program& program, ArgumentBytes& arguments,
                      std::span<const std::int64_t> symbol_values) {
  std::vector<void*> pointers;
  for (auto& bytes : arguments) {
    pointers.push_back(bytes.data());
  }
  program::execute(program, pointers, symbol_values);
}

void run_on_device(const std::shared_ptr<Device>& device, const std::string& text,
                   const program::Program& program, ArgumentBytes& arguments,
                   std::span<const std::int64_t> symbol_values) {
  const auto code = compile(device, text);
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
}

double element_value(Type type, std::span<const std::byte> bytes, std::uint64_t element) {
  const std::byte* const at = bytes.data() + element * program::byte_size(type);
  switch (type) {
    case Type::kF64:
      return load<double>(at);
    case Type::kF32:
      return static_cast<double>(load<float>(at));
    case Type::kF16:
      return static_cast<double>(program::f16_to_f32(load<std::uint16_t>(at)));
    case Type::kBF16:
      return static_cast<double>(program::bf16_to_f32(load<std::uint16_t>(at)));
    case Type::kI64:
      return static_cast<double>(load<std::int64_t>(at));
    case Type::kI32:
      return load<std::int32_t>(at);
    case Type::kU32:
      return load<std::uint32_t>(at);
    case Type::kU8:
    case Type::kBool:
      return load<std::uint8_t>(at);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Difference largest_difference(const program::Program& program, const ArgumentBytes& got,
                              const ArgumentBytes& wanted) {
  Difference largest;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const program::Tensor& tensor = argument(program, i);
    for (std::uint64_t element = 0; tensor.role != program::Role::kIn && element < tensor.element_count();
         ++element) {
      const double a = element_value(tensor.type, got[i], element);
      const double b = element_value(tensor.type, wanted[i], element);
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        continue;
      }
      const double difference = std::abs(a - b) / std::max({1.0, std::abs(a), std::abs(b)});
      const double relative = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
      if (relative > largest.relative) {
        largest = {.relative = relative,
                   .place = tensor.name + "[" + std::to_string(element) + "] is " + shortest(a) + ", not " +
                            shortest(b)};
      }
    }
  }
  return largest;
}

}  // namespace yoke::cli
