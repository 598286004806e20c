// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/collision_test.cpp: small random programs give the same bits before and after every pass.
// All tensors have few shapes, and statements few forms, so that statements that look equal, share operands,
// overwrite each other's inputs or read parts of them are frequent: what the passes must not merge, fuse or
// reorder.
#include <yoke/program/text.h>

#include <random>
#include <string>
#include <vector>

#include "../../support/rounds.h"
#include "corpus.h"
#include "pass_text.h"
#include "results.h"

namespace yoke::passes {
namespace {

class Writer {
 public:
  explicit Writer(std::uint64_t index) : random_(index) {}

  // A valid program: statements that the verifier rejects are dropped.
  std::string text() {
    const std::uint64_t count = 4 + below(9);
    for (std::uint64_t tries = 0; tries < 4 * count && size_ < count; ++tries) {
      const std::string before = body_;
      body_ += below(8) == 0 ? group() : statement("") + "\n";
      if (is_valid()) {
        ++size_;
      } else {
        body_ = before;
      }
    }
    return whole();
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  template <std::size_t kCount>
  std::string one_of(const char* const (&choices)[kCount]) {
    return choices[below(kCount)];
  }

  std::string whole() const {
    return "yoke.program 1\nprogram p(symbol row in 0..3) {\n"
           "arg a : f32[4, 4] in\narg b : f32[4, 4] in\narg k : i32[4] in  # below 4\narg p : f32[4, 4] "
           "inout\n"
           "arg q : f32[4, 4] inout\narg v : f32[4] inout\narg z : f32[] inout\ntemp s : f32[4, 4]\n"
           "temp t : f32[4, 4]\ntemp u : f32[4, 4]\ntemp w : f32[4]\ntemp x : f32[4]\ntemp n : i32[4]\n" +
           body_ + "}\n";
  }

  bool is_valid() const {
    try {
      (void)program::parse_and_verify(whole());
      return true;
    } catch (const program::ProgramError&) {
      return false;
    }
  }

  // Statements of a hint or of a repeat block with the variable r.
  std::string group() {
    const std::uint64_t kind = below(4);
    std::string text = kind == 0 ? "@layer {\n" : kind == 1 ? "@fused[i] {\n" : "repeat r in 0..3 {\n";
    const std::uint64_t count = 1 + below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      text += statement(kind > 1 ? "r" : "") + "\n";
    }
    return text + "}\n";
  }

  std::string statement(const std::string& round) {
    round_ = round;
    const std::string assign = one_of({" = ", " = ", " = ", " = ", " = ", " += ", " max= "});
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return matrix_name() + "[i, j]" + assign + value(2, true);
      case 4:
        return one_of({"v", "w", "x"}) + "[i]" + assign + value(2, false);
      case 5:
      case 6:
        return one_of({"v", "w", "x"}) + "[i]" + assign + one_of({"sum", "max"}) +
               one_of({"[j] ", "[j:3] "}) + value(2, true);
      case 7:
        return matrix_name() + "[i, j]" + assign + one_of({"sum", "max", "min"}) + "[l] " +
               one_of({"a", "b", "p", "t"}) + "[i, l] * " +
               one_of({"b[l, j]", "b[j, l]", "q[l, j]", "a[i, l]", "s[l, j]"});
      case 8:  // a part
        return matrix_name() +
               one_of({"[i + 2, j] for[i:2, j:4]", "[i, j] for[i:2, j:4]", "[-i + 3, j]", "[0, j]", "[j, i]",
                       "[row + i, j] for[i:2, j:4]", "[i, j + 1] for[i:4, j:3]"}) +
               assign + value(1, true);
      case 9:  // a scatter
        return one_of({"p", "q", "v"}) == "v" ? "v[" + indices_name() + "[i]] += " + value(1, false)
                                              : "p[" + indices_name() + "[i], j] += " + value(1, true);
      case 10:
        return "n[i] = " + one_of({"k[i]", "k[-i + 3]", "k[i] + 1", "i32(v[i])"});
      default:
        return "z[]" + assign + one_of({"sum[i, j] ", "max[i, j] "}) + value(1, true);
    }
  }

