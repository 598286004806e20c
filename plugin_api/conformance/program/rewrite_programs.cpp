// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/rewrite_programs.cpp: border_programs.h, programs of a few tensors in which most
// statements depend on earlier ones: they overwrite what was read, read what was overwritten, and copy in between.
#include <yoke/program/text.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "../check.h"
#include "../random.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// Statements over tensors of n elements, or of n rows and columns, all of one type.
class Rewrites {
 public:
  Rewrites(std::uint64_t seed, std::uint64_t number, Type type, std::uint64_t attempt)
      : seed_(seed),
        number_(number),
        type_(name_of(type)),
        is_float_(program::is_float(type)),
        is_square_(number % 3 == 1),
        is_large_(number % 12 == 11),
        random_(seed, "rewrites", number * 64 + attempt) {
    constexpr std::int64_t kExtents[] = {5, 8, 17, 33, 64, 100, 200};
    constexpr std::int64_t kSides[] = {3, 5, 8, 17, 32, 33, 64};
    n_ = is_large_ ? random_.between(100'000, 131'100) : pick(is_square_ ? kSides : kExtents);
    if (is_large_ && is_square_) {
      n_ = random_.between(250, 330);
    }
  }

  // Throws program::ProgramError if a statement is invalid.
  Case made() {
    for (const char* name : {"u", "v", "w"}) {
      tensors_ += text(" arg ", name, " : ", type_, dims(), name[0] == 'w' ? " in\n" : " inout\n");
    }
    tensors_ += text(" arg p : i32[", n_, "] in  # below ", n_, "\n");
    const std::uint64_t count = is_large_ ? 4 + random_.below(3) : 7 + random_.below(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!is_large_ && random_.chance(6)) {
        body_ += text(" repeat ", "t in ", round_range(), " {\n");
        variable_ = "t";
        const std::vector<std::string> before = written_;
        for (std::uint64_t k = 0, more = 1 + random_.below(3); k < more; ++k) {
          statement();
        }
        written_ = before;  // the first round must not read what a later statement writes
        variable_.clear();
        body_ += " }\n";
      } else {
        statement();
      }
    }
    show();
    for (const std::string name : {"q", "r", "s"}) {
      if (body_.find(" " + name + "[") != std::string::npos) {
        tensors_ += text(" temp ", name, " : ", type_, name == "s" ? "[]" : dims(), "\n");
      }
    }
    Case one = corpus_case(
        text("yoke.program 1\nprogram rewrites", number_, "() {\n", tensors_, body_, "}\n"), seed_);
    one.index = number_;
    return one;
  }

 private:
  template <std::size_t count>
  std::int64_t pick(const std::int64_t (&values)[count]) {
    return values[random_.below(count)];
  }
  std::string round_range() {
    constexpr const char* kRanges[] = {"0..1", "0..2", "0..3", "1..4", "0..5 step 2", "2..9 step 3"};
    return kRanges[random_.below(std::size(kRanges))];
  }
  std::string dims() const { return is_square_ ? text("[", n_, ", ", n_, "]") : text("[", n_, "]"); }
  std::string all() const { return is_square_ ? "[i, j]" : "[i]"; }
  std::string reversed() const {
    return is_square_ ? text("[i, -j + ", n_ - 1, "]") : text("[-i + ", n_ - 1, "]");
  }

  // A tensor that may be read, other than `target`.
  std::string source(const std::string& target) {
    std::vector<std::string> sources = {"u", "v", "w"};
    sources.insert(sources.end(), written_.begin(), written_.end());
    std::erase(sources, target);
    return sources[random_.below(sources.size())];
  }
  // A tensor to write. Temporaries are first written as a whole.
  std::string target(bool is_whole) {
    std::vector<std::string> targets = {"u", "v"};
    if (is_whole) {
      targets.insert(targets.end(), {"q", "r"});
    } else {
      std::copy_if(written_.begin(), written_.end(), std::back_inserter(targets),
                   [](const std::string& name) { return !name.starts_with("c"); });
    }
    return targets[random_.below(targets.size())];
  }
  void line(const std::string& statement) { body_ += " " + statement + "\n"; }
  void wrote(const std::string& name) {
    if (std::find(written_.begin(), written_.end(), name) == written_.end() && name != "u" && name != "v") {
      written_.push_back(name);
    }
  }
  std::string number() { return std::to_string(1 + random_.below(5)); }
  // Keeps floats small, so that they stay exact.
  std::string bounded(const std::string& value) {
    return is_float_ ? "max(min(" + value + ", 9), -9)" : value;
  }
  std::string turn() { return variable_.empty() ? "1" : text(type_, "(", variable_, ")"); }

  void statement() {
    switch (random_.below(is_square_ ? 12 : 11)) {
      case 0:
      case 1:
        return copy();
      case 2:
      case 3:
        return is_square_ ? square_part() : part();
      case 4:
        return fill();
      case 5:
        return map();
      case 6:
        return update();
      case 7:
        return total();
      case 8:
        return is_square_ ? row() : moved();
      case 9:
        return is_square_ ? transposed() : indexed();
      case 10:
        return is_square_ ? row() : element();
      default:
        return product();
    }
  }
  // Half of the copies go to a temporary that no other statement writes.
  void copy() {
    std::string to = target(true);
    if (variable_.empty() && random_.chance(2)) {
      to = text("c", copies_++);
      tensors_ += text(" temp ", to, " : ", type_, dims(), "\n");
    }
    line(text(to, all(), " = ", source(to), random_.chance(4) ? reversed() : all()));
    wrote(to);
  }
  // Some of the elements, at their own places or at others.
  void part() {
    const std::string to = target(false);
    const std::int64_t count = random_.between(1, n_);
    const std::int64_t there = random_.chance(2) ? 0 : random_.between(0, n_ - count);
    const std::int64_t here = random_.chance(2) ? there : random_.between(0, n_ - count);
    const std::string value = random_.chance(4) ? turn() : text(source(to), "[i + ", here, "]");
    line(text(to, "[i + ", there, "] for[i:", count, "] = ", value));
  }
  void square_part() {
    const std::string to = target(false);
    const std::int64_t rows = random_.between(1, n_);
    const std::int64_t columns = random_.chance(2) ? n_ : random_.between(1, n_);
    const std::int64_t row = random_.chance(2) ? 0 : random_.between(0, n_ - rows);
    const std::int64_t column = random_.chance(2) ? 0 : random_.between(0, n_ - columns);
    const std::string from = source(to);
    const bool is_same = random_.chance(2);
    line(text(to, "[i + ", row, ", j + ", column, "] for[i:", rows, ", j:", columns, "] = ", from, "[i + ",
              is_same ? row : 0, ", j + ", is_same ? column : 0, "]"));
  }
  void fill() {
    const bool is_whole = random_.chance(2);
    const std::string to = target(is_whole);
    const std::int64_t count = random_.between(1, n_);
    line(is_whole     ? text(to, all(), " = ", number())
         : is_square_ ? text(to, "[i, j] for[i:", count, ", j:", n_, "] = ", number())
                      : text(to, "[i] for[i:", count, "] = ", number()));
    if (is_whole) {
      wrote(to);
    }
  }
  void map() {
    const std::string to = target(true);
    const bool is_written =
        to == "u" || to == "v" || std::find(written_.begin(), written_.end(), to) != written_.end();
    const std::string first = is_written && random_.chance(2) ? to : source(to);
    line(text(to, all(), " = ",
              bounded(text(first, all(), " * 2 - ", source(to), reversed(), " + ", turn()))));
    wrote(to);
  }
  void update() {
    const std::string to = target(false);
    constexpr const char* kAssigns[] = {"+=", "max=", "min="};
    line(text(to, all(), " ", kAssigns[random_.below(3)], " ", source(to),
              random_.chance(2) ? all() : reversed()));
  }
  // A sum or an extreme of a tensor, and a statement that uses it.
  void total() {
    const std::string from = source("");
    line(text("s[] = ", is_float_ || random_.chance(2) ? "max" : "sum", is_square_ ? "[i, j] " : "[i] ", from,
              all()));
    const std::string to = target(true);
    line(text(to, all(), " = ", source(to), all(), " - s[]"));
    wrote(to);
  }
  // Elements that the statement does not write move to others of the same tensor.
  void moved() {
    const std::string to = target(false);
    const std::int64_t count = n_ / 2;
    line(random_.chance(2)
             ? text(to, "[i] for[i:", count, "] = ", to, "[i + ", count, "]")
             : text(to, "[i + ", count, "] for[i:", count, "] = ", to, "[-i + ", count - 1, "]"));
  }
  void indexed() {
    // A backend may search all indices for each element of a scatter's target, so large ones would take too long.
    if (is_large_ || random_.chance(2)) {
      const std::string to = target(true);
      line(text(to, "[i] = (", source(to), "[p[i]] else 2)"));
      wrote(to);
      return;
    }
    const std::string to = target(false);
    line(text(to, "[p[i]] ", random_.chance(2) ? "max= " : "min= ", source(to), "[i]"));
  }
  void element() {
    const std::string to = target(false);
    const std::int64_t most = std::min<std::int64_t>(n_, 9) - 1;
    const std::string at =
        variable_.empty() || n_ < 10 ? std::to_string(random_.between(0, most)) : variable_;
    line(text(to, "[", at, "] = ", source(to), "[", random_.between(0, most), "]"));
  }
  void row() {
    const std::string to = target(false);
    const std::int64_t at = random_.between(0, n_ - 1);
    const std::int64_t from = random_.between(0, n_ - 1);
    line(random_.chance(2) ? text(to, "[", at, ", j] = ", source(to), "[", from, ", j]")
                           : text(to, "[i, ", at, "] = ", source(to), "[", from, ", i]"));
  }
  void transposed() {
    const std::string to = target(true);
    line(text(to, "[i, j] = ", source(to), "[j, i]"));
    wrote(to);
  }
  void product() {
    const std::string to = target(true);
    const std::string first = source(to);
    const bool adds = std::find(written_.begin(), written_.end(), to) != written_.end() && random_.chance(2);
    line(text(to, "[i, j] ", adds ? "+=" : "=", " sum[k] ", first, "[i, k] * ", source(to),
              random_.chance(2) ? "[k, j]" : "[j, k]"));
    wrote(to);
    line(text(to, all(), " = ", bounded(text(to, all()))));
  }
  // The temporaries at the end, and the copies of earlier contents.
  void show() {
    const std::vector<std::string> shown = written_;
    for (const std::string& name : shown) {
      tensors_ += text(" arg y", name, " : ", type_, dims(), " out\n");
      line(text("y", name, all(), " = ", name, all()));
    }
    if (random_.chance(2)) {
      fill();
    }
  }

  std::uint64_t seed_;
  std::uint64_t number_;
  std::string type_;
  bool is_float_;
  bool is_square_;
  bool is_large_;
  Random random_;
  std::int64_t n_ = 0;
  int copies_ = 0;
  std::string tensors_;
  std::string body_;
  std::string variable_;              // of the repeat block around the statement
  std::vector<std::string> written_;  // temporaries
};

}  // namespace

std::vector<Case> rewrite_programs(std::uint64_t seed, std::uint64_t type_mask) {
  constexpr std::uint64_t kCount = 240;
  constexpr std::uint64_t kAttempts = 64;
  std::vector<Type> used;
  for (const Type type : types_of(type_mask)) {
    if (type == Type::kF32 || type == Type::kI32 || type == Type::kF64 || type == Type::kI64) {
      used.push_back(type);
    }
  }
  std::vector<Case> all;
  for (std::uint64_t number = 0; number < kCount && !used.empty(); ++number) {
    for (std::uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
      try {
        all.push_back(Rewrites(seed, number, used[(number / 3 + seed) % used.size()], attempt).made());
        break;
      } catch (const program::ProgramError&) {
        // The block reads a tensor that only its later rounds write.
      }
    }
  }
  return all;
}

}  // namespace yoke::conformance
