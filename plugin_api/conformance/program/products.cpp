// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/products.cpp: draws extents, layouts and types, and writes the text.
#include "products.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "../random.h"
#include "borders.h"

namespace yoke::conformance {

using program::Type;

namespace {

// Around the tiles of common kernels and powers of two.
constexpr std::uint64_t kBorders[] = {
    1,   2,   3,   4,    5,    6,    7,    8,    9,    11,   12,   13,   15,   16,   17,  23,  24,
    25,  31,  32,  33,   47,   48,   49,   63,   64,   65,   95,   96,   97,   127,  128, 129, 191,
    192, 193, 255, 256,  257,  319,  320,  321,  383,  384,  385,  511,  512,  513,  639, 640, 641,
    767, 768, 769, 1023, 1024, 1025, 1535, 1536, 1537, 2047, 2048, 2049, 4095, 4096, 4097};
// Batch, rows, columns, depth. 0 batches: no batch index.
struct Extents {
  std::uint64_t batch = 0, rows = 1, columns = 1, depth = 1;
};
constexpr Extents kBeyond16[] = {
    {0, 65537, 3, 4},   {0, 3, 65537, 4},  {0, 3, 4, 65537},   {65537, 2, 2, 2}, {0, 70001, 1, 2},
    {0, 1, 131073, 2},  {0, 2, 1, 200003}, {70001, 1, 1, 3},   {0, 65536, 2, 2}, {0, 2, 65536, 2},
    {0, 2, 2, 65536},   {65536, 1, 2, 2},  {0, 65535, 2, 3},   {0, 2, 65535, 3}, {0, 2, 3, 65535},
    {3, 70001, 2, 1},   {0, 257, 256, 9},  {0, 300, 9, 300},   {0, 9, 300, 300}, {2, 260, 260, 33},
    {0, 129, 513, 129}, {5, 130, 66, 130}, {0, 320, 320, 320}, {0, 1, 1, 262147}};

std::uint64_t product_of(const Extents& extents) {
  return std::max<std::uint64_t>(extents.batch, 1) * extents.rows * extents.columns * extents.depth;
}

class Product {
 public:
  Product(ProductFamily family, std::uint64_t seed, std::uint64_t index, std::uint64_t mask)
      : family_(family),
        seed_(seed),
        index_(index),
        mask_(mask),
        random_(seed, "product", index * 8 + static_cast<std::uint64_t>(family)) {}

  Case make() {
    choose_extents();
    choose_types();
    choose_tensors();
    return finished();
  }

 private:
  bool chance(std::uint64_t percent) { return random_.below(100) < percent; }
  bool has(Type type) const { return (mask_ >> static_cast<unsigned>(type) & 1U) != 0; }
  std::uint64_t border(std::uint64_t limit) {
    std::uint64_t chosen = 0;
    do {
      chosen = kBorders[random_.below(std::size(kBorders))];
    } while (chosen > limit);
    return chosen;
  }

  void choose_extents() {
    if (family_ == ProductFamily::kBeyond16) {
      extents_ = kBeyond16[(index_ * 7 + seed_) % std::size(kBeyond16)];
      return;
    }
    if (family_ == ProductFamily::kBorders) {
      // 61 has no factor in common with the number of pairs, so few programs already differ in both.
      const std::uint64_t pair = (index_ * 61 + seed_) % (std::size(kBorders) * 4);
      const std::uint64_t chosen = kBorders[pair / 4];
      const std::uint64_t limit = (chosen > 1500  ? 17U
                                   : chosen > 400 ? 25U
                                                  : 49U) /
                                  (pair % 4 == 3 ? 3U : 1U);
      extents_ = {0, border(limit), border(limit), border(limit)};
      (pair % 4 == 0   ? extents_.rows
       : pair % 4 == 1 ? extents_.columns
       : pair % 4 == 2 ? extents_.depth
                       : extents_.batch) = chosen;
      return;
    }
    const bool small = family_ == ProductFamily::kSpecial || family_ == ProductFamily::kTypes;
    const std::uint64_t limit = small ? 70 : 200;
    do {
      extents_ = {chance(40) ? 1 + random_.below(9) : 0, border(limit), border(limit), border(limit)};
    } while (product_of(extents_) > (small ? 100'000U : 600'000U));
  }

