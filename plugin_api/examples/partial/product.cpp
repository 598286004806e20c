// SPDX-License-Identifier: Apache-2.0
// Recognizes products and computes them with plain loops. Replace `Product::run` by calls of your library.
#include "product.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace partial {
namespace {

namespace program = yoke::program;

// Where an access starts, and how many elements one step of each loop or symbol moves.
struct Strided {
  std::uint32_t tensor = 0;
  std::int64_t start = 0;
  std::vector<std::int64_t> loops;
  std::vector<std::int64_t> symbols;
};

// Nothing unless every index is affine and in range.
std::optional<Strided> strided(const program::Program& source, const program::Statement& statement,
                               const program::Access& access) {
  const program::Tensor& tensor = source.tensors[access.tensor];
  if (tensor.type != program::Type::kF32 || access.otherwise) {
    return std::nullopt;
  }
  Strided place{access.tensor, 0, std::vector<std::int64_t>(statement.loops.size()),
                std::vector<std::int64_t>(source.symbols.size())};
  const std::vector<std::uint64_t> strides = program::strides_of(tensor);
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const program::Index& index = access.indices[dim];
    if (index.element_of || index.divisor != 1) {
      return std::nullopt;
    }
    const auto stride = static_cast<std::int64_t>(strides[dim]);
    place.start += stride * index.affine.constant;
    for (const program::Affine::Term& term : index.affine.terms) {
      (term.is_symbol ? place.symbols : place.loops)[term.id] += stride * term.coefficient;
    }
  }
  return place;
}

class Product {
 public:
  Product(const program::Statement& statement, Strided y, Strided x, Strided w)
      : adds_(statement.assign == program::Assign::kAdd),
        reduced_(statement.reduce_loops.size()),
        places_{std::move(y), std::move(x), std::move(w)} {
    for (const program::Loop& loop : statement.loops) {
      extents_.push_back(static_cast<std::int64_t>(loop.extent));
    }
  }

  void run(std::span<void* const> tensors, std::span<const std::int64_t> symbols) const {
    std::int64_t at[3];
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = places_[i].start;
      for (std::size_t symbol = 0; symbol < symbols.size(); ++symbol) {
        at[i] += places_[i].symbols[symbol] * symbols[symbol];
      }
    }
    auto* const y = static_cast<float*>(tensors[places_[0].tensor]);
    const auto* const x = static_cast<const float*>(tensors[places_[1].tensor]);
    const auto* const w = static_cast<const float*>(tensors[places_[2].tensor]);
    visit(0, extents_.size() - reduced_, at, [&] {
      float sum = 0;
      std::int64_t inner[3] = {at[0], at[1], at[2]};
      visit(extents_.size() - reduced_, extents_.size(), inner, [&] { sum += x[inner[1]] * w[inner[2]]; });
      y[at[0]] = adds_ ? y[at[0]] + sum : sum;
    });
  }

 private:
  // Calls `body` for every combination of the loops [first, last). `at` has the element of each place meanwhile.
  template <class Body>
  void visit(std::size_t first, std::size_t last, std::int64_t (&at)[3], const Body& body) const {
    if (first == last) {
      body();
      return;
    }
    for (std::int64_t i = 0; i < extents_[first]; ++i) {
      visit(first + 1, last, at, body);
      for (std::size_t place = 0; place < 3; ++place) {
        at[place] += places_[place].loops[first];
      }
    }
    for (std::size_t place = 0; place < 3; ++place) {
      at[place] -= places_[place].loops[first] * extents_[first];
    }
  }

  bool adds_;
  std::size_t reduced_;
  std::vector<std::int64_t> extents_;
  Strided places_[3];  // y, x, w
};

}  // namespace

yoke::sdk::Kernel product_kernel(const program::Program& source, std::size_t number) {
  const program::Statement& statement = source.statements[number];
  const program::Expr& value = statement.value;
  const bool is_product =
      statement.reduce == program::Reduce::kSum && statement.accumulator_type() == program::Type::kF32 &&
      (statement.assign == program::Assign::kSet || statement.assign == program::Assign::kAdd) &&
      value.type == program::Type::kF32 && value.op == program::Op::kMul &&
      value.args[0].op == program::Op::kRead && value.args[1].op == program::Op::kRead;
  if (!is_product) {
    return {};
  }
  auto y = strided(source, statement, statement.target);
  auto x = strided(source, statement, value.args[0].access);
  auto w = strided(source, statement, value.args[1].access);
  if (!y || !x || !w) {
    return {};
  }
  return [product = Product(statement, std::move(*y), std::move(*x), std::move(*w))](
             std::span<void* const> tensors, std::span<const std::int64_t> symbols) {
    product.run(tensors, symbols);
  };
}

}  // namespace partial
