// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_value.cpp: sums of products of the quantities of attention.
#include "attention_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace yoke::codegen::attention {
namespace {

constexpr std::int8_t kTooLarge = 127;
constexpr double kRounding = 1e-6;  // of f32

// The sum of two powers. A power that was too large stays so.
std::int8_t joined(std::int8_t a, std::int8_t b) {
  constexpr int kLargest = 50;
  const int sum = a + b;
  return std::abs(sum) <= kLargest ? static_cast<std::int8_t>(sum) : kTooLarge;
}

}  // namespace

Formula Formula::number(double value) {
  Formula result;
  if (value != 0) {
    result.terms_[Powers{}] = value;
  }
  return result;
}

Formula Formula::atom(Atom atom, std::int8_t power) {
  Powers powers = {};
  powers[static_cast<std::size_t>(atom)] = power;
  Formula result;
  result.terms_[powers] = 1;
  return result;
}

Formula Formula::operator+(const Formula& other) const {
  Formula result = *this;
  for (const auto& [powers, coefficient] : other.terms_) {
    double& sum = result.terms_[powers];
    sum += coefficient;
    if (sum == 0) {
      result.terms_.erase(powers);
    }
  }
  return result;
}

Formula Formula::operator*(const Formula& other) const {
  Formula result;
  for (const auto& [powers, coefficient] : terms_) {
    for (const auto& [other_powers, other_coefficient] : other.terms_) {
      Formula term;
      Powers sum = powers;
      for (std::size_t i = 0; i < kAtoms; ++i) {
        sum[i] = joined(sum[i], other_powers[i]);
      }
      term.terms_[sum] = coefficient * other_coefficient;
      result = result + term;
    }
  }
  return result;
}

std::optional<Formula> Formula::reciprocal() const {
  if (terms_.size() != 1) {
    return std::nullopt;
  }
  Powers powers = terms_.begin()->first;
  for (std::int8_t& power : powers) {
    power = static_cast<std::int8_t>(-power);
  }
  Formula result;
  result.terms_[powers] = 1 / terms_.begin()->second;
  return result;
}

bool Formula::is_short() const {
  constexpr std::size_t kMostTerms = 16;
  return terms_.size() <= kMostTerms;
}

bool Formula::uses(Atom atom) const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [&](const auto& term) { return term.first[static_cast<std::size_t>(atom)] != 0; });
}

double Formula::coefficient(const Formula& term) const {
  const auto found = terms_.find(term.terms_.begin()->first);
  return found != terms_.end() ? found->second : 0;
}

std::optional<double> Formula::as_number() const {
  if (terms_.empty()) {
    return 0;
  }
  return terms_.size() == 1 && terms_.begin()->first == Powers{} ? std::optional(terms_.begin()->second)
                                                                 : std::nullopt;
}

std::optional<Formula> Formula::sum_over_keys() const {
  Formula result;
  for (const auto& [powers, coefficient] : terms_) {
    const auto power = [&, of = powers](Atom atom) { return of[static_cast<std::size_t>(atom)]; };
    const std::int8_t gradients = power(Atom::kGradient);
    if (power(Atom::kScore) != 0 || power(Atom::kExp) != 1 || gradients < 0 || gradients > 1) {
      return std::nullopt;
    }
    Formula per_query;
    Powers rest = powers;
    rest[static_cast<std::size_t>(Atom::kExp)] = rest[static_cast<std::size_t>(Atom::kGradient)] = 0;
    per_query.terms_[rest] = coefficient;
    const Formula sum = gradients == 1 ? Formula::atom(Atom::kRows) : Formula::number(1);
    result = result + per_query * sum * Formula::atom(Atom::kTotal);
  }
  return result;
}

bool is_close(const Formula& one, const Formula& other) {
  return std::equal(one.terms_.begin(), one.terms_.end(), other.terms_.begin(), other.terms_.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first &&
                             std::abs(a.second - b.second) <= kRounding * std::abs(b.second);
                    });
}

Value Value::with(const Formula& new_seen, const Formula& new_hidden) const {
  return is_masked ? Value(new_seen, new_hidden) : Value(new_seen);
}

}  // namespace yoke::codegen::attention
