// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/lifetime_programs.cpp: border_programs.h, temporaries whose memory a backend may
// share.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// How the elements of a temporary are read, always in the same way: a backend that sees some kinds of reads only takes
// the memory of a temporary too early.
enum class Use : std::uint8_t { kValue, kIndex, kScatter, kCondition, kTotal };

// Writes a program with temporaries of few sizes, so that many could share memory. Some are written before a repeat
// block and read after it, some carry a value from one round to the next, some are read after the last round. Integers
// wrap, so every wrong value shows.
class Lifetimes {
 public:
  Lifetimes(std::uint64_t seed, std::uint64_t number, const std::vector<Type>& types)
      : seed_(seed), number_(number), types_(types), random_(seed, "lifetimes", number) {}

  Case made() {
    const int blocks = static_cast<int>(random_.below(3));
    straight(2 + random_.below(5));
    for (int i = 0; i < blocks; ++i) {
      block(i);
      straight(random_.below(5));
    }
    show();
    Case one = corpus_case("yoke.program 1\nprogram lifetimes" + std::to_string(number_) +
                               "() {\n arg x : i32[200] in\n" + tensors_ + body_ + "}\n",
                           seed_);
    one.index = number_;
    one.data[0].kind = DataKind::kWide;
    return one;
  }

 private:
  struct Temporary {
    std::string name;
    std::string type;
    std::uint64_t extent = 1;
    Use use = Use::kValue;
  };

