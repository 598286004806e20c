// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/limit_programs.cpp: border_programs.h, reads around both ends, names, deep and wide
// programs.
#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <string_view>

#include "../check.h"
#include "border_programs.h"
#include "borders.h"
#include "corpus.h"

namespace yoke::conformance {

using program::Type;

namespace {

// "2*i - 3"
std::string affine(int coefficient, const std::string& loop, int offset) {
  const std::string term = coefficient == 1    ? loop
                           : coefficient == -1 ? "-" + loop
                                               : std::to_string(coefficient) + "*" + loop;
  return offset == 0 ? term : term + (offset < 0 ? " - " : " + ") + std::to_string(std::abs(offset));
}

// Statements y[i] = (x[...] else 7).
class Guards {
 public:
  Guards(std::uint64_t seed, Type type, const std::string& extent)
      : type_(type), batches_(seed, "guards_" + name_of(type) + "_" + extent, [=](ProgramText& text) {
          const Data plain{DataKind::kDyadic, 1, -1};
          text.input("x", type, extent, plain);
          text.input("w", type, "4", plain);
          text.input("v", type, "3, " + extent, plain);
        }) {}

  void add(const std::string& value) {
    ProgramText& text = batches_.next();
    text.output(type_, "11", "i", value, text.outputs() % 5 == 4 ? "+=" : "=");
  }
  std::vector<Case> made() { return batches_.made(); }

 private:
  Type type_;
  Batches batches_;
};

constexpr std::string_view kNested[] = {"((x[i - 1] else 2) + x[i - 3] else 3)",
                                        "(x[i - 2] * (x[i - 5] else 5) else 6)",
                                        "(x[-i + 4] + x[i - 1] else 1)",
                                        "max((x[i + 2] else 1), (x[-i] else 2))",
                                        "(v[1, i] - v[i - 1, 0] else 4)",
                                        "(v[i - 1, i - 2] else 4)",
                                        "(v[-i + 2, -i + 3] else 1)",
                                        "(v[(i - 1) / 3, (i + 1) / 2] else 4)",
                                        "sum[k] (x[i + k - 2] * w[k] else 0)",
                                        "sum[k] (x[-i + k + 3] * w[k] else 1)",
                                        "max[k:3] (x[2*i + k - 2] else 0)",
                                        "sum[k:3] (x[(i + k - 2) / 2] * w[k] else 0)",
                                        "sum[j:3, k] (v[j, i + k - 1] * w[k] else 0)",
                                        "(w[0] * (x[(i - 3) / 2] else 3) else 9)"};

// Names that languages, their libraries and generators of code use. No name is a reserved word of the format.
constexpr std::string_view kNames[] = {
    "int",    "float",     "double",   "char",     "void",      "main",     "printf",     "sin",
    "exp",    "inline",    "static",   "struct",   "class",     "template", "this",       "half",
    "kernel", "global",    "local",    "constant", "restrict",  "const",    "volatile",   "unsigned",
    "signed", "long",      "short",    "register", "goto",      "do",       "while",      "if",
    "switch", "case",      "return",   "sizeof",   "typedef",   "union",    "enum",       "extern",
    "auto",   "default",   "break",    "continue", "new",       "delete",   "operator",   "private",
    "public", "namespace", "using",    "try",      "catch",     "throw",    "asm",        "near",
    "far",    "threadIdx", "blockIdx", "blockDim", "gridDim",   "warpSize", "__global__", "NULL",
    "EOF",    "errno",     "stdin",    "INFINITY", "NAN",       "M_PI",     "x",          "x0",
    "x00",    "X",         "x_",       "_x",       "__x",       "x__",      "_",          "__",
    "a",      "b",         "i",        "j",        "k",         "n",        "t",          "t0",
    "tmp",    "temp0",     "arg0",     "args",     "symbols",   "begin",    "end",        "size",
    "data",   "index",     "value",    "result",   "workspace", "stream",   "thread",     "lane",
    "block",  "offset",    "step",     "symbol",   "repeat",    "program",  "yoke",       "std",
    "memcpy", "malloc",    "free",     "pow",      "select",    "convert",  "int32_t",    "uint8_t",
    "size_t", "bfloat16",  "f",        "f_32",     "e10",       "i64x",     "alignas",    "and",
    "or",     "not",       "xor",      "bitand",   "complex",   "import",   "export",     "module",
    "fn",     "let",       "mut",      "var",      "def",       "lambda",   "None",       "True"};

// The names that the format allows.
std::vector<std::string> allowed_names(std::uint64_t seed) {
  std::vector<std::string> names;
  for (const std::string_view name : kNames) {
    try {
      corpus_case(
          text("yoke.program 1\nprogram p() {\n arg ", name, " : f32[2] out\n ", name, "[q] = 1\n}\n"), seed);
      names.emplace_back(name);
    } catch (const std::exception&) {
      // A reserved word.
    }
  }
  return names;
}

// Programs that use six names each, for everything that has a name.
void add_names(std::vector<Case>& all, std::uint64_t seed) {
  const std::vector<std::string> names = allowed_names(seed);
  for (std::size_t first = 0; first < names.size(); first += 2) {
    const auto name = [&](std::size_t i) { return names[(first + i * 3) % names.size()]; };
    const std::string in = name(0);
    const std::string out = name(1);
    const std::string temporary = name(2);
    const std::string loop = name(3);
    const std::string symbol = name(5);
    append(all,
           {corpus_case(
               text("yoke.program 1\nprogram ", name(4), "(symbol ", symbol, " in 0..3) {\n arg ", in,
                    " : f32[9] in\n arg ", out, " : f32[6] out\n temp ", temporary, " : f32[6]\n ", temporary,
                    "[", loop, "] = ", in, "[", symbol, " + ", loop, "] * 2\n ", out, "[", loop, "] = exp(",
                    temporary, "[", loop, "]) + f32(", loop, ") - f32(", symbol, ")\n}\n"),
               seed)});
  }
}

std::string repeated(int count, const std::string& separator, const auto& part) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : separator) + part(i);
  }
  return text;
}