  static bool holds(Type wide, Type narrow) {
    return program::is_float(wide) == program::is_float(narrow) && narrow != Type::kBool &&
           wide != Type::kBool && program::holds_all(wide, narrow);
  }
  template <class Fits>
  std::optional<Type> type_where(const Fits& fits) {
    std::vector<Type> found;
    for (int type = 1; type <= static_cast<int>(Type::kBool); ++type) {
      if (has(static_cast<Type>(type)) && static_cast<Type>(type) != Type::kBool &&
          fits(static_cast<Type>(type))) {
        found.push_back(static_cast<Type>(type));
      }
    }
    return found.empty() ? std::nullopt : std::optional(found[random_.below(found.size())]);
  }

  void choose_types() {
    const auto is_wide = [](Type type) { return program::byte_size(type) != 2; };
    const auto any = [](Type) { return true; };
    value_ = has(Type::kF32) ? Type::kF32 : type_where(is_wide).value_or(*type_where(any));
    if (family_ == ProductFamily::kTypes) {
      value_ = *type_where(any);
    }
    target_ = x_ = w_ = value_;
    const bool needs_accumulator = program::byte_size(value_) == 2;
    if (family_ != ProductFamily::kTypes && !needs_accumulator) {
      return;
    }
    if (needs_accumulator || chance(50)) {
      accumulator_ = type_where([&](Type type) { return is_wide(type) && holds(type, value_); });
    }
    if (needs_accumulator && !accumulator_) {  // the mask has 16-bit floats only
      value_ = target_ = x_ = w_ = type_where(is_wide).value_or(value_);
    }
    if (accumulator_) {
      target_ = *type_where([&](Type type) { return program::is_float(type) == program::is_float(value_); });
    }
    const auto narrower = [&](Type type) { return holds(value_, type); };
    x_ = chance(40) ? *type_where(narrower) : x_;
    w_ = chance(40) ? *type_where(narrower) : w_;
  }

  // The indices of a tensor in random order, of those in `letters`; and the dimensions, with some padding.
  struct Operand {
    std::string indices;
    std::vector<std::uint64_t> dims;
    bool padded = false;
  };
  std::uint64_t extent(char letter) const {
    return letter == 'b'   ? extents_.batch
           : letter == 'i' ? extents_.rows
           : letter == 'j' ? extents_.columns
                           : extents_.depth;
  }
  Operand operand(std::string letters, bool may_use_symbol) {
    if (extents_.batch == 0) {
      letters.erase(std::remove(letters.begin(), letters.end(), 'b'), letters.end());
    }
    for (std::size_t i = letters.size(); i > 1; --i) {
      std::swap(letters[i - 1], letters[random_.below(i)]);
    }
    Operand made;
    for (const char letter : letters) {
      std::string index(1, letter);
      std::uint64_t dim = extent(letter);
      const std::uint64_t draw = random_.below(100);
      if (pads() && draw < 10) {
        const std::uint64_t pad = 1 + random_.below(5);
        const std::uint64_t at = random_.below(pad + 1);
        index += at == 0 ? "" : " + " + std::to_string(at);
        dim += pad;
        made.padded = true;
      } else if (pads() && draw < 16) {
        index.insert(0, "-").append(" + ").append(std::to_string(dim - 1));
      } else if (pads() && draw < 22) {
        index.insert(0, "2*").append(" + ").append(std::to_string(random_.below(2)));
        dim *= 2;
        made.padded = true;
      } else if (pads() && draw < 30 && may_use_symbol) {
        index.insert(0, "base + ");
        dim += 4;
        uses_symbol_ = made.padded = true;
      }
      made.indices += (made.indices.empty() ? "" : ", ") + index;
      made.dims.push_back(dim);
    }
    return made;
  }
  bool pads() const { return family_ == ProductFamily::kLayouts || family_ == ProductFamily::kTypes; }

