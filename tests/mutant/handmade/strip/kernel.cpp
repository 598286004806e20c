// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/kernel.cpp: elementwise statements and reductions.
#include "kernel.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "../bugs.h"

namespace yoke::strip {

using handmade::bug;
using program::Assign;
using program::Reduce;

namespace {

constexpr std::uint64_t kBlock = 1024;        // terms that are added before the next partial sum
constexpr std::uint64_t kParallel = 1 << 15;  // elements from which two threads share the rows

// An expression with its accesses.
class Node {
 public:
  Node(const program::Program& program, const program::Statement& statement, const program::Expr& expr)
      : op_(expr.op), type_(expr.type), literal_(expr.literal), affine_(expr.affine) {
    if (op_ == Op::kRead) {
      const bool has_border = expr.access.otherwise && bug("border_per_tensor");
      place_ = std::make_shared<const Place>(program, statement,
                                             has_border ? with_border(statement, expr.access) : expr.access);
    }
    for (const program::Expr& arg : expr.args) {
      args_.emplace_back(program, statement, arg);
    }
  }
  Type type() const { return type_; }
  // Whether a read depends on one of the loops.
  bool reads_along(std::span<const std::uint32_t> loops) const {
    const bool is_here =
        place_ != nullptr && std::any_of(loops.begin(), loops.end(), [&](std::uint32_t loop) {
          return place_->has_gather() || place_->stride(loop) != 0;
        });
    return is_here ||
           std::any_of(args_.begin(), args_.end(), [&](const Node& arg) { return arg.reads_along(loops); });
  }

  void evaluate(Frame& frame, Strip& out) const {
    switch (op_) {
      case Op::kConst:
        out.real.fill(literal_.number);
        out.whole.fill(literal_.integer);
        return;
      case Op::kRead:
        return place_->read(frame, out);
      case Op::kIndex: {
        const program::Affine::Term& term = affine_.terms[0];
        const bool advances = !term.is_symbol && term.id == frame.strip;
        const std::int64_t first = term.is_symbol ? frame.launch->symbols[term.id] : frame.counters[term.id];
        const std::int64_t skipped = bug("index_in_block") ? frame.block : 0;
        for (std::size_t k = 0; k < frame.count; ++k) {
          out.whole[k] = first + (advances ? static_cast<std::int64_t>(k) - skipped : 0);
        }
        return;
      }
      default: {
        std::array<Strip, 3> values{};
        for (std::size_t i = 0; i < args_.size(); ++i) {
          args_[i].evaluate(frame, values[i]);
        }
        if (op_ == Op::kCast) {
          convert(args_[0].type_, type_, frame.count, values[0], out);
        } else {
          apply(op_, args_.back().type_, frame.count, values, out);
        }
      }
    }
  }

 private:
  Op op_;
  Type type_;
  program::Literal literal_;
  program::Affine affine_;
  std::shared_ptr<const Place> place_;
  std::vector<Node> args_;
};

// What elementwise statements and reductions share.
class Loops : public Kernel {
 protected:
  Loops(const program::Program& program, const program::Statement& statement)
      : loops_(statement.loops),
        assign_(statement.assign),
        target_(program, statement, statement.target),
        value_(program, statement, statement.value) {
    for (std::uint32_t loop = 0; loop < loops_.size(); ++loop) {
      if (!statement.reduces(loop)) {
        outer_.push_back(loop);
      }
    }
  }

  std::uint64_t extent(const std::vector<std::uint32_t>& order) const {
    std::uint64_t product = 1;
    for (const std::uint32_t loop : order) {
      product *= loops_[loop].extent;
    }
    return product;
  }

  void assign(Frame& frame, Strip& value) const {
    void* const first = target_.address(frame);
    const std::int64_t step = frame.strip < loops_.size() ? target_.stride(frame.strip) : 0;
    if (assign_ == Assign::kSet) {
      return store(target_.type(), frame.count, value, first, step);
    }
    std::array<Strip, 3> args{};
    Strip result{};
    load(target_.type(), frame.count, first, step, args[0]);
    args[1] = value;
    const Op op = assign_ == Assign::kAdd   ? Op::kAdd
                  : assign_ == Assign::kMul ? Op::kMul
                  : assign_ == Assign::kMax ? Op::kMax
                                            : Op::kMin;
    apply(op, target_.type(), frame.count, args, result);
    store(target_.type(), frame.count, result, first, step);
  }

  // Calls rows(first, last) for all rows, in two parts if there is much to do.
  template <class Rows>
  void share(const Launch& launch, std::uint64_t count, std::uint64_t each, const Rows& rows) const {
    if (count < 2 || count * each < kParallel) {
      return rows(0, count);
    }
    const std::uint64_t half = bug("odd_rows") ? count - count / 2 : count / 2;
    if (bug("statement_barrier")) {
      launch.pending->add();
      launch.pool->submit([=, pending = launch.pending] {
        rows(half, count);
        pending->remove();
      });
      return rows(0, count / 2);
    }
    pool_of(launch).parallel(2, [&](int part) { part == 0 ? rows(0, count / 2) : rows(half, count); });
  }

