// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/random_program_test.cpp: random valid programs, on cc and on the reference executor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "harness.h"

namespace yoke::cc::test {
namespace {

// Writes programs of statements over small tensors. Values stay within a few units, whatever the operations.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string text() {
    const char* types[] = {"f32", "f32", "f32", "f64", "f16", "bf16", "i32", "i64"};
    type_ = types[pick(8)];
    is_float_ = type_[0] == 'f' || type_[0] == 'b';
    is_half_ = type_ == "f16" || type_ == "bf16";
    extents_ = {1 + pick(40), 1 + pick(40), 1 + pick(9)};
    if (pick(3) == 0) {
      extents_[pick(2)] = 200 + pick(500);
    }
    declare("arg", "in", 3, "x");
    std::ostringstream body;
    const std::size_t count = 2 + pick(7);
    for (std::size_t i = 0; i < count; ++i) {
      body << "  " << statement(i) << "\n";
    }
    std::ostringstream out;
    out << "yoke.program 1\nprogram random(symbol base in 0..3, symbol other in 2..12 step 5) {\n"
        << declarations_.str() << "  arg id : i64[" << extents_[0] << "] in\n  arg out_id : i32["
        << extents_[1] << "] in\n"
        << body.str() << "}\n";
    return out.str();
  }

 private:
  struct Known {
    std::string name;
    std::vector<int> axes;  // which extents its dimensions have
    bool padded = false;    // its first dimension is 2 longer: read at [i + base]
  };

  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool chance(std::size_t percent) { return pick(100) < percent; }

  std::string dims(const Known& tensor) const {
    std::string text = "[";
    for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
      const std::size_t extent =
          extents_[static_cast<std::size_t>(tensor.axes[i])] + (tensor.padded && i == 0 ? 2 : 0);
      text += (i == 0 ? "" : ", ") + std::to_string(extent);
    }
    return text + "]";
  }

  std::vector<int> some_axes() {
    std::vector<int> axes = {0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), random_);
    axes.resize(pick(4));
    return axes;
  }

  void declare(const std::string& kind, const std::string& role, std::size_t count,
               const std::string& prefix) {
    for (std::size_t i = 0; i < count; ++i) {
      Known tensor{prefix + std::to_string(i), i == 0 ? std::vector<int>{0, 1} : some_axes(), false};
      tensor.padded = !tensor.axes.empty() && chance(30);
      declarations_ << "  " << kind << " " << tensor.name << " : " << type_ << dims(tensor) << " " << role
                    << "\n";
      known_.push_back(tensor);
    }
  }

  static std::string loop(int axis) { return std::string(1, static_cast<char>('i' + axis)); }

  // A read whose loops are all in `axes`.
  std::string read(const std::vector<int>& axes) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const Known& tensor = known_[pick(known_.size())];
      const bool fits = std::all_of(tensor.axes.begin(), tensor.axes.end(), [&](int axis) {
        return std::find(axes.begin(), axes.end(), axis) != axes.end();
      });
      if (!fits) {
        continue;
      }
      std::string text = tensor.name + "[";
      bool checked = false;
      for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
        std::string index = loop(tensor.axes[i]);
        const std::string axis = index;
        if (tensor.padded && i == 0) {
          index += chance(50) ? " + base" : " + 1";
        } else if (chance(8)) {
          const char* forms[] = {" - 1", " + 2", " + base", " - other"};
          index += forms[pick(4)];
          checked = true;
        } else if (chance(6)) {
          index = "2*" + index + " - 3";
          checked = true;
        } else if (chance(6)) {
          index = std::to_string(extents_[static_cast<std::size_t>(tensor.axes[i])] - 1) + " - " + index;
        } else if (chance(8) && tensor.axes[i] == 0) {
          index = "id[" + index + "]";
          checked = true;
        }
        text += (i == 0 ? "" : ", ") + index;
      }
      text += "]";
      return checked ? "(" + text + " else " + std::to_string(pick(3)) + ")" : text;
    }
    return is_float_ ? "0.5" : "2";
  }

  std::string leaf(const std::vector<int>& axes) {
    if (chance(75) || axes.empty()) {
      return read(axes);
    }
    if (chance(50)) {
      return type_ + "(" + loop(axes[pick(axes.size())]) + " % 3)";
    }
    return type_ + "(" + (is_float_ ? "0.25" : "3") + ")";
  }

  std::string expression(const std::vector<int>& axes, int depth) {
    if (depth == 0 || chance(15)) {
      return leaf(axes);
    }
    const auto sub = [&] { return expression(axes, depth - 1); };
    if (is_float_ && chance(25)) {
      const char* functions[] = {"tanh", "sigmoid", "sin", "abs", "floor", "erf", "sign"};
      return std::string(functions[pick(7)]) + "(" + sub() + ")";
    }
    switch (pick(is_float_ ? 7 : 9)) {
      case 0:
        return "(" + sub() + " + " + sub() + ")";
      case 1:
        return "(" + sub() + " - " + sub() + ")";
      case 2:
        return "min(" + sub() + ", " + sub() + ")";
      case 3:
        return "max(" + sub() + ", " + sub() + ")";
      case 4:
        return "select(" + sub() + " < " + sub() + ", " + sub() + ", " + leaf(axes) + ")";
      case 5:
        return "(" + leaf(axes) + " * " + (is_float_ ? "0.5" : "3") + " + " + sub() + ")";
      case 6:
        return "(" + sub() + " * " + (is_float_ ? "0.25" : "2") + ")";
      case 7:
        return "(" + sub() + " / " + leaf(axes) + ")";
      default:
        return "(" + sub() + " ^ " + leaf(axes) + ")";
    }
  }

  std::string target_text(const Known& tensor) const {
    std::string text = tensor.name + "[";
    for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
      text += (i == 0 ? "" : ", ") + loop(tensor.axes[i]);
    }
    return text + "]";
  }

  std::string statement(std::size_t number) {
    // Another value for a tensor that has one: in place, elementwise.
    const bool again = chance(25) && !written_.empty();
    Known target =
        again ? written_[pick(written_.size())] : Known{"y" + std::to_string(number), some_axes(), false};
    if (!again) {
      declarations_ << (chance(50) ? "  temp " : "  arg ") << target.name << " : " << type_ << dims(target);
      const std::string so_far = declarations_.str();
      declarations_ << (so_far.rfind("  temp ") > so_far.rfind("  arg ") &&
                                so_far.rfind("  temp ") != std::string::npos
                            ? "\n"
                            : " out\n");
    }
    const auto had =
        std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.name == target.name; });
    if (had != known_.end()) {
      known_.erase(had);  // a statement does not read other elements of its target
    }
    std::vector<int> rest;
    for (int axis = 0; axis < 3; ++axis) {
      if (std::find(target.axes.begin(), target.axes.end(), axis) == target.axes.end()) {
        rest.push_back(axis);
      }
    }
    std::string text = target_text(target);
    const std::size_t kind = pick(10);
    if (kind < 4 && !rest.empty()) {
      text += (again ? std::string(" += ") : std::string(" = ")) + reduction(target, rest);
    } else {
      std::string value = expression(target.axes, 3);
      if (again && chance(60)) {
        value = "(" + target_text(target) + " - " + value + ")";
      }
      text += (again && chance(30) ? " max= " : " = ") + value;
    }
    known_.push_back(target);
    if (!again) {
      written_.push_back(target);
    }
    if (!again && target.axes == std::vector<int>{0} && chance(60)) {
      text += "\n  " + target.name + "[out_id[" + loop(1) + "]] += " + expression({1}, 1);
    }
    return text;
  }

  std::string reduction(const Known& target, std::vector<int> rest) {
    std::shuffle(rest.begin(), rest.end(), random_);
    rest.resize(1 + pick(rest.size()));
    std::vector<int> axes = target.axes;
    std::string loops;
    for (const int axis : rest) {
      axes.push_back(axis);
      loops += (loops.empty() ? "" : ", ") + loop(axis) + ":" +
               std::to_string(extents_[static_cast<std::size_t>(axis)]);
    }
    const char* names[] = {"sum", "max", "min"};
    const std::string name = names[pick(3)];
    std::string value = expression(axes, 2);
    if (name == "sum" && is_float_ && !is_half_) {
      value = chance(50) ? read(axes) + " * " + read(axes) : value;
      value = "(" + value + ") * 0.01";
    }
    std::size_t terms = 1;
    for (const int axis : rest) {
      terms *= extents_[static_cast<std::size_t>(axis)];
    }
    // Products of a library's kind; few terms, so that what is computed from the sum later stays well
    // conditioned.
    if (chance(40) && name == "sum" && !is_half_ && terms < 100) {
      value = read(axes) + " * " + read(axes);
    }
    return name + (is_half_ ? ":f32[" : "[") + loops + "] " + value;
  }

  std::mt19937_64 random_;
  std::string type_;
  bool is_float_ = true;
  bool is_half_ = false;
  std::vector<std::size_t> extents_;
  std::ostringstream declarations_;
  std::vector<Known> known_;
  std::vector<Known> written_;
};