  std::string matrix_name() { return one_of({"p", "q", "s", "t", "u", "t", "u"}); }
  std::string indices_name() { return one_of({"k", "n"}); }

  std::string leaf(bool is_matrix) {
    if (!round_.empty() && below(4) == 0) {
      return one_of({"a", "b", "p", "t"}) + one_of({"[r, i]", "[r + 1, i]"});
    }
    if (!is_matrix || below(6) == 0) {
      return one_of({"v[i]", "w[i]", "x[i]", "v[-i + 3]", "z[]", "2.0", "1.0", "0.0", "-1.0", "f32(i)",
                     "(w[i + 1] else 0)", "(v[k[i]] else 1.0)", "(x[n[i]] else 0)", "a[i, i]", "b[0, i]"});
    }
    const std::string name = one_of({"a", "b", "p", "q", "s", "t", "u", "t", "u"});
    switch (below(12)) {
      case 0:
        return name + "[j, i]";
      case 1:
        return name + one_of({"[i, -j + 3]", "[0, j]", "[i, 1]", "[row, j]", "[-i + 3, j]"});
      case 2:
        return "(" + name +
               one_of({"[i + 1, j]", "[i, j - 1]", "[i, (j) / 2]", "[(i + 1) / 2, j]", "[row + i, j]"}) +
               " else " + one_of({"0)", "1.0)", "inf)"});
      case 3:
        return "(" + name + "[" + indices_name() + "[" + one_of({"i", "j", "row"}) + "], j] else " +
               one_of({"0)", "1.0)"});
      default:
        return name + "[i, j]";
    }
  }

  std::string value(int depth, bool is_matrix) {
    if (depth == 0 || below(5) == 0) {
      return leaf(is_matrix);
    }
    switch (below(9)) {
      case 0:
        return "exp(" + value(depth - 1, is_matrix) + ")";
      case 1:
        return "-" + leaf(is_matrix);
      case 2:
        return "max(" + value(depth - 1, is_matrix) + ", " + leaf(is_matrix) + ")";
      case 3:
        return "(" + leaf(is_matrix) + " * " +
               one_of({"b[i + 1, i]", "a[i, i + 1]", "v[i + 1]", "w[i + 1]"}) + " else 2.0)";
      case 4:
        return "abs(" + leaf(is_matrix) + ") + 0.0";
      default:
        return leaf(is_matrix) + one_of({" + ", " * ", " - "}) + value(depth - 1, is_matrix);
    }
  }

  std::mt19937_64 random_;
  std::string body_;
  std::uint64_t size_ = 0;
  std::string round_;
};

TEST(Collisions, KeepTheirResultsInEveryPass) {
  constexpr Function kPasses[] = {
      remove_dead_statements, fold_constants, eliminate_common, fuse, schedule, share,
      form_regions,           optimized};
  std::uint64_t changed[std::size(kPasses)] = {};
  const std::uint64_t count = test::rounds(1000);
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::string text = Writer(index).text();
    const conformance::Case one = conformance::corpus_case(text, index);
    std::vector<conformance::Contents> expected;
    for (const auto& symbols : one.launches) {
      expected.push_back(results_of(one, one.program, symbols));
    }
    for (std::size_t pass = 0; pass < std::size(kPasses); ++pass) {
      SCOPED_TRACE("program " + std::to_string(index) + ", pass " + std::to_string(pass));
      program::Program after;
      ASSERT_NO_THROW(after = kPasses[pass](one.program)) << text;
      const std::string after_text = program::print(after);
      if (after_text == program::print(one.program)) {
        continue;
      }
      ++changed[pass];
      for (std::size_t i = 0; i < one.launches.size(); ++i) {
        ASSERT_EQ(results_of(one, after, one.launches[i]), expected[i]) << text << "became\n" << after_text;
      }
    }
  }
  for (const std::uint64_t one : changed) {
    EXPECT_GT(one, count / 50) << "a pass hardly ever changes a program";
  }
}

}  // namespace
}  // namespace yoke::passes
