// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/compare.cpp: compares results with the
// values that a correct backend may produce.
#include <charconv>
#include <cmath>

#include "error_units.h"
#include "evaluate.h"

namespace yoke::conformance {

using program::Program;
using program::Scalar;
using program::Tensor;
using program::Type;

namespace {

std::string number_text(double value) {
  char text[64];
  const auto written = std::to_chars(text, text + sizeof text, value);
  return {text, written.ptr};
}

std::string allowed_text(Type type, const Bound& bound) {
  if (bound.unknown) {
    return "anything";
  }
  if (!program::is_float(type)) {
    return "only this value";
  }
  if (bound.low > bound.high) {
    return "nan";
  }
  std::string text =
      bound.low == bound.high ? "only this value" : number_text(bound.low) + " .. " + number_text(bound.high);
  return bound.nan ? text + ", or nan" : text;
}

std::string indices_text(const Tensor& tensor, std::uint64_t element) {
  std::string text = "]";
  for (std::size_t i = tensor.dims.size(); i-- > 0;) {
    text.insert(0, (i == 0 ? "" : ", ") + std::to_string(element % tensor.dims[i]));
    element /= tensor.dims[i];
  }
  return "[" + text;
}

}  // namespace

bool allows(Type type, const Bound& bound, const Scalar& value) {
  if (!program::is_float(type)) {
    return bound.unknown || bound.integer == value.integer;
  }
  if (std::isnan(value.number)) {
    return bound.nan;
  }
  if (bound.zero_is_signed && bound.low == 0 && bound.high == 0 &&
      std::signbit(bound.low) != std::signbit(value.number)) {
    return false;
  }
  return bound.low <= value.number && value.number <= bound.high;
}

bool find_mismatch(const Program& program, std::uint32_t number, const Bounds& bounds,
                   std::span<const std::byte> expected, std::span<const std::byte> got, Mismatch& mismatch) {
  const Tensor& tensor = program.tensors[number];
  bool found = false;
  for (std::uint64_t i = 0; i < bounds.size(); ++i) {
    const Scalar value = program::load(tensor.type, got.data(), static_cast<std::int64_t>(i));
    if (allows(tensor.type, bounds[i], value)) [[likely]] {
      continue;
    }
    if (!found) {
      found = true;
      mismatch = {};
      mismatch.tensor = number;
      mismatch.element = i;
      mismatch.indices = indices_text(tensor, i);
      mismatch.expected = element_text(tensor.type, expected, i);
      mismatch.got = element_text(tensor.type, got, i);
      mismatch.allowed = allowed_text(tensor.type, bounds[i]);
      const double reference = element_number(tensor.type, expected.data(), i);
      const double distance = std::fabs(element_number(tensor.type, got.data(), i) - reference);
      mismatch.units = program::is_float(tensor.type) ? distance / unit_at(tensor.type, reference) : distance;
    }
    ++mismatch.wrong_elements;
  }
  return found;
}

std::string describe(const Program& program, const Mismatch& mismatch) {
  const Tensor& tensor = program.tensors[mismatch.tensor];
  const std::string units =
      std::isfinite(mismatch.units)
          ? ", " + number_text(static_cast<double>(static_cast<float>(mismatch.units))) +
                (program::is_float(tensor.type) ? " units in the last place apart" : " apart")
          : "";
  return tensor.name + mismatch.indices + " : " + std::string(program::type_name(tensor.type)) + " is " +
         mismatch.got + ", the reference executor has " + mismatch.expected + units +
         "; allowed: " + mismatch.allowed + "; " + std::to_string(mismatch.wrong_elements) + " of " +
         std::to_string(tensor.element_count()) + " elements are wrong";
}

AllowedResults::AllowedResults(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round)
    : AllowedResults(one, symbols, round, initial_arguments(one, round)) {}

AllowedResults::AllowedResults(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round,
                               const Contents& start)
    : case_(one), symbols_(symbols.begin(), symbols.end()), round_(round) {
  const std::vector<std::span<const std::byte>> spans(start.begin(), start.end());
  bounds_ = evaluate_bounds(one.program, spans, symbols);
}

std::string AllowedResults::compare(const Contents& got) const {
  const program::Program& program = case_.program;
  const std::vector<std::uint32_t> arguments = program.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::uint32_t number = arguments[i];
    Mismatch mismatch;
    if (find_mismatch(program, number, bounds_[number], got[i], got[i], mismatch)) {
      // The reference executor is slow, so it runs only now.
      const Contents expected = reference_results(case_, symbols_, round_);
      find_mismatch(program, number, bounds_[number], expected[i], got[i], mismatch);
      return describe(program, mismatch);
    }
  }
  return {};
}

std::string compare_results(const Case& one, std::span<const std::int64_t> symbols, const Contents& got,
                            std::uint64_t round) {
  return AllowedResults(one, symbols, round).compare(got);
}

std::string compare_results(const Case& one, std::span<const std::int64_t> symbols, const Contents& got,
                            std::uint64_t round, const Contents& start) {
  return AllowedResults(one, symbols, round, start).compare(got);
}

}  // namespace yoke::conformance