// Bodies with deep and wide expressions.
std::vector<std::string> expression_bodies() {
  const std::string head = "arg x : f32[300] in\n arg z : f32[300] in\n arg y : f32[150] out\n y[i] = ";
  std::string deep = "x[i]";
  std::string chosen = "x[i]";
  for (int i = 0; i < 90; ++i) {
    deep = text("(", deep, ") * 0.5 + z[i + ", i % 7, "]");
    if (i < 40) {
      chosen = text("select(x[i + ", i, "] > z[i], ", chosen, ", z[i + ", i, "])");
    }
  }
  // Balanced, so that many values are needed at once.
  std::vector<std::string> level(64);
  for (std::size_t i = 0; i < level.size(); ++i) {
    level[i] = text("x[i + ", i, "] * z[i + ", i, "]");
  }
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) {
      level[i] = text("(", level[2 * i], " - ", level[2 * i + 1], ")");
    }
    level.resize(level.size() / 2);
  }
  const std::string wide = repeated(120, " + ", [](int i) { return text("x[i + ", i, "]"); });
  std::vector<std::string> bodies;
  for (const std::string& value : {deep, chosen, wide, level[0]}) {
    bodies.push_back(text(head, value, "\n"));
  }
  return bodies;
}

// Bodies with many dimensions, loops, elements and rounds.
std::vector<std::string> shape_bodies() {
  std::vector<std::string> bodies;
  const std::string eight = "[2, 3, 1, 2, 3, 1, 2, 5]";
  bodies.push_back("arg x : f32" + eight +
                   " in\n arg y : f32[5, 2, 1, 3, 2, 1, 3, 2] out\n y[h, g, f, e, d, c, b, a] = " +
                   "x[a, b, c, d, e, f, g, h] * 2\n");
  bodies.push_back("arg x : f32" + eight +
                   " in\n arg y : f32[2, 2, 3] out\n y[a, d, b] = sum[c, e, f, g, h] x[a, b, c, d, e, " +
                   std::string("f, g, h]\n"));
  bodies.push_back("arg x : f32" + eight +
                   " in\n arg w : f32[3, 2, 2, 2] in\n arg y : f32[2, 3, 1, 2] out\n y[a, b, c, d] = " +
                   "sum[e, f, g, h:2] x[a, b, c, d, e, f, g, h] * w[e, g, h, a]\n");
  bodies.push_back(
      "arg x : f32[1100] in\n arg y : f32[] out\n y[] = sum[" +
      repeated(10, ", ", [](int i) { return "k" + std::to_string(i) + ":2"; }) + "] x[" +
      repeated(10, " + ", [](int i) { return std::to_string(1 << i) + "*k" + std::to_string(i); }) + "]\n");
  bodies.push_back(
      "arg x : f32[70001, 2, 2] in\n arg y : f32[2, 2, 70001] out\n arg z : f32[2, 2] out\n y[k, j, i] = "
      "x[i, j, k] + 1\n z[j, k] = max[i] x[i, j, k]\n");
  bodies.push_back("arg x : f32[2, 70001, 2] in\n arg y : f32[70001, 2] out\n y[i, k] = sum[j] x[j, i, k]\n");
  bodies.push_back(
      "arg x : f32[66001, 1, 2] in\n arg w : f32[66001, 2, 1] in\n arg y : f32[66001, 1, 1] out\n y[b, i, j] "
      "= "
      "sum[k] x[b, i, k] * w[b, k, j]\n");
  bodies.push_back(
      "arg x : i32[5] in\n arg s : i32[5] inout\n repeat r in -7..3000 step 3 {\n s[i] = s[i] * 3 + x[i] + "
      "i32(r)\n }\n");
  bodies.push_back(
      "arg x : i32[1] in\n arg h : i32[1, 2601] out\n h[0, 0] = x[0]\n repeat r in 0..2600 {\n h[i, r + 1] = "
      "h[i, r] * 5 + i32(r)\n }\n");
  bodies.push_back(
      "arg x : i64[] in\n arg y : i64[300, 300] out\n y[i, j] = (x[] + i * 4294967311 - j) % 1000 / 7 + i * "
      "j / "
      "-3\n");
  return bodies;
}

}  // namespace

