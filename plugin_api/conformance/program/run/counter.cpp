// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/counter.cpp: computes with
// small integers, which every type holds exactly.
#include "counter.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "launch.h"
#include "random_programs.h"
#include "scalar.h"

namespace yoke::conformance {

using program::Type;

namespace {

Type first_type(std::uint64_t mask) {
  for (const Type type :
       {Type::kF32, Type::kI32, Type::kF64, Type::kI64, Type::kU32, Type::kBF16, Type::kF16}) {
    if ((mask >> static_cast<unsigned>(type) & 1U) != 0) {
      return type;
    }
  }
  unsupported("the device supports none of the types f32, i32, f64, i64, u32, bf16, f16");
}

}  // namespace

Counter::Counter(Device& device) : device_(device) {
  device.plugin().table<yoke_program_api>();
  type_ = first_type(generator_options(device).type_mask);
  const std::string type(program::type_name(type_));
  const auto form = [&](const char* reach, const char* index) {
    return "yoke.program 1\nprogram counter(symbol by in 1..10 step 3) {\n  arg x : " + type + "[" + reach +
           "] in\n  arg state : " + type + "[64] inout\n  arg y : " + type +
           "[64] out\n  state[i] = state[i] + x[" + index + "]\n  y[i] = state[i] + 1\n}\n";
  };
  const std::string shifted = form("80", "by + i");
  const std::string in_place = form("64", "i");
  const std::string_view forms[] = {shifted, in_place};
  const std::size_t chosen = first_supported(device, forms, 2);
  shifts_ = chosen == 0;
  code_ = compile(device, forms[chosen]);
}

CounterRun::CounterRun(const Counter& counter, int start, Layout layout, Device* home) : counter_(counter) {
  Device& where = home == nullptr ? counter.device() : *home;
  const std::uint64_t element = counter.element_byte_count();
  const std::uint64_t sizes[] = {counter.reach() * element, Counter::kCount * element,
                                 Counter::kCount * element};
  std::uint64_t unit = element;
  for (std::uint32_t i = 0; i < std::size(sizes); ++i) {
    unit = std::max<std::uint64_t>(unit, describe_argument(counter.device(), counter.code(), 0, i).alignment);
  }
  if (layout == Layout::kAdjacent) {
    // With an unused place before the first argument, and one after the last.
    buffers_.emplace_back(where, (counter.reach() + 2 * Counter::kCount) * element + 5 * unit);
  }
  std::uint64_t end = unit;
  for (const std::uint64_t size : sizes) {
    if (layout == Layout::kSeparate) {
      buffers_.emplace_back(where, size);
      places_.emplace_back(buffers_.size() - 1, 0);
    } else {
      places_.emplace_back(0, end);
      end += (size + unit - 1) / unit * unit;
    }
  }
  std::vector<yoke_binding> bindings;
  for (const auto& [buffer, offset] : places_) {
    bindings.push_back(binding(buffers_[buffer], offset));
  }
  workspace_ = workspace_for(counter.device(), counter.code());
  routine_ = link(counter.device().plugin(), counter.code(), 0, bindings, binding(workspace_));
  for (std::uint64_t i = 0; i < counter.reach(); ++i) {
    x_.push_back(static_cast<std::int64_t>(i) % 2);
  }
  state_.assign(Counter::kCount, start);
  y_.assign(Counter::kCount, 7);
  write(0, x_);
  write(1, state_);
  write(2, y_);
}

void CounterRun::write(std::size_t argument, const std::vector<std::int64_t>& values) const {
  Bytes bytes(values.size() * counter_.element_byte_count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    program::store(counter_.type(), bytes.data(), static_cast<std::int64_t>(i),
                   program::convert(Type::kI64, counter_.type(), {0, values[i]}));
  }
  buffers_[places_[argument].first].write(places_[argument].second, bytes);
}

void CounterRun::launch(std::int64_t by, Stream* stream) {
  expect_ok(counter_.device().plugin().routine_launch(stream == nullptr ? nullptr : stream->get(),
                                                      routine_.get(), {&by, 1}),
            text("launching with by = ", by));
  for (std::size_t i = 0; i < state_.size(); ++i) {
    state_[i] += x_[i + counter_.first_read(by)];
    // The values stay below 256, up to which 16-bit types are exact.
    y_[i] = state_[i] + 1;
  }
}

void CounterRun::check_argument(std::size_t argument, const char* name,
                                const std::vector<std::int64_t>& values) const {
  Bytes bytes(values.size() * counter_.element_byte_count());
  buffers_[places_[argument].first].read(places_[argument].second, bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double got = element_number(counter_.type(), bytes.data(), i);
    check(got == static_cast<double>(values[i]), name, "[", i, "] is ", got, ", expected ", values[i]);
  }
}

void CounterRun::check_values() const {
  check_argument(0, "x", x_);
  check_argument(1, "state", state_);
  check_argument(2, "y", y_);
}

}  // namespace yoke::conformance
