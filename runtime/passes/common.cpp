// SPDX-License-Identifier: Apache-2.0
// runtime/passes/common.cpp: computes equal statements over unchanged inputs once.
#include "rewrite.h"

namespace yoke::passes {
namespace {

// Whether the statements differ only in the tensor they write and the names of their loops.
bool same_work(const Statement& a, const Statement& b) {
  if (a.loops.size() != b.loops.size() || a.assign != b.assign || a.reduce != b.reduce ||
      a.reduce_loops != b.reduce_loops || a.accumulator != b.accumulator ||
      a.target.indices != b.target.indices) {
    return false;
  }
  for (std::size_t i = 0; i < a.loops.size(); ++i) {
    if (a.loops[i].extent != b.loops[i].extent) {
      return false;
    }
  }
  return program::same(a.value, b.value);
}

class Commoner {
 public:
  explicit Commoner(Program& program) : program_(program), removed_(program.statements.size(), false) {}

  bool run() {
    bool changed = false;
    for (std::size_t later = 1; later < program_.statements.size(); ++later) {
      changed = merge_with_earlier(later) || changed;
    }
    if (changed) {
      remove_statements(program_, removed_);
      remove_unused_temporaries(program_);
    }
    return changed;
  }

 private:
  const Statement& at(std::size_t i) const { return program_.statements[i]; }
  const Tensor& tensor_of(std::size_t i) const { return program_.tensors[at(i).target.tensor]; }

  // Whether a statement in [first, last) writes the tensor.
  bool is_written(std::uint32_t tensor, std::size_t first, std::size_t last) const {
    for (std::size_t i = first; i < last; ++i) {
      if (!removed_[i] && at(i).target.tensor == tensor) {
        return true;
      }
    }
    return false;
  }

  bool is_touched(std::uint32_t tensor, std::size_t first, std::size_t last) const {
    for (std::size_t i = first; i < last; ++i) {
      if (!removed_[i] && touches(at(i), tensor)) {
        return true;
      }
    }
    return false;
  }

  // One past the last statement that touches the tensor.
  std::size_t end_of(std::uint32_t tensor) const {
    std::size_t end = at_count();
    while (end > 0 && (removed_[end - 1] || !touches(at(end - 1), tensor))) {
      --end;
    }
    return end;
  }
  std::size_t at_count() const { return program_.statements.size(); }

  bool is_only_writer(std::size_t i) const {
    const std::uint32_t tensor = at(i).target.tensor;
    return !is_written(tensor, 0, i) && !is_written(tensor, i + 1, at_count());
  }

  void rename(std::uint32_t from, std::uint32_t to) {
    for (std::size_t i = 0; i < at_count(); ++i) {
      if (!removed_[i]) {
        rename_tensor(program_.statements[i], from, to);
      }
    }
  }

  bool merge_with_earlier(std::size_t later) {
    if (removed_[later] || at(later).assign != Assign::kSet || at(later).hint >= 0) {
      return false;
    }
    const std::vector<std::uint32_t> inputs = tensors_read(at(later));
    // Searches backwards until an input is written: statements before that write read different values.
    for (std::size_t earlier = later; earlier-- > 0;) {
      if (removed_[earlier]) {
        continue;
      }
      if (contains(inputs, at(earlier).target.tensor)) {
        return false;
      }
      if (same_work(at(earlier), at(later)) && merge(earlier, later)) {
        return true;
      }
    }
    return false;
  }

  bool merge(std::size_t earlier, std::size_t later) {
    const std::uint32_t a = at(earlier).target.tensor;
    const std::uint32_t b = at(later).target.tensor;
    if (is_written(a, earlier + 1, later)) {
      return false;
    }
    if (a == b) {
      removed_[later] = true;
      return true;
    }
    if (tensor_of(earlier).type != tensor_of(later).type ||
        tensor_of(earlier).dims != tensor_of(later).dims) {
      return false;
    }
    if (tensor_of(later).role == Role::kTemp && is_only_writer(later) &&
        !is_written(a, later + 1, std::max(later + 1, end_of(b)))) {
      removed_[later] = true;
      rename(b, a);
      return true;
    }
    if (tensor_of(earlier).role == Role::kTemp && at(earlier).hint < 0 && is_only_writer(earlier) &&
        !is_touched(b, earlier, later) && !is_written(b, later + 1, std::max(later + 1, end_of(a)))) {
      removed_[later] = true;
      rename(a, b);
      return true;
    }
    return copy_result(earlier, later);
  }

  // If two arguments receive the same result, the second becomes a
  // copy of the first if that saves a reduction.
  bool copy_result(std::size_t earlier, std::size_t later) {
    if (!at(later).reduce) {
      return false;
    }
    Statement& statement = program_.statements[later];
    statement.loops.resize(statement.loops.size() - statement.reduce_loops.size());
    statement.reduce.reset();
    statement.reduce_loops.clear();
    statement.accumulator.reset();
    Access source = statement.target;
    source.tensor = at(earlier).target.tensor;
    statement.value = Expr::read(tensor_of(later).type, std::move(source));
    return true;
  }

  Program& program_;
  std::vector<bool> removed_;
};

}  // namespace

bool eliminate_common_in(Program& program) {
  return Commoner(program).run();
}

}  // namespace yoke::passes
