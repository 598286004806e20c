// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_value.h: what the statements of attention compute, as formulas.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace yoke::codegen::attention {

// The quantities in the formulas. The last three have one value per query, the others one per query and key.
enum class Atom : std::uint8_t {
  kScore,     // product of query and key
  kExp,       // exp(scale * score - top); 0 where the mask hides the key
  kGradient,  // of the weights: product of the result's gradient and the value
  kTop,       // largest scale * score of the query
  kTotal,     // sum of kExp over the keys
  kRows,      // sum of kGradient * kExp / kTotal over the keys
};
inline constexpr std::size_t kAtoms = 6;
using Powers = std::array<std::int8_t, kAtoms>;

// A sum of products of atoms: coefficients by powers. No coefficient is 0.
class Formula {
 public:
  static Formula number(double value);
  static Formula atom(Atom atom, std::int8_t power = 1);

  Formula operator+(const Formula& other) const;
  Formula operator*(const Formula& other) const;
  std::optional<Formula> reciprocal() const;  // of a single term
  bool is_short() const;                      // attention has no longer ones
  bool uses(Atom atom) const;
  double coefficient(const Formula& term) const;  // of a term that is a product of atoms
  std::optional<double> as_number() const;
  // Sums over the keys. Empty if the result is not one of the atoms.
  std::optional<Formula> sum_over_keys() const;
  // Whether all coefficients are equal, except for rounding.
  friend bool is_close(const Formula& one, const Formula& other);

 private:
  std::map<Powers, double> terms_;
};

// A formula for the keys that the mask shows and one for those that it hides.
struct Value {
  Formula seen;
  Formula hidden;  // equals `seen` unless is_masked
  bool is_masked = false;

  explicit Value(const Formula& both) : seen(both), hidden(both) {}
  Value(Formula for_seen, Formula for_hidden)
      : seen(std::move(for_seen)), hidden(std::move(for_hidden)), is_masked(true) {}
  // Whether it is 0 for hidden keys.
  bool hides() const { return hidden.as_number() == 0.0; }
  Value with(const Formula& new_seen, const Formula& new_hidden) const;
};

}  // namespace yoke::codegen::attention
