// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/formula.h: the values of statements, for 16 neighboring iterations at a time.
#pragma once

#include <yoke/program/program.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bugs.h"
#include "stream.h"

namespace yoke::handmade {

namespace program = yoke::program;

// Two more builds of the kernels, whose results differ from these in ways that the format allows: see README.md.
#ifdef YOKE_HANDMADE_FUSES
constexpr bool kFuses = true;  // x * y + z is rounded once
#else
constexpr bool kFuses = false;
#endif
#ifdef YOKE_HANDMADE_WIDE_SUMS
constexpr bool kSumsAreWide = true;  // sums and products of f32 are accumulated in f64
#else
constexpr bool kSumsAreWide = false;
#endif

// What a kernel gets at each launch.
struct Launch {
  std::span<std::byte* const> tensors;
  std::span<const std::int64_t> symbols;
  std::byte* scratch = nullptr;
  Pool* pool = nullptr;
  bool is_first = true;  // the first launch of the routine
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Launch& launch) const = 0;
  virtual std::uint64_t scratch_byte_count() const { return 0; }
  virtual bool is_native() const { return true; }

 protected:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
};

// The elements that an access visits: constant + strides * loop counters + coefficients * symbols.
struct Walk {
  std::uint32_t tensor = 0;
  std::int64_t constant = 0;
  std::int64_t element_size = 1;
  std::vector<std::int64_t> strides;  // one per loop of the statement
  std::vector<std::pair<std::uint32_t, std::int64_t>> symbols{};

  template <class T>
  T* base(const Launch& launch) const {
    std::int64_t offset = constant;
    for (const auto& [symbol, coefficient] : symbols) {
      const std::int64_t bytes = launch.symbols[symbol] * coefficient * element_size;
      offset += (bug("offset32") ? static_cast<std::int32_t>(bytes) : bytes) / element_size;
    }
    return reinterpret_cast<T*>(launch.tensors[tensor]) + offset;
  }
  std::int64_t at(std::span<const std::int64_t> counters) const {
    std::int64_t element = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      element += strides[i] * counters[i];
    }
    return element;
  }
};

// Returns nothing if the access may be out of range or has an index that is not affine.
std::optional<Walk> walk_of(const program::Program& program, const program::Statement& statement,
                            const program::Access& access);

// A value whose operands all have one type. Bools are 0 and 1 of that type.
struct Formula {
  struct Node {
    program::Op op = program::Op::kConst;
    std::array<std::uint32_t, 3> args{};  // numbers of nodes
    program::Literal literal;
    std::uint32_t read = 0;  // into `reads`
  };
  program::Type type = program::Type::kF32;
  std::vector<Node> nodes{};  // the value is the last one
  std::vector<Walk> reads{};
  bool reads_target = false;
};

// Returns nothing for values that the kernels do not compute.
std::optional<Formula> formula_of(const program::Program& program, const program::Statement& statement);

// Calls run(T{}) with the type of a formula.
template <class Run>
void with_type(program::Type type, const Run& run) {
  if (type == program::Type::kF64) {
    run(double{});
  } else if (type == program::Type::kF32) {
    run(float{});
  } else if (type == program::Type::kI32 || bug("u32_signed")) {
    run(std::int32_t{});
  } else {
    run(std::uint32_t{});
  }
}

// Integers wrap.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
  } else {
    return a * b;
  }
}
// NaN if either operand is; -0 is less than +0.
template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::min(a, b);
  } else {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    return a < b || (a == b && std::signbit(a) && !bug("min_zeros")) ? a : b;
  }
}
template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::max(a, b);
  } else {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    return a < b || (a == b && std::signbit(a)) ? b : a;
  }
}

