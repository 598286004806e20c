// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/lifetime_programs.cpp: border_programs.h, temporaries whose memory a backend may
// share.
#include <algorithm>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// Writes a program with temporaries of few sizes, so that many could share memory. Some are written before a repeat
// block and read after it, some carry a value from one round to the next, some are read after the last round. Integers
// wrap, so every wrong value shows.
class Lifetimes {
 public:
  Lifetimes(std::uint64_t seed, std::uint64_t number, bool has_i64)
      : seed_(seed), number_(number), has_i64_(has_i64), random_(seed, "lifetimes", number) {}

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
    std::uint64_t extent;
  };

  std::size_t declare() {
    constexpr std::uint64_t kExtents[] = {64, 64, 64, 32, 200, 7, 1};
    const std::string type = has_i64_ && random_.chance(3) ? "i64" : "i32";
    const std::uint64_t extent = kExtents[random_.below(7)];
    const std::string name = "t" + std::to_string(temporaries_.size());
    tensors_ += " temp " + name + " : " + type + "[" + std::to_string(extent) + "]\n";
    temporaries_.push_back({name, type, extent});
    return temporaries_.size() - 1;
  }
  // An element of x or of a temporary, as a value of the type, for a loop i of the extent.
  std::string read(const std::string& type, std::uint64_t extent, const std::string& variable) {
    const bool is_input = written_.empty() || random_.chance(5);
    const Temporary source = is_input ? Temporary{"x", "i32", 200} : temporaries_[pick()];
    std::string index = "i";
    if (source.extent < extent) {
      index = "0";
    } else if (random_.chance(3)) {
      index = "-i + " + std::to_string(source.extent - 1);
    } else if (!variable.empty() && source.extent >= extent + 6 && random_.chance(2)) {
      index = variable + " + i";
    }
    const std::string value = source.name + "[" + index + "]";
    return source.type == type ? value : type + "(" + value + ")";
  }
  // Mostly one of the last ones.
  std::size_t pick() {
    const std::size_t count = written_.size();
    return written_[random_.chance(2) ? count - 1 - random_.below(std::min<std::size_t>(count, 3))
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
  void write(std::size_t number, const std::string& variable) {
    const Temporary target = temporaries_[number];
    // A statement may read only the element of its target that it writes, so it reads other tensors only.
    const std::vector<std::size_t> before = written_;
    std::erase(written_, number);
    body_ += " " + target.name + "[i] = " + value(target.type, target.extent, variable) + "\n";
    written_ = before;
    if (std::find(written_.begin(), written_.end(), number) == written_.end()) {
      written_.push_back(number);
    }
  }
  void straight(std::uint64_t statements) {
    for (std::uint64_t i = 0; i < statements; ++i) {
      if (!written_.empty() && random_.chance(4)) {
        write(pick(), "");
      } else {
        write(declare(), "");
      }
    }
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
  // The last values of several temporaries, including old ones.
  void show() {
    for (int i = 0; i < 4; ++i) {
      const Temporary& one = temporaries_[written_[random_.below(written_.size())]];
      const std::string name = "y" + std::to_string(i);
      tensors_ += " arg " + name + " : " + one.type + "[" + std::to_string(one.extent) + "] out\n";
      body_ += " " + name + "[i] = " + one.name + "[i]\n";
    }
  }

  std::uint64_t seed_;
  std::uint64_t number_;
  bool has_i64_;
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
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Case> all;
  for (std::uint64_t i = 0; has(Type::kI32) && i < kCount; ++i) {
    all.push_back(Lifetimes(seed, i, has(Type::kI64)).made());
  }
  return all;
}

}  // namespace yoke::conformance