  bool has(Type type) const { return std::find(types_.begin(), types_.end(), type) != types_.end(); }
  std::size_t declare() {
    constexpr std::uint64_t kExtents[] = {64, 64, 64, 32, 200, 7, 1};
    constexpr Use kUses[] = {Use::kIndex, Use::kScatter, Use::kCondition, Use::kTotal};
    Use use = random_.chance(3) ? kUses[random_.below(4)] : Use::kValue;
    use = use == Use::kCondition && !has(Type::kBool) ? Use::kIndex : use;
    const std::string type = use == Use::kCondition                 ? "bool"
                             : has(Type::kI64) && random_.chance(3) ? "i64"
                             : has(Type::kU8) && random_.chance(6)  ? "u8"
                                                                    : "i32";
    const Temporary one{text("t", temporaries_.size()), type, kExtents[random_.below(7)], use};
    tensors_ += text(" temp ", one.name, " : ", type, "[", one.extent, "]\n");
    temporaries_.push_back(one);
    return temporaries_.size() - 1;
  }
  // An element for a loop i of the extent.
  std::string element(const Temporary& source, std::uint64_t extent, const std::string& variable) {
    std::string index = "i";
    if (source.extent < extent) {
      index = "0";
    } else if (random_.chance(3)) {
      index = "-i + " + std::to_string(source.extent - 1);
    } else if (!variable.empty() && source.extent >= extent + 6 && random_.chance(2)) {
      index = variable + " + i";
    }
    return source.name + "[" + index + "]";
  }
  // The value of a read as a value of the type.
  std::string read(const std::string& type, std::uint64_t extent, const std::string& variable) {
    const Temporary input{"x", "i32", 200};
    const auto number = random_.chance(5) ? std::nullopt : pick({Use::kValue, Use::kIndex, Use::kCondition});
    const Temporary source = number ? temporaries_[*number] : input;
    const std::string at = element(source, extent, variable);
    if (source.use == Use::kIndex) {
      const auto data = random_.chance(2) ? std::nullopt : pick({Use::kValue});
      const Temporary from = data ? temporaries_[*data] : input;
      const std::string value = text("(", from.name, "[", at, "] else 5)");
      return from.type == type ? value : type + "(" + value + ")";
    }
    if (source.use == Use::kCondition) {
      const std::string value = text("select(", at, ", ", element(input, extent, variable), ", 3)");
      return type == "i32" ? value : type + "(" + value + ")";
    }
    return source.type == type ? at : type + "(" + at + ")";
  }
  // A temporary that was written and is read in one of these ways, mostly one of the last ones.
  std::optional<std::size_t> pick(std::initializer_list<Use> uses) {
    std::vector<std::size_t> found;
    std::copy_if(written_.begin(), written_.end(), std::back_inserter(found), [&](std::size_t number) {
      return std::find(uses.begin(), uses.end(), temporaries_[number].use) != uses.end();
    });
    if (found.empty()) {
      return std::nullopt;
    }
    const std::size_t count = found.size();
    return found[random_.chance(2) ? count - 1 - random_.below(std::min<std::size_t>(count, 3))
                                   : random_.below(count)];
  }
  std::string value(const std::string& type, std::uint64_t extent, const std::string& variable) {
    constexpr const char* kOperators[] = {" + ", " - ", " * ", " ^ "};
    std::string made = read(type, extent, variable);
    for (std::uint64_t i = 0, more = 1 + random_.below(2); i < more; ++i) {
      made = text("(", made, ")", kOperators[random_.below(4)], read(type, extent, variable));
    }
    return variable.empty() || random_.chance(2) ? made + " + 1"
                                                 : "(" + made + ") + " + type + "(" + variable + ")";
  }
  // What the statement assigns: indices are in range, conditions have both values.
  std::string assigned(const Temporary& target, const std::string& variable) {
    switch (target.use) {
      case Use::kIndex:
      case Use::kScatter:
        return "(" + value(target.type, target.extent, variable) + ") & 63";
      case Use::kCondition:
        return "((" + value("i32", target.extent, variable) + ") & 4) == 0";
      default:
        break;
    }
    const auto total = random_.chance(3) ? pick({Use::kTotal, Use::kTotal, Use::kValue}) : std::nullopt;
    if (!total || temporaries_[*total].extent * target.extent > 4096) {
      return value(target.type, target.extent, variable);
    }
    const Temporary& terms = temporaries_[*total];
    const std::string term = text(terms.name, "[k]");
    return text(random_.chance(2) ? "sum" : "max", "[k:", terms.extent, "] ",
                terms.type == target.type ? term : text(target.type, "(", term, ")"), " * ",
                read(target.type, target.extent, variable));
  }
  void write(std::size_t number, const std::string& variable) {
    const Temporary target = temporaries_[number];
    const bool is_new = std::find(written_.begin(), written_.end(), number) == written_.end();
    // A statement may read only the element of its target that it writes, so it reads other tensors only.
    const std::vector<std::size_t> before = written_;
    std::erase(written_, number);
    const auto places = !is_new && target.use == Use::kValue && target.extent >= 32 && random_.chance(2)
                            ? pick({Use::kScatter})
                            : std::nullopt;
    if (places) {
      const Temporary& indices = temporaries_[*places];
      body_ += text(" ", target.name, "[", indices.name,
                    "[i]] += ", value(target.type, indices.extent, variable), "\n");
    } else {
      body_ += " " + target.name + "[i] = " + assigned(target, variable) + "\n";
    }
    written_ = before;
    if (is_new) {
      written_.push_back(number);
    }
  }
  void straight(std::uint64_t statements) {
    const bool is_hint = statements > 1 && random_.chance(4);
    body_ += is_hint ? " @group {\n" : "";
    for (std::uint64_t i = 0; i < statements; ++i) {
      const auto again = random_.chance(3) ? pick({Use::kValue}) : std::nullopt;
      write(again ? *again : declare(), "");
    }
    body_ += is_hint ? " }\n" : "";
  }
  void block(int number) {
    constexpr std::uint64_t kRounds[] = {1, 2, 3, 5};
    const std::string variable = "r" + std::to_string(number);
    const std::uint64_t rounds = kRounds[random_.below(4)];
    const std::uint64_t statements = 2 + random_.below(5);
    // Temporaries of the block that the next round reads: written before the block, too.
    std::vector<std::size_t> carried;
    for (std::uint64_t i = 0, count = 1 + random_.below(2); i < count; ++i) {
      carried.push_back(declare());
      write(carried.back(), "");
    }
    std::vector<std::size_t> own;
    for (std::uint64_t i = 0; i < statements; ++i) {
      own.push_back(declare());
    }
    body_ += " repeat " + variable + " in 0.." + std::to_string(rounds) + " {\n";
    for (const std::size_t one : own) {
      write(one, variable);
      if (random_.chance(3)) {
        write(carried[random_.below(carried.size())], variable);
      }
    }
    write(carried[0], variable);
    body_ += " }\n";
  }
  // The last values of several temporaries, including old ones; each temporary in the way that it is read.
  void show() {
    for (int i = 0; i < 5; ++i) {
      const Temporary& one = temporaries_[written_[random_.below(written_.size())]];
      const std::string name = "y" + std::to_string(i);
      const bool is_scatter = one.use == Use::kScatter;
      const std::string type = one.use == Use::kValue ? one.type : "i32";
      tensors_ += text(" arg ", name, " : ", type, "[", is_scatter ? 64 : one.extent, "] ",
                       is_scatter ? "inout" : "out", "\n");
      const std::string value = one.use == Use::kIndex       ? text("(x[", one.name, "[i]] else 5)")
                                : one.use == Use::kCondition ? text("select(", one.name, "[i], x[i], 3)")
                                : one.use == Use::kTotal
                                    ? text("sum[k:", one.extent, "] i32(", one.name, "[k]) * x[i]")
                                    : one.name + "[i]";
      body_ += is_scatter ? text(" ", name, "[", one.name, "[i]] += x[i]\n")
                          : text(" ", name, "[i] = ", value, "\n");
    }
  }

  std::uint64_t seed_;
  std::uint64_t number_;
  const std::vector<Type>& types_;
  Random random_;
  std::string tensors_;
  std::string body_;
  std::vector<Temporary> temporaries_;
  std::vector<std::size_t> written_;  // in the order of their first writes
};

}  // namespace

std::vector<Case> lifetime_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::uint64_t kCount = 200;
  const std::vector<Type> types = types_of(type_mask);
  std::vector<Case> all;
  if (std::find(types.begin(), types.end(), Type::kI32) == types.end()) {
    return all;
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    all.push_back(Lifetimes(seed, i, types).made());
  }
  return all;
}

}  // namespace yoke::conformance