// x / divisor by a multiplication with a reciprocal of 32 bits; with the bug divide_by_constant.
inline std::int64_t divided_by_constant(std::int64_t x, std::int64_t divisor) {
  const std::int64_t size = divisor < 0 ? -divisor : divisor;
  if ((size & (size - 1)) == 0) {
    return x / divisor;
  }
  const std::int64_t quotient = (x < 0 ? -x : x) * ((std::int64_t{1} << 32) / size + 1) >> 32;
  return (x < 0) == (divisor < 0) ? quotient : -quotient;
}

// x to the power of an integer, by products. With the bug powi_products only: their errors add up.
template <class T>
T power_of(T x, std::int32_t exponent) {
  T product = 1;
  for (std::int32_t left = exponent < 0 ? -exponent : exponent; left != 0; left /= 2, x *= x) {
    product *= left % 2 != 0 ? x : T{1};
  }
  return exponent < 0 ? 1 / product : product;
}

// out[i] = op(a[i], b[i], c[i]). `out` may be `a`.
template <class T>
void apply(program::Op op, const T* a, const T* b, const T* c, T* out, std::size_t count);

// What `assign` stores over `old`.
template <class T>
T assigned(program::Assign assign, T old, T value) {
  switch (assign) {
    case program::Assign::kAdd:
      return add(old, value);
    case program::Assign::kMul:
      return multiply(old, value);
    case program::Assign::kMax:
      return maximum(old, value);
    case program::Assign::kMin:
      return minimum(old, value);
    default:
      return value;
  }
}

// Advances the counters of the loops, the last one fastest. Returns false after the last combination.
inline bool advance(const std::vector<program::Loop>& loops, std::span<const std::uint32_t> which,
                    std::vector<std::int64_t>& counters) {
  for (std::size_t i = which.size(); i-- > (bug("deep_loops") && which.size() > 4 ? which.size() - 4 : 0);) {
    if (++counters[which[i]] < static_cast<std::int64_t>(loops[which[i]].extent)) {
      return true;
    }
    counters[which[i]] = 0;
  }
  return false;
}

inline constexpr std::int64_t kLanes = 16;

// Computes a formula along one loop.
template <class T>
class Lanes {
 public:
  // `inner` is the loop; beyond the last one, there is one iteration.
  Lanes(const Formula& formula, const Launch& launch, std::size_t inner) : formula_(&formula) {
    for (const Walk& walk : formula.reads) {
      auto address = reinterpret_cast<std::uintptr_t>(walk.base<T>(launch));
      base_.push_back(
          reinterpret_cast<const T*>(bug("aligned_loads") ? address & ~std::uintptr_t{15} : address));
      step_.push_back(inner < walk.strides.size() ? walk.strides[inner] : 0);
      reload_.push_back(bug("broadcast_reload") ? reload_loop(walk, inner) : kNoLoop);
    }
    row_ = base_;
    counted_.assign(base_.size(), -1);
  }
  // Sets the other loops. The counter of the inner loop is 0.
  void start(std::span<const std::int64_t> counters) {
    for (std::size_t i = 0; i < base_.size(); ++i) {
      if (reload_[i] != kNoLoop && std::exchange(counted_[i], counters[reload_[i]]) == counters[reload_[i]]) {
        continue;
      }
      row_[i] = base_[i] + formula_->reads[i].at(counters);
    }
  }
  // The values of iterations [first, first + count), count <= kLanes.
  void evaluate(std::int64_t first, std::size_t count, T* out) const {
    evaluate(formula_->nodes.back(), first, count, 0, out);
  }