  std::string declare(const std::string& name, Type type, const std::vector<std::uint64_t>& dims,
                      const char* role) const {
    std::string text = "  arg " + name + " : " + name_of(type) + "[";
    for (std::size_t i = 0; i < dims.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
    }
    return text + "] " + role + "\n";
  }
  std::string read(const std::string& tensor, Type type, const std::string& indices) const {
    const std::string plain = tensor + "[" + indices + "]";
    return type == value_ ? plain : name_of(value_) + "(" + plain + ")";
  }
  std::string loops(const std::string& letters) const {
    std::string text = "[";
    for (const char letter : letters) {
      if (letter != 'b' || extents_.batch != 0) {
        text +=
            (text.size() == 1 ? "" : ", ") + std::string(1, letter) + ":" + std::to_string(extent(letter));
      }
    }
    return text + "]";
  }

  // The statement, with loops in the order of the target's indices.
  void state(const std::string& target, const std::string& letters, const std::string& value) {
    text_ += "  " + target + " for" + loops(letters) + (adds_ ? " += sum" : " = sum") +
             (accumulator_ ? ":" + name_of(*accumulator_) : "") + "[k:" + std::to_string(extents_.depth) +
             "] " + value + "\n";
  }
  static std::string letters_of(std::string indices) {
    const auto is_other = [](char letter) { return letter != 'b' && letter != 'i' && letter != 'j'; };
    indices.erase(std::remove_if(indices.begin(), indices.end(), is_other), indices.end());
    return indices;
  }

  void choose_tensors() {
    adds_ = chance(35);
    if (family_ == ProductFamily::kOperands) {
      return choose_operands();
    }
    const Operand y = operand("bij", false);
    const Operand x = operand(chance(25) ? "ik" : "bik", true);
    const Operand w = operand(chance(25) ? "kj" : "bkj", true);
    text_ = declare("x", x_, x.dims, "in") + declare("w", w_, w.dims, "in") +
            declare("y", target_, y.dims, adds_ || y.padded ? "inout" : "out");
    const std::string left = read("x", x_, x.indices);
    const std::string right = read("w", w_, w.indices);
    state("y[" + y.indices + "]", letters_of(y.indices),
          chance(50) ? left + " * " + right : right + " * " + left);
  }

