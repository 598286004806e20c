// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/steps.h: an expression of a statement as a list of steps, in which everything
// that is the same for each element has been decided.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bound.h"

namespace yoke::conformance {

using Bounds = std::vector<Bound>;  // one per element

// What a statement is evaluated on. All of it must outlive the objects made of it.
struct Surroundings {
  const program::Program& program;
  const program::Statement& statement;
  std::span<const std::int64_t> symbols;
  std::span<const Bounds> memory;  // one per tensor
};

// An affine index whose symbols have been replaced by their values.
struct Position {
  struct Step {
    std::uint32_t loop = 0;
    std::int64_t stride = 1;
  };
  std::int64_t start = 0;
  std::vector<Step> steps;

  std::int64_t at(std::span<const std::int64_t> counters) const {
    std::int64_t value = start;
    for (const Step& step : steps) {
      value += step.stride * counters[step.loop];
    }
    return value;
  }
};

// The element of an access.
class Place {
 public:
  static constexpr std::int64_t kOutside = -1;
  static constexpr std::int64_t kUnknown = -2;  // an index differs between correct backends

  Place() = default;
  Place(const Surroundings& around, const program::Access& access);

  // Its number in row-major order, or kOutside or kUnknown.
  std::int64_t element(std::span<const std::int64_t> counters) const {
    return is_inside_ ? whole_.at(counters) : checked(counters);
  }
  const Bound* bounds() const { return bounds_; }  // of the tensor

 private:
  struct Dim {
    std::int64_t size = 1;
    std::int64_t divisor = 1;
    const Bound* element_of = nullptr;  // the tensor that holds the index
    Position position;                  // of the index, or of its element there
  };
  std::int64_t checked(std::span<const std::int64_t> counters) const;

  const Bound* bounds_ = nullptr;
  bool is_inside_ = false;  // each index is affine and never out of range
  Position whole_;          // if it is inside
  std::vector<Dim> dims_;
};

class Steps {
 public:
  Steps(const Surroundings& around, const program::Expr& expr);
  // The possible values of the expression. The result stays valid until the next call.
  const Bound& value(std::span<const std::int64_t> counters);

 private:
  // Whether a read that only the guard around it covers is out of range.
  struct Outside {
    bool certain = false;
    bool possible = false;
  };
  struct Step {
    program::Op op = program::Op::kConst;
    program::Type type = program::Type::kF32;  // of the result
    program::Type over = program::Type::kF32;  // of the arguments
    std::array<std::size_t, 3> args = {};      // earlier steps
    std::size_t guard = 0;                     // a guard, or the one around a read
    bool is_open = false;                      // a read without an `else`
    Bound otherwise;                           // the value of a read or guard out of range
    Place place;
    Position position;
  };
  std::size_t add(const Surroundings& around, const program::Expr& expr, std::size_t guard);
  void read(std::size_t number, std::span<const std::int64_t> counters);

  std::vector<Step> steps_;       // arguments first; the last one is the expression
  std::vector<Bound> computed_;   // one per step
  std::vector<const Bound*> at_;  // where the value of each step is
  std::vector<Outside> outside_;  // one per guard; the first is for reads without a guard
};

}  // namespace yoke::conformance