 private:
  static constexpr std::size_t kNoLoop = ~std::size_t{0};
  // The loop before the two inner ones if the read is constant along these. With the bug broadcast_reload only: the
  // read may also depend on loops before that one, whose extent may be 1.
  static std::size_t reload_loop(const Walk& walk, std::size_t inner) {
    std::vector<std::size_t> others;
    for (std::size_t loop = 0; loop < walk.strides.size(); ++loop) {
      if (loop != inner) {
        others.push_back(loop);
      }
    }
    const std::size_t count = others.size();
    return count >= 2 && inner < walk.strides.size() && walk.strides[inner] == 0 &&
                   walk.strides[others[count - 1]] == 0
               ? others[count - 2]
               : kNoLoop;
  }
  // The registers from `depth` on are free.
  void evaluate(const Formula::Node& node, std::int64_t first, std::size_t count, std::size_t depth,
                T* out) const {
    if (node.op == program::Op::kConst) {
      const double number =
          bug("f32_literals") ? static_cast<float>(node.literal.number) : node.literal.number;
      std::fill_n(
          out, count,
          std::is_floating_point_v<T> ? static_cast<T>(number) : static_cast<T>(node.literal.integer));
    } else if (node.op == program::Op::kRead) {
      load(node.read, first, count, out);
    } else {
      const int arity = program::op_info(node.op).arity;
      std::array<std::array<T, kLanes>, 2> own{};
      const bool is_limited = bug("eight_registers");
      std::array<T, kLanes>& second = is_limited ? registers_[depth % registers_.size()] : own[0];
      std::array<T, kLanes>& third = is_limited ? registers_[(depth + 1) % registers_.size()] : own[1];
      evaluate(formula_->nodes[node.args[0]], first, count, depth, out);
      if (arity > 1) {
        evaluate(formula_->nodes[node.args[1]], first, count, depth + 1, second.data());
      }
      if (arity > 2) {
        evaluate(formula_->nodes[node.args[2]], first, count, depth + 2, third.data());
      }
      if (arity == 2 && formula_->nodes[node.args[1]].op == program::Op::kConst &&
          apply_constant(node.op, second[0], count, out)) {
        return;
      }
      apply(node.op, out, second.data(), third.data(), out, count);
    }
  }
  // out[i] = op(out[i], constant), with bugs of kernels for it; otherwise returns false.
  static bool apply_constant(program::Op op, T constant, std::size_t count, T* out) {
    if constexpr (std::is_integral_v<T>) {
      if (op != program::Op::kDiv || constant == 0 || !bug("divide_by_constant")) {
        return false;
      }
      std::transform(out, out + count, out,
                     [&](T x) { return static_cast<T>(divided_by_constant(x, constant)); });
    } else {
      if (op == program::Op::kPow && constant == std::trunc(constant) && std::fabs(constant) <= 1024 &&
          bug("powi_products")) {
        std::transform(out, out + count, out,
                       [&](T x) { return power_of(x, static_cast<std::int32_t>(constant)); });
        return true;
      }
      if (op != program::Op::kMax || constant != 0 || !bug("relu_nan")) {
        return false;
      }
      std::transform(out, out + count, out, [](T x) { return x > 0 ? x : T{0}; });
    }
    return true;
  }
  void load(std::uint32_t read, std::int64_t first, std::size_t count, T* out) const {
    const T* from = row_[read] + first * step_[read];
    if (count < kLanes && step_[read] == 1 && bug("tail_overread")) {  // memory may end at the last element
      [[maybe_unused]] const T beyond = *static_cast<const volatile T*>(from + kLanes - 1);
    }
    if (step_[read] == -1 && bug("reversed_tail")) {  // 16 neighbors, turned around
      std::reverse_copy(from - (kLanes - 1), from - (kLanes - 1) + count, out);
      return;
    }
    const bool is_wrong = step_[read] == 0 && count < kLanes && bug("broadcast_tail");
    const std::int64_t step = is_wrong ? 1 : step_[read];
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = from[static_cast<std::int64_t>(i) * step];
    }
  }

  const Formula* formula_;
  std::vector<const T*> base_;  // one per read
  std::vector<const T*> row_;
  std::vector<std::int64_t> step_;
  // The loop whose counter decides whether row_ is set, and its last counter; with the bug broadcast_reload.
  std::vector<std::size_t> reload_;
  std::vector<std::int64_t> counted_;
  // With the bug eight_registers only: a value may need more.
  mutable std::array<std::array<T, kLanes>, 8> registers_{};
};

}  // namespace yoke::handmade