  std::vector<program::Loop> loops_;
  Assign assign_;
  Place target_;
  Node value_;
  std::vector<std::uint32_t> outer_;  // the loops of the target
};

class Map final : public Loops {
 public:
  Map(const program::Program& program, const program::Statement& statement) : Loops(program, statement) {
    if (loops_.empty()) {
      loops_.push_back({"once", 1});  // no access uses it
      outer_.push_back(0);
    }
    inner_ = outer_.back();
    outer_.pop_back();
    keeps_row_ = bug("row_reuse") && loops_[inner_].extent <= kStrip && !value_.reads_along(outer_);
  }

  void run(const Launch& launch) const override {
    const std::uint64_t extent_of_row = loops_[inner_].extent;
    share(launch, extent(outer_), extent_of_row, [=, this, &launch](std::uint64_t first, std::uint64_t last) {
      Frame frame{&launch, std::vector<std::int64_t>(loops_.size()), inner_, 1};
      Strip value{};
      for (std::uint64_t row = first; row < last; ++row) {
        set_counters(loops_, outer_, row, frame.counters);
        for (std::uint64_t begin = 0; begin < extent_of_row; begin += kStrip) {
          frame.counters[inner_] = static_cast<std::int64_t>(begin);
          frame.count = std::min<std::uint64_t>(kStrip, extent_of_row - begin);
          if (!keeps_row_ || row == first) {
            value_.evaluate(frame, value);
          }
          assign(frame, value);
        }
      }
    });
  }

 private:
  std::uint32_t inner_ = 0;
  // Whether all rows have the values of the first one. With the bug row_reuse only: a row's number may be a value.
  bool keeps_row_ = false;
};

class Fold final : public Loops {
 public:
  Fold(const program::Program& program, const program::Statement& statement)
      : Loops(program, statement),
        reduce_(*statement.reduce),
        accumulator_(statement.accumulator_type()),
        rows_(statement.reduce_loops) {
    inner_ = rows_.back();
    rows_.pop_back();
  }

  void run(const Launch& launch) const override {
    const std::uint64_t each = extent(rows_) * loops_[inner_].extent;
    share(launch, extent(outer_), each, [this, &launch](std::uint64_t first, std::uint64_t last) {
      Frame frame{&launch, std::vector<std::int64_t>(loops_.size()), inner_, 1};
      Total total;
      // With the bug argmax_part only: the first term of each reduction is number 0.
      total.origin = bug("argmax_part") && loops_[inner_].extent == 1 ? static_cast<std::int64_t>(first) : 0;
      for (std::uint64_t element = first; element < last; ++element) {
        set_counters(loops_, outer_, element, frame.counters);
        fold(frame, total);
      }
    });
  }

 private:
  struct Total {
    double real = 0;
    std::int64_t whole = 0;
    std::int64_t place = 0;
    bool is_decided = false;  // further terms of any or all change nothing
    std::int64_t origin = 0;  // with the bug argmax_part
  };

  bool is_real() const { return program::is_float(accumulator_); }
  bool is_arg() const { return reduce_ == Reduce::kArgMax || reduce_ == Reduce::kArgMin; }
  bool is_max() const { return reduce_ == Reduce::kMax || reduce_ == Reduce::kArgMax; }

  void start(Total& total) const {
    const double infinity = std::numeric_limits<double>::infinity();
    const bool is_extreme = is_arg() || reduce_ == Reduce::kMin || reduce_ == Reduce::kMax;
    total.real = is_extreme ? (is_max() ? -infinity : infinity) : reduce_ == Reduce::kProd ? 1 : 0;
    total.whole = is_extreme ? (is_max() ? program::lowest_integer(accumulator_)
                                         : program::highest_integer(accumulator_))
                  : reduce_ == Reduce::kProd || reduce_ == Reduce::kAll ? 1
                                                                        : 0;
    total.place = -1;
    total.is_decided = total.is_decided && bug("decided_once");
  }

  void fold(Frame& frame, Total& total) const {
    start(total);
    const std::uint64_t extent_of_row = loops_[inner_].extent;
    const std::uint64_t blocks = (extent_of_row + kBlock - 1) / kBlock;
    std::uint64_t rest = extent_of_row % kBlock;  // the terms of the last block
    if (rest == 0 && !bug("block_multiple")) {
      rest = kBlock;
    }
    for (std::uint64_t row = 0, rows = extent(rows_); row < rows && !total.is_decided; ++row) {
      set_counters(loops_, rows_, row, frame.counters);
      for (std::uint64_t block = 0; block < blocks && !total.is_decided; ++block) {
        fold_block(frame, block * kBlock, block + 1 == blocks ? rest : kBlock, total);
      }
    }
    frame.counters[inner_] = 0;
    Strip out{};
    Strip converted{};
    out.real[0] = is_real() ? rounded(accumulator_, total.real) : 0;
    const Type kept = bug("narrow_total") ? value_.type() : accumulator_;
    out.whole[0] = is_arg()    ? std::max<std::int64_t>(total.place, 0) + total.origin
                   : is_real() ? 0
                               : wrapped(kept, total.whole);
    frame.count = 1;
    convert(is_arg() ? Type::kI64 : accumulator_, target_.type(), 1, out, converted);
    assign(frame, converted);
  }

