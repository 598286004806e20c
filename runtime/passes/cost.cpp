// SPDX-License-Identifier: Apache-2.0
// runtime/passes/cost.cpp: the cost of computing a temporary where it
// is read, and when a contraction stays one.
#include "cost.h"

namespace yoke::passes {
namespace {

const Expr& without_casts(const Expr& expr) {
  return expr.op == Op::kCast ? without_casts(expr.args[0]) : expr;
}

// Of a slice, a transpose or a broadcast: the loop in each index, or kNoLoop. Returns nothing for other
// values.
std::optional<std::vector<std::uint32_t>> copied_loops(const Expr& value) {
  if (value.op != Op::kRead || value.access.otherwise) {  // a gather has an `else`
    return std::nullopt;
  }
  std::vector<std::uint32_t> loops;
  for (const Index& index : value.access.indices) {
    std::uint32_t own = kNoLoop;
    for (const Affine::Term& term : index.affine.terms) {
      if (term.is_symbol) {
        continue;
      }
      if (own != kNoLoop || term.coefficient != 1 ||
          std::find(loops.begin(), loops.end(), term.id) != loops.end()) {
        return std::nullopt;
      }
      own = term.id;
    }
    loops.push_back(own);
  }
  return loops;
}

// Whether a copy reads the element that has the same row-major number as the one that it writes.
bool is_reshape(const Program& program, const Statement& statement, const Expr& value) {
  if (value.op != Op::kRead || value.access.otherwise ||
      program.tensors[value.access.tensor].element_count() !=
          program.tensors[statement.target.tensor].element_count()) {
    return false;
  }
  const auto source = program::flat_element(program, value.access);
  return source && source == program::flat_element(program, statement.target);
}

// Whether a copy reads its source in the order in which it writes, so that neighbors stay neighbors.
bool keeps_order(const Statement& statement, const std::vector<std::uint32_t>& copied) {
  std::vector<std::uint32_t> loops = copied;
  std::erase(loops, kNoLoop);
  // Loops of an elementwise statement are numbered in the order of its target's dimensions.
  const bool reads_innermost = !loops.empty() && loops.back() + 1 == statement.loops.size();
  return std::is_sorted(loops.begin(), loops.end()) && (!reads_innermost || copied.back() != kNoLoop);
}

// A sum of products of two reads.
struct Product {
  const Expr* factors[2];
  std::vector<bool> loops[2];  // that each factor depends on
};

std::optional<Product> product_of(const Statement& statement) {
  const Expr& value = statement.value.op == Op::kGuard ? statement.value.args[0] : statement.value;
  if (statement.reduce != Reduce::kSum || value.op != Op::kMul) {
    return std::nullopt;
  }
  Product product;
  for (std::size_t i = 0; i < 2; ++i) {
    product.factors[i] = &value.args[i];
    const Expr& read = without_casts(value.args[i]);
    if (read.op != Op::kRead) {
      return std::nullopt;
    }
    product.loops[i] = loops_of(read.access, statement);
  }
  return product;
}

bool is_plain_operand(const Expr& operand) {
  const Expr& read = without_casts(operand);
  return !read.access.otherwise && !has_element_index(read.access);
}

// The time that each element takes, in additions. Elements of index tensors point anywhere in memory.
int work_of(const Expr& expr) {
  int work = op_info(expr.op).cost + (has_element_index(expr.access) ? 8 : 0);
  for (const Expr& arg : expr.args) {
    work += work_of(arg);
  }
  return work;
}
constexpr int kLightWork = 6;

// Operands with at least a quarter of the elements that the statement writes. Others are broadcast.
std::vector<std::uint32_t> large_operands(const Program& program, const Statement& statement) {
  const std::uint64_t count = program.tensors[statement.target.tensor].element_count();
  std::vector<std::uint32_t> operands = tensors_read(statement);
  std::erase_if(operands, [&](std::uint32_t tensor) {
    return program.tensors[tensor].element_count() < std::max<std::uint64_t>(count / 4, 2);
  });
  return operands;
}

}  // namespace

bool inputs_live_until(const Graph& graph, Place producer, Place last) {
  const std::vector<std::uint32_t> large = large_operands(graph.program(), graph.at(producer));
  return large.size() <= 1 && std::all_of(large.begin(), large.end(), [&](std::uint32_t tensor) {
           return graph.program().tensors[tensor].role != Role::kTemp || graph.end_of(tensor) > last;
         });
}

std::vector<bool> loops_of(const Access& access, const Statement& statement) {
  std::vector<bool> loops(statement.loops.size(), false);
  program::visit_affines(access, [&](const Affine& affine) {
    for (const Affine::Term& term : affine.terms) {
      if (!term.is_symbol) {
        loops[term.id] = true;
      }
    }
  });
  return loops;
}

bool is_contraction(const Statement& statement) {
  const std::optional<Product> product = product_of(statement);
  return product && product->loops[0] != product->loops[1];
}

bool is_matrix_product(const Statement& statement) {
  const std::optional<Product> product = product_of(statement);
  bool only[2] = {false, false};
  for (std::size_t loop = 0; product && loop < statement.loops.size(); ++loop) {
    only[0] = only[0] || (product->loops[0][loop] && !product->loops[1][loop]);
    only[1] = only[1] || (product->loops[1][loop] && !product->loops[0][loop]);
  }
  return only[0] && only[1];
}

Cost cost_of(const Program& program, const Statement& statement) {
  const Expr* leaf = &statement.value;
  std::size_t depth = 0;
  while (leaf->op == Op::kCast || leaf->op == Op::kNeg) {
    leaf = &leaf->args[0];
    ++depth;
  }
  const bool is_scalar = leaf->op == Op::kRead && program.tensors[leaf->access.tensor].dims.empty();
  if ((leaf->op == Op::kConst || leaf->op == Op::kIndex || is_scalar) && depth <= 2) {
    return Cost::kFree;
  }
  const bool is_reshaped = is_reshape(program, statement, *leaf);
  const auto copied = copied_loops(*leaf);
  if ((!copied && !is_reshaped) || depth > 1) {
    return work_of(statement.value) <= kLightWork ? Cost::kLight : Cost::kWork;
  }
  const bool in_order = is_reshaped || keeps_order(statement, *copied);
  if (depth == 1) {
    const bool is_widened = statement.value.op == Op::kCast &&
                            program::byte_size(program.tensors[leaf->access.tensor].type) <
                                program::byte_size(program.tensors[statement.target.tensor].type);
    return !in_order ? Cost::kWork : is_widened ? Cost::kWidened : Cost::kCheap;
  }
  return !copied ? Cost::kReshape : in_order ? Cost::kCopy : Cost::kMoved;
}

bool reads_each_once(const Access& access, const Statement& statement) {
  for (const Index& index : access.indices) {
    const auto& terms = index.affine.terms;
    if (index.element_of || std::count_if(terms.begin(), terms.end(),
                                          [](const Affine::Term& term) { return !term.is_symbol; }) > 1) {
      return false;
    }
  }
  const std::vector<bool> present = loops_of(access, statement);
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i] && statement.loops[i].extent > 1) {
      return false;
    }
  }
  return true;
}

bool stays_contraction(const Statement& before, const Statement& after) {
  const std::optional<Product> was = product_of(before);
  const std::optional<Product> now = product_of(after);
  if (!was || !now) {
    return false;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!program::same(*was->factors[i], *now->factors[i]) && !is_plain_operand(*now->factors[i])) {
      return false;
    }
    for (std::uint32_t loop = 0; loop < before.loops.size(); ++loop) {
      if (was->loops[i][loop] && !now->loops[i][loop] && (before.reduces(loop) || !now->loops[1 - i][loop])) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace yoke::passes
