// SPDX-License-Identifier: Apache-2.0
// runtime/passes/place.cpp: moves an elementwise statement directly after the reduction whose result it
// reads, so that a backend can merge the two.
#include "rewrite.h"

namespace yoke::passes {
namespace {

struct Item {
  Statement statement;
  std::vector<std::uint32_t> reads;

  std::uint32_t target() const { return statement.target.tensor; }
  bool touches(std::uint32_t tensor) const { return target() == tensor || contains(reads, tensor); }
};

// Whether the two statements may be exchanged.
bool commute(const Item& a, const Item& b) {
  return !a.touches(b.target()) && !b.touches(a.target());
}

class Placer {
 public:
  explicit Placer(Program& program) : program_(program) {
    for (Statement& statement : program.statements) {
      std::vector<std::uint32_t> reads = tensors_read(statement);
      items_.push_back({std::move(statement), std::move(reads)});
    }
  }

  // Terminates, because every move places one more statement after its reduction
  // and separates none. Usually one round suffices.
  bool run() {
    bool changed = false;
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < items_.size(); ++i) {
        again = move_next_of(i) || again;
      }
      changed = changed || again;
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      program_.statements[i] = std::move(items_[i].statement);
    }
    return changed;
  }

 private:
  // Whether statement j reads the result of i element by element.
  bool is_epilogue(std::size_t i, std::size_t j) const {
    const Statement& statement = items_[j].statement;
    const std::uint32_t fed = items_[i].target();
    if (statement.reduce || statement.hint >= 0 || statement.assign != Assign::kSet ||
        !contains(items_[j].reads, fed) || has_element_index(statement.target)) {
      return false;
    }
    bool same_element = true;
    visit_expr(statement.value, [&](const Expr& node) {
      if (node.op == Op::kRead && node.access.tensor == fed &&
          (node.access.otherwise || node.access.indices != statement.target.indices)) {
        same_element = false;
      }
    });
    return same_element;
  }

  // Whether j directly follows the reduction whose result it reads, or a chain of epilogues of one.
  bool is_fed(std::size_t j) const {
    for (; j > 0 && is_epilogue(j - 1, j); --j) {
      if (items_[j - 1].statement.reduce) {
        return true;
      }
    }
    return false;
  }

  std::size_t reader_count(std::uint32_t tensor) const {
    return static_cast<std::size_t>(std::count_if(
        items_.begin(), items_.end(), [&](const Item& item) { return contains(item.reads, tensor); }));
  }

  // Finds the statement that can continue the chain ending in i, and makes the two adjacent.
  bool move_next_of(std::size_t i) {
    if (items_[i].statement.hint >= 0 || !(items_[i].statement.reduce || is_fed(i))) {
      return false;
    }
    const std::uint32_t fed = items_[i].target();
    std::size_t j = i + 1;
    while (j < items_.size() && !items_[j].touches(fed)) {
      ++j;
    }
    if (j == items_.size() || j == i + 1 || !is_epilogue(i, j) || is_fed(j)) {
      return false;
    }
    if (items_[j].target() != fed && reader_count(fed) > 1) {
      return false;
    }
    return move_up(i, j) || move_down(i, j);
  }

  bool move_up(std::size_t i, std::size_t j) {
    for (std::size_t k = i + 1; k < j; ++k) {
      if (!commute(items_[k], items_[j])) {
        return false;
      }
    }
    std::rotate(at(i + 1), at(j), at(j + 1));
    return true;
  }

  // Moves the whole chain down to its consumer.
  bool move_down(std::size_t i, std::size_t j) {
    std::size_t first = i;
    while (!items_[first].statement.reduce) {
      --first;
    }
    if (items_[first].statement.hint >= 0) {
      return false;
    }
    for (std::size_t k = i + 1; k < j; ++k) {
      for (std::size_t part = first; part <= i; ++part) {
        if (!commute(items_[k], items_[part])) {
          return false;
        }
      }
    }
    std::rotate(at(first), at(i + 1), at(j));
    return true;
  }

  std::vector<Item>::iterator at(std::size_t i) { return items_.begin() + static_cast<std::ptrdiff_t>(i); }

  Program& program_;
  std::vector<Item> items_;
};

}  // namespace

bool place_epilogues_in(Program& program) {
  return Placer(program).run();
}

}  // namespace yoke::passes