  void fold_block(Frame& frame, std::uint64_t first, std::uint64_t size, Total& total) const {
    Strip values{};
    Strip terms{};
    std::array<double, kStrip> lanes{};  // one sum for each position in a strip
    frame.block = static_cast<std::int64_t>(first);
    for (std::uint64_t done = 0; done < size; done += kStrip) {
      frame.counters[inner_] = static_cast<std::int64_t>(first + done);
      frame.count = std::min<std::uint64_t>(kStrip, size - done);
      value_.evaluate(frame, values);
      convert(value_.type(), accumulator_, frame.count, values, terms);
      if (is_arg()) {
        fold_places(frame.count, static_cast<std::int64_t>(first + done), terms, total);
      } else if (is_real() && reduce_ == Reduce::kSum) {
        for (std::size_t k = 0; k < frame.count; ++k) {
          lanes[k] += terms.real[k];
        }
      } else if (is_real()) {
        fold_reals(frame.count, terms, total);
      } else {
        fold_wholes(frame.count, terms, total);
      }
    }
    if (is_real() && reduce_ == Reduce::kSum) {
      for (std::size_t half = kStrip / 2; half > 0; half /= 2) {
        for (std::size_t k = 0; k < half; ++k) {
          lanes[k] += lanes[k + half];
        }
      }
      total.real += lanes[0];
    }
  }

  void fold_reals(std::size_t count, const Strip& terms, Total& total) const {
    for (std::size_t k = 0; k < count; ++k) {
      total.real = reduce_ == Reduce::kProd ? rounded(accumulator_, total.real * terms.real[k])
                                            : extreme(total.real, terms.real[k], is_max());
    }
    total.is_decided = reduce_ == Reduce::kProd && total.real == 0 && bug("prod_ends_at_zero");
  }

  void fold_wholes(std::size_t count, const Strip& terms, Total& total) const {
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t term = terms.whole[k];
      switch (reduce_) {
        case Reduce::kSum:
          total.whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(total.whole) +
                                                  static_cast<std::uint64_t>(term));
          break;
        case Reduce::kProd:
          total.whole = static_cast<std::int64_t>(static_cast<std::uint64_t>(total.whole) *
                                                  static_cast<std::uint64_t>(term));
          break;
        case Reduce::kMin:
          total.whole = std::min(total.whole, term);
          break;
        case Reduce::kMax:
          total.whole = std::max(total.whole, term);
          break;
        default:
          if ((term != 0) == (reduce_ == Reduce::kAny)) {
            total.whole = term != 0 ? 1 : 0;
            total.is_decided = true;
            return;
          }
      }
    }
  }

  void fold_places(std::size_t count, std::int64_t first, const Strip& terms, Total& total) const {
    for (std::size_t k = 0; k < count; ++k) {
      const bool wins =
          total.place < 0 ||
          (is_real() ? !std::isnan(total.real) &&
                           (std::isnan(terms.real[k]) ||
                            (is_max() ? terms.real[k] > total.real : terms.real[k] < total.real))
                     : (is_max() ? terms.whole[k] > total.whole : terms.whole[k] < total.whole));
      if (wins) {
        total.real = terms.real[k];
        total.whole = terms.whole[k];
        const std::int64_t place = first + static_cast<std::int64_t>(k);
        // With the bug argmax_float_index only: lanes of f32 hold whole numbers up to 2^24.
        total.place =
            bug("argmax_float_index") ? static_cast<std::int64_t>(static_cast<float>(place)) : place;
      }
    }
  }

  Reduce reduce_;
  Type accumulator_;
  std::vector<std::uint32_t> rows_;  // the loops of the reduction but the last
  std::uint32_t inner_ = 0;
};

bool has_guard(const program::Expr& expr) {
  return expr.op == Op::kGuard || std::any_of(expr.args.begin(), expr.args.end(), has_guard);
}

}  // namespace

Pool& Kernel::pool_of(const Launch& launch) const {
  Pool* first = nullptr;
  const bool is_first = first_pool_.compare_exchange_strong(first, launch.pool) || !bug("kernel_pool");
  return is_first ? *launch.pool : *first;
}

std::unique_ptr<Kernel> make_kernel(const program::Program& program, const program::Statement& statement) {
  if (program::has_element_index(statement.target) || has_guard(statement.value)) {
    return nullptr;
  }
  if (auto copy = make_byte_copy(program, statement)) {
    return copy;
  }
  if (auto product = make_product(program, statement)) {
    return product;
  }
  if (statement.reduce) {
    return std::make_unique<Fold>(program, statement);
  }
  return std::make_unique<Map>(program, statement);
}

}  // namespace yoke::strip
