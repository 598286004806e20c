// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/counter.cpp: small integers, so that every type holds them exactly.
#include "counter.h"

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
  unsupported("the device computes with none of f32, i32, f64, i64, u32, bf16, f16");
}

}  // namespace

Counter::Counter(Device& device) : device_(device) {
  device.plugin().table<yoke_program_api>();
  type_ = first_type(generator_options(device).type_mask);
  const std::string type(program::type_name(type_));
  const std::string bytes =
      "yoke.program 1\nprogram counter(symbol by in 1..10 step 3) {\n  arg x : " + type +
      "[80] in\n  arg state : " + type + "[64] inout\n  arg y : " + type +
      "[64] out\n  state[i] = state[i] + x[by + i]\n  y[i] = state[i] + 1\n}\n";
  const yoke_program_text program = crossing(bytes);
  std::vector<yoke_verdict> verdicts(2, sized<yoke_verdict>());
  std::uint32_t count = 0;
  expect_ok(device.plugin().call<&yoke_program_api::can_compile>(device.get(), &program, 2U, verdicts.data(),
                                                                 &count),
            "asking can_compile about a valid text");
  for (const yoke_verdict& verdict : verdicts) {
    if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
      unsupported(verdict.reason);
    }
  }
  code_ = compile(device, bytes);
  info_ = describe_entry(device, code_, 0);
}

CounterRun::CounterRun(const Counter& counter, int start, Layout layout, Device* home) : counter_(counter) {
  Device& where = home == nullptr ? counter.device() : *home;
  const std::uint64_t element = counter.element_byte_count();
  const std::uint64_t sizes[] = {Counter::kReach * element, Counter::kCount * element,
                                 Counter::kCount * element};
  if (layout == Layout::kTouching) {
    // One element of room before the first and behind the last.
    buffers_.emplace_back(where, (Counter::kReach + 2 * Counter::kCount + 2) * element);
  }
  std::uint64_t end = element;
  for (const std::uint64_t size : sizes) {
    if (layout == Layout::kApart) {
      buffers_.emplace_back(where, size);
      places_.emplace_back(buffers_.size() - 1, 0);
    } else {
      places_.emplace_back(0, end);
      end += size;
    }
  }
  std::vector<yoke_binding> bindings;
  for (const auto& [buffer, offset] : places_) {
    bindings.push_back({buffers_[buffer].get(), offset});
  }
  if (counter.info().workspace_byte_count != 0) {
    workspace_ = Buffer(counter.device(), counter.info().workspace_byte_count);
  }
  yoke_routine* raw = nullptr;
  expect_ok(counter.device().plugin().call<&yoke_program_api::routine_link>(
                counter.code().get(), 0U, bindings.data(), static_cast<std::uint32_t>(bindings.size()),
                workspace_.get(), std::uint64_t{0}, &raw),
            "linking a routine");
  check(raw != nullptr, "routine_link answered OK without a routine");
  routine_ = {counter.device().plugin(), raw};
  for (std::uint64_t i = 0; i < Counter::kReach; ++i) {
    x_.push_back(static_cast<std::int64_t>(i) % 2);
  }
  state_.assign(Counter::kCount, start);
  y_.assign(Counter::kCount, 7);
  write(0, x_);
  write(1, state_);
  write(2, y_);
}

void CounterRun::write(std::size_t argument, const std::vector<std::int64_t>& values) const {
  std::vector<std::byte> bytes(values.size() * counter_.element_byte_count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    program::store(counter_.type(), bytes.data(), static_cast<std::int64_t>(i),
                   program::convert(Type::kI64, counter_.type(), {0, values[i]}));
  }
  buffers_[places_[argument].first].write(places_[argument].second, bytes);
}

void CounterRun::launch(std::int64_t by, Stream* stream) {
  expect_ok(counter_.device().plugin().call<&yoke_program_api::routine_launch>(
                stream == nullptr ? nullptr : stream->get(), routine_.get(), &by, 1U),
            text("launching with by = ", by));
  for (std::size_t i = 0; i < state_.size(); ++i) {
    state_[i] += x_[i + static_cast<std::size_t>(by)];
    // 16-bit types count exactly up to 256.
    y_[i] = state_[i] + 1;
  }
}

void CounterRun::check_argument(std::size_t argument, const char* name,
                                const std::vector<std::int64_t>& values) const {
  std::vector<std::byte> bytes(values.size() * counter_.element_byte_count());
  buffers_[places_[argument].first].read(places_[argument].second, bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double got = element_number(counter_.type(), bytes.data(), i);
    check(got == static_cast<double>(values[i]), name, "[", i, "] is ", got, ", due is ", values[i]);
  }
}

void CounterRun::check_values() const {
  check_argument(0, "x", x_);
  check_argument(1, "state", state_);
  check_argument(2, "y", y_);
}

}  // namespace yoke::conformance