std::vector<Case> guard_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  for (const Type type : types_of(type_mask)) {
    const bool is_narrow = program::byte_size(type) < 4;  // sums of 16-bit floats state an accumulator
    if (type == Type::kBool || is_narrow) {
      continue;
    }
    for (const std::uint64_t extent : {1U, 2U, 5U, 9U}) {
      if (extent != 5 && type != Type::kF32 && type != Type::kI32) {
        continue;
      }
      Guards guards(seed, type, std::to_string(extent));
      for (const int coefficient : {-2, -1, 1, 2, 3}) {
        for (int offset = -3; offset <= 6; ++offset) {
          guards.add("(x[" + affine(coefficient, "i", offset) + "] else " + std::to_string(offset + 4) + ")");
        }
      }
      for (const int divisor : {2, 3}) {
        for (const int coefficient : {-1, 1, 2}) {
          for (int offset = -4; offset <= 4; ++offset) {
            guards.add("(x[(" + affine(coefficient, "i", offset) + ") / " + std::to_string(divisor) +
                       "] else 7)");
          }
        }
      }
      for (const std::string_view value : kNested) {
        guards.add(std::string(value));
      }
      append(all, guards.made());
    }
  }
  return all;
}

std::vector<Case> limit_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (!has(Type::kF32) || !has(Type::kI32) || !has(Type::kI64)) {
    return {};
  }
  std::vector<std::string> bodies = expression_bodies();
  for (std::string& body : shape_bodies()) {
    bodies.push_back(std::move(body));
  }
  for (const std::string& body : bodies) {
    append(all, {corpus_case(
                    "yoke.program 1\nprogram limit" + std::to_string(all.size()) + "() {\n " + body + "}\n",
                    seed)});
  }
  add_names(all, seed);
  return all;
}

}  // namespace yoke::conformance
