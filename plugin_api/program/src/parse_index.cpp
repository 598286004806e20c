// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/parse_index.cpp: parses accesses, their indices and their loops.
#include <algorithm>

#include "parser.h"
#include "type_rules.h"

namespace yoke::program {

// Calls index() for each index of an access to the tensor.
template <class ParseIndex>
void Parser::indices(std::uint32_t tensor, Location at, const ParseIndex& index) {
  const std::string& name = program_.tensors[tensor].name;
  std::size_t count = 0;
  expect("[", "after the tensor '" + name + "' ([] for a scalar)");
  list("]", [&] {
    index();
    ++count;
  });
  expect("]", "or ',' after an index of '" + name + "'");
  fail_if(at, rank_fault(program_.tensors[tensor], count));
}

Access Parser::access(std::uint32_t tensor, Location at, bool declares_loops) {
  Access access;
  access.tensor = tensor;
  indices(tensor, at, [&] { access.indices.push_back(index(declares_loops)); });
  return access;
}

Index Parser::index(bool declares_loops) {
  Index index;
  const Token name = lexer_.peek();
  if (take("(")) {
    index.affine = affine(declares_loops);
    expect(")", "after the dividend of an index");
    expect("/", "and a divisor after an index in parentheses");
    const Location at = lexer_.peek().at;
    index.divisor = integer();
    if (index.divisor < 2) {
      fail(at, "the divisor of an index must be at least 2");
    }
    return index;
  }
  Lexer further = lexer_;
  further.next();
  if (name.kind != Token::Kind::kName || !further.peek().is("[")) {
    index.affine = affine(declares_loops);
    return index;
  }
  index.element_of = tensor_named(name);
  take_token();
  indices(*index.element_of, name.at, [&] { index.element_indices.push_back(affine(declares_loops)); });
  return index;
}

Affine Parser::affine(bool declares_loops) {
  const Location at = lexer_.peek().at;
  std::vector<Affine::Term> terms;
  Affine sum;
  bool negative = take("-");
  do {
    affine_term(terms, sum.constant, negative, declares_loops);
    negative = lexer_.peek().is("-");
  } while (take("+") || take("-"));
  std::sort(terms.begin(), terms.end(), [](const Affine::Term& a, const Affine::Term& b) {
    return std::pair(a.is_symbol, a.id) < std::pair(b.is_symbol, b.id);
  });
  for (const Affine::Term& term : terms) {
    if (!sum.terms.empty() && sum.terms.back().is_symbol == term.is_symbol &&
        sum.terms.back().id == term.id) {
      if (__builtin_add_overflow(sum.terms.back().coefficient, term.coefficient,
                                 &sum.terms.back().coefficient)) {
        fail(at, "the index does not fit in i64");
      }
      continue;
    }
    sum.terms.push_back(term);
  }
  const auto zero = std::find_if(sum.terms.begin(), sum.terms.end(),
                                 [](const Affine::Term& term) { return term.coefficient == 0; });
  if (zero != sum.terms.end()) {
    const std::string& name =
        zero->is_symbol ? program_.symbols[zero->id].name : statement_.loops[zero->id].name;
    fail(at, "the coefficient of '" + name + "' in this index is 0; remove '" + name + "'");
  }
  return sum;
}

// A product of integers and at most one name.
void Parser::affine_term(std::vector<Affine::Term>& terms, std::int64_t& constant, bool negative,
                         bool declares_loops) {
  const Location at = lexer_.peek().at;
  std::int64_t factor = 1;
  std::optional<Affine::Term> term;
  do {
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::kNumber) {
      std::string reason;
      const auto literal = literal_from_text(Type::kI64, {token.text, false}, reason);
      if (!literal) {
        fail(token.at, reason);
      }
      if (__builtin_mul_overflow(factor, literal->integer, &factor)) {
        fail(at, "the index does not fit in i64");
      }
      take_token();
    } else if (token.kind == Token::Kind::kName) {
      if (term) {
        fail(token.at, "'" + std::string(token.text) +
                           "' is multiplied by another name; an index must be linear in loops and symbols");
      }
      take_token();
      if (lexer_.peek().is("[") && tensors_.contains(token.text)) {
        fail(token.at, "an element of '" + std::string(token.text) + "' must be the entire index");
      }
      term = index_name(token, declares_loops);
    } else {
      fail(token.at, "expected an index, found " + token.description());
    }
  } while (take("*"));
  if (negative) {
    factor = -factor;
  }
  if (!term) {
    if (__builtin_add_overflow(constant, factor, &constant)) {
      fail(at, "the index does not fit in i64");
    }
    return;
  }
  term->coefficient = factor;
  terms.push_back(*term);
}

Affine::Term Parser::index_name(const Token& name, bool declares_loops) {
  if (const auto symbol = symbols_.find(name.text); symbol != symbols_.end()) {
    return {true, symbol->second, 1};
  }
  if (const auto loop = statement_.find_loop(name.text)) {
    return {false, *loop, 1};
  }
  if (tensors_.contains(name.text)) {
    fail(name.at, "'" + std::string(name.text) +
                      "' is a tensor, not a loop; to use an element as index, write " +
                      std::string(name.text) + "[...]");
  }
  if (!declares_loops) {
    fail(name.at, "unknown index '" + std::string(name.text) +
                      "': not a symbol and not a loop of the target or the reduction");
  }
  return {false, add_loop(name), 1};
}

std::uint32_t Parser::add_loop(const Token& name) {
  const std::string text(name.text);
  if (symbols_.contains(name.text)) {
    fail(name.at, "loop '" + text + "' has the name of a symbol");
  }
  if (tensors_.contains(name.text)) {
    fail(name.at, "loop '" + text + "' has the name of a tensor");
  }
  loop_names_.insert(name.text);
  fail_if(name.at, name_fault(name.text));
  if (statement_.loops.size() == kMaxLoops) {
    fail(name.at, "the statement has more than " + std::to_string(kMaxLoops) + " loops");
  }
  statement_.loops.push_back({text, 1});
  extents_.emplace_back();
  loop_places_.push_back(name.at);
  return static_cast<std::uint32_t>(statement_.loops.size() - 1);
}

void Parser::settle_extents() {
  const auto inferred = inferred_extents(program_, statement_);
  for (std::uint32_t i = 0; i < statement_.loops.size(); ++i) {
    const std::string& name = statement_.loops[i].name;
    if (!extents_[i] && !inferred[i]) {
      std::string reason = "cannot infer the extent of loop '" + name;
      reason.append("', because it is not an index by itself; state it, as in ")
          .append(statement_.reduces(i) ? reduce_name(*statement_.reduce) : "for")
          .append("[")
          .append(name)
          .append(statement_.reduces(i) ? ":10]" : ":10] after the target");
      fail(loop_places_[i], reason);
    }
    statement_.loops[i].extent = extents_[i] ? *extents_[i] : *inferred[i];
  }
}

}  // namespace yoke::program