  static constexpr std::uint64_t kOperandForms = 9;
  void choose_operands() {
    extents_.batch = 0;
    const std::uint64_t rows = extents_.rows;
    const std::uint64_t depth = extents_.depth;
    if (index_ % kOperandForms > 4) {
      return choose_one_operand();
    }
    switch (index_ % kOperandForms) {
      case 0:  // x * x^T
        extents_.columns = rows;
        text_ = declare("x", value_, {rows, depth}, "in") +
                declare("y", value_, {rows, rows}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij", read("x", x_, "i, k") + " * " + read("x", x_, "j, k"));
      case 1:  // x * v, two arguments that share memory
        extents_.columns = extents_.depth = rows;
        shares_ = true;
        text_ = declare("v", value_, {rows, rows}, "in") + declare("x", value_, {rows, rows}, "in") +
                declare("y", value_, {rows, rows}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij", read("x", x_, "i, k") + " * " + read("v", x_, "k, j"));
      case 2:  // reads the rows of its target that it does not write
        text_ = declare("x", value_, {rows, depth}, "in") +
                declare("y", value_, {depth + rows, extents_.columns}, "inout");
        return state("y[i + " + std::to_string(depth) + ", j]", "ij",
                     read("x", x_, "i, k") + " * " + read("y", x_, "k, j"));
      case 3:  // reads the columns of its target that it does not write
        text_ = declare("w", value_, {depth, extents_.columns}, "in") +
                declare("y", value_, {rows, depth + extents_.columns}, "inout");
        return state("y[i, j + " + std::to_string(depth) + "]", "ij",
                     read("y", x_, "i, k") + " * " + read("w", x_, "k, j"));
      default:  // reads the element that it adds to
        adds_ = true;
        text_ = declare("w", value_, {depth, extents_.columns}, "in") +
                declare("y", value_, {rows, extents_.columns}, "inout");
        return state("y[i, j]", "ij", read("y", x_, "i, j") + " * " + read("w", x_, "k, j"));
    }
  }

  // One tensor as both factors, at different places.
  void choose_one_operand() {
    const std::uint64_t rows = extents_.rows;
    const std::uint64_t depth = extents_.depth;
    const std::uint64_t more = 1 + index_ / kOperandForms % 3;
    const std::string shift = std::to_string(more);
    if (index_ % kOperandForms != 6) {
      extents_.columns = rows;
    }
    switch (index_ % kOperandForms) {
      case 5:  // x * x^T, other rows
        text_ = declare("x", value_, {rows + more, depth}, "in") +
                declare("y", value_, {rows, rows}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij", read("x", x_, "i, k") + " * " + read("x", x_, "j + " + shift + ", k"));
      case 6:  // x * x, other rows
        text_ =
            declare("x", value_, {std::max(rows, depth + more), std::max(depth, extents_.columns)}, "in") +
            declare("y", value_, {rows, extents_.columns}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij", read("x", x_, "i, k") + " * " + read("x", x_, "k + " + shift + ", j"));
      case 7:  // x * x^T, other columns
        text_ = declare("x", value_, {rows, depth + more}, "in") +
                declare("y", value_, {rows, rows}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij", read("x", x_, "i, k") + " * " + read("x", x_, "j, k + " + shift));
      default:  // x * x^T, the second one reversed
        text_ = declare("x", value_, {rows, depth}, "in") +
                declare("y", value_, {rows, rows}, adds_ ? "inout" : "out");
        return state("y[i, j]", "ij",
                     read("x", x_, "i, k") + " * " + read("x", x_, "j, -k + " + std::to_string(depth - 1)));
    }
  }

  DataKind kind() {
    if (family_ == ProductFamily::kSpecial) {
      return DataKind::kSparse;
    }
    if (family_ == ProductFamily::kOperands && index_ % kOperandForms == 4) {
      return DataKind::kUnit;
    }
    // Sums of units are exact even if they are long, so that one missing term is found.
    return extents_.depth > 4096 ? DataKind::kUnit : chance(75) ? DataKind::kDyadic : DataKind::kUniform;
  }

  Case finished() {
    Case one;
    one.seed = seed_;
    one.index = index_;
    const std::string name = "product" + std::to_string(index_);
    one.program = program::parse_and_verify("yoke.program 1\nprogram " + name +
                                            (uses_symbol_ ? "(symbol base in 0..5 step 2) {\n" : "() {\n") +
                                            text_ + "}\n")
                      .programs.at(0);
    const DataKind chosen = kind();
    for (std::size_t i = 0; i < one.program.tensors.size(); ++i) {
      // About one special value in two rows, so that rows with and without one occur.
      const auto depth = static_cast<std::int64_t>(extents_.depth);
      one.data.push_back({chosen, chosen == DataKind::kSparse ? 2 + 2 * depth : 1, -1});
    }
    if (shares_) {
      one.data[1].shared = 0;
    }
    one.launches = {{}};
    if (uses_symbol_) {
      one.launches = {{0}, {4}};
    }
    return one;
  }

  ProductFamily family_;
  std::uint64_t seed_;
  std::uint64_t index_;
  std::uint64_t mask_;
  Random random_;
  Extents extents_;
  Type value_ = Type::kF32;
  Type x_ = Type::kF32;
  Type w_ = Type::kF32;
  Type target_ = Type::kF32;
  std::optional<Type> accumulator_;
  bool adds_ = false;
  bool uses_symbol_ = false;
  bool shares_ = false;
  std::string text_;
};

}  // namespace

Case product_case(ProductFamily family, std::uint64_t seed, std::uint64_t index, std::uint64_t type_mask) {
  return Product(family, seed, index, type_mask).make();
}

}  // namespace yoke::conformance
