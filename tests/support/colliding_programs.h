// SPDX-License-Identifier: Apache-2.0
// tests/support/colliding_programs.h: random programs of few shapes and few forms of statements, so that
// statements that look equal, share operands, overwrite each other's inputs, or read and write shifted parts
// of one tensor are frequent: what an optimizer must not merge, fuse, reorder or run at once.
#pragma once

#include <yoke/program/text.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::test {

class CollidingProgram {
 public:
  // Matrices have `extent` rows and columns, vectors `extent` elements; at least 4.
  CollidingProgram(std::uint64_t seed, std::uint64_t extent) : random_(seed), extent_(extent) {}

  // A valid program of at most 12 statements and groups, which depends only on the seed and the extent.
  std::string text() {
    const std::uint64_t count = 4 + random_() % 9;
    std::uint64_t size = 0;
    for (std::uint64_t tries = 0; tries < 4 * count && size < count; ++tries) {
      const std::string before = body_;
      body_ += expanded(random_() % 5 == 0 ? "group" : "statement") + "\n";
      if (is_valid()) {
        ++size;
      } else {
        body_ = before;
      }
    }
    return whole();
  }

 private:
  using Rules = std::map<std::string, std::vector<std::string_view>, std::less<>>;

  // In an alternative, <name> stands for one of a rule's alternatives, $ for the extent, # for the extent less
  // one, and % for half of it. What does not fit, such as r outside repeat blocks, is rejected as invalid.
  static const Rules& rules() {
    static const Rules all = {
        {"group",
         {"@layer {\n<statement>\n<statement>\n}", "@fused[i] {\n<statement>\n<statement>\n}",
          "@fused[i, j] {\n<statement>\n<statement>\n<statement>\n}",
          "repeat r in 0..3 {\n<statement>\n<statement>\n}",
          "repeat r in 0..3 {\n<statement>\n<statement>\n<statement>\n}"}},
        {"statement",
         {"<matrix>[i, j]<set><value>", "<matrix>[i, j]<set><value>", "<matrix>[i, j]<set><value>",
          "<matrix>[i, j]<set><value>", "<vector>[i]<set><element>", "<vector>[i]<set><fold>[j] <value>",
          "<vector>[i]<set><fold>[j:#] <value>", "<matrix>[i, j]<set><fold>[l] <left> * <right>",
          "<matrix><part><set><term>", "p[<index>[i], j] += <term>", "v[<index>[i]] += <number>",
          "n[i] = <position>", "z[]<set><fold>[i, j] <term>"}},
        {"set", {" = ", " = ", " = ", " = ", " += ", " max= "}},
        {"fold", {"sum", "sum", "max", "min"}},
        {"matrix", {"p", "q", "s", "t", "u", "t", "u"}},
        {"vector", {"v", "w", "x"}},
        {"index", {"k", "n"}},
        {"any", {"a", "b", "p", "q", "s", "t", "u", "t", "u"}},
        {"left", {"a[i, l]", "b[i, l]", "p[i, l]", "t[i, l]", "t[l, i]"}},
        {"right", {"b[l, j]", "b[j, l]", "q[l, j]", "a[i, l]", "s[l, j]"}},
        {"part",
         {"[i + %, j] for[i:%, j:$]", "[i, j] for[i:%, j:$]", "[-i + #, j]", "[0, j]", "[j, i]", "[r, j]",
          "[r + 1, j]", "[row + i, j] for[i:2, j:$]", "[i, j + 1] for[i:$, j:#]"}},
        {"position", {"k[i]", "k[-i + #]", "k[i] + 1", "i32(v[i])"}},
        {"value",
         {"exp(<term>)", "max(<term>, <leaf>)", "<term> + <leaf>", "<leaf> * <term>", "<leaf> - <term>",
          "<term>"}},
        {"term",
         {"<leaf>", "<leaf>", "-<leaf>", "<leaf> + <leaf>", "<leaf> * <leaf>", "abs(<leaf>) + 0.0",
          "(<leaf> * <shifted> else 2.0)", "<leaf> - <number>"}},
        {"shifted", {"b[i + 1, i]", "a[i, i + 1]", "v[i + 1]", "w[i + 1]", "t[i + 1, j]"}},
        {"leaf",
         {"<any>[i, j]", "<any>[i, j]", "<any>[i, j]", "<any>[i, j]", "<any>[i, j]", "<any>[j, i]",
          "<any><at>", "(<any><outside> else <number>)", "(<any>[<index>[i], j] else 1.0)", "<number>",
          "<any>[r, j]"}},
        {"at", {"[i, -j + #]", "[0, j]", "[i, 1]", "[row, j]", "[-i + #, j]", "[r + 1, j]"}},
        {"outside", {"[i + 1, j]", "[i, j - 1]", "[i, (j) / 2]", "[(i + 1) / 2, j]", "[row + i, j]"}},
        {"element",
         {"<number> + <number>", "<number> * <number>", "exp(<number>)", "-<number>", "max(<number>, 0.0)"}},
        {"number",
         {"v[i]", "w[i]", "x[i]", "v[-i + #]", "v[j]", "z[]", "2.0", "1.0", "0.0", "-1.0", "f32(i)",
          "(w[i + 1] else 0)", "(v[k[i]] else 1.0)", "(x[n[i]] else 0)", "a[i, i]", "b[0, i]", "p[r, i]"}}};
    return all;
  }

  std::string expanded(std::string_view name) {
    const std::vector<std::string_view>& choices = rules().find(name)->second;
    const std::string_view choice = choices[random_() % choices.size()];
    std::string text;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      const char c = choice[i];
      const std::size_t end = c == '<' ? choice.find('>', i) : std::string_view::npos;
      if (end != std::string_view::npos) {
        text += expanded(choice.substr(i + 1, end - i - 1));
        i = end;
      } else {
        text += c == '$'   ? std::to_string(extent_)
                : c == '#' ? std::to_string(extent_ - 1)
                : c == '%' ? std::to_string(extent_ / 2)
                           : std::string(1, c);
      }
    }
    return text;
  }

  std::string whole() const {
    const std::string extent = std::to_string(extent_);
    const std::string vector = " : f32[" + extent + "] ";
    const std::string matrix = " : f32[" + extent + ", " + extent + "] ";
    std::string text = "yoke.program 1\nprogram p(symbol row in 0..3) {\n";
    text += "arg a" + matrix + "in\narg b" + matrix + "in\n";
    text += "arg k : i32[" + extent + "] in  # below " + extent + "\n";
    text +=
        "arg p" + matrix + "inout\narg q" + matrix + "inout\narg v" + vector + "inout\narg z : f32[] inout\n";
    text += "temp s" + matrix + "\ntemp t" + matrix + "\ntemp u" + matrix + "\n";
    text += "temp w" + vector + "\ntemp x" + vector + "\ntemp n : i32[" + extent + "]\n";
    return text + body_ + "}\n";
  }

  bool is_valid() const {
    try {
      (void)program::parse_and_verify(whole());
      return true;
    } catch (const program::ProgramError&) {
      return false;
    }
  }

  std::mt19937_64 random_;
  std::uint64_t extent_;
  std::string body_;
};

}  // namespace yoke::test