TEST(RandomProgramTest, ProgramsOfEveryKindAgreeWithTheReference) {
  const char* wanted = std::getenv("YOKE_CC_RANDOM_PROGRAMS");
  const std::uint64_t count = wanted == nullptr ? 300 : std::strtoull(wanted, nullptr, 10);
  std::uint64_t valid = 0;
  std::string last_reason;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const std::string text = Generator(seed).text();
    program::Program program;
    try {
      program = read(text);
    } catch (const program::ProgramError& error) {
      last_reason = std::string(error.what()) + "\n" + text;
      continue;
    }
    ++valid;
    Rules rules;
    rules.integer_low = -2;
    rules.integer_high = 12;
    // Chains of at most 9 statements of values of some units. The reference adds up to 60,000 terms one after
    // the other in f32, each rounded by half an ulp of the sum.
    const bool half = text.find(" f16") != std::string::npos || text.find("bf16") != std::string::npos;
    rules.absolute = half ? 0.5 : 2e-3;
    rules.ulp = half ? 16 : text.find(" f32") != std::string::npos ? 30000 : 4096;
    rules.threads = seed % 4 == 0 ? 2 : 1;
    const std::vector<const KernelTable*> tables = all_tables();
    SCOPED_TRACE(text);
    expect_like_reference(program, seed, rules, {tables[seed % tables.size()]},
                          {static_cast<std::int64_t>(seed % 3), seed % 2 == 0 ? 2 : 7});
    if (HasFailure()) {
      return;
    }
  }
  EXPECT_GT(valid, count / 2) << "most random programs are refused, the last one because of " << last_reason;
}

}  // namespace
}  // namespace yoke::cc::test
