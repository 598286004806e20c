// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/border_reductions.cpp: border_programs.h, reductions and accumulators.
#include <algorithm>
#include <iterator>

#include "border_programs.h"
#include "borders.h"

namespace yoke::conformance {

using program::Type;

namespace {

// The rows have one border each, one special value each, or all values; with reductions over rows, columns and both.
void add_reductions(std::vector<Case>& all, std::uint64_t seed, Type type, std::uint64_t columns,
                    bool has_i32, bool has_i64) {
  const std::string width = std::to_string(columns);
  const std::string dims = "24, " + width;
  const auto stride = static_cast<std::int64_t>(columns);
  const Data datas[] = {
      {DataKind::kEdges, stride, -1},
      {DataKind::kSparse, stride, -1},
      {DataKind::kEdges, 0, -1},
      type == Type::kBool ? Data{DataKind::kSpread, 1, -1} : Data{DataKind::kEdges, -2, -1}};
  for (std::size_t kind = 0; kind < std::size(datas); ++kind) {
    ProgramText text(seed, "reductions_" + name_of(type) + "_" + width + "_" + std::to_string(kind));
    text.input("x", type, dims, datas[kind]);
    const auto add = [&](Type to, const std::string& reduce) {
      text.output(to, "24", "i", reduce + "[j] x[i, j]");
      text.output(to, width, "j", reduce + "[i] x[i, j]");
    };
    if (type == Type::kBool) {
      add(type, "any");
      add(type, "all");
    } else {
      const bool is_narrow = program::byte_size(type) == 2;
      for (const char* reduce : {"sum", "prod", "max", "min"}) {
        add(type, reduce + std::string(is_narrow ? ":f32" : ""));
        text.output(type, "", "", reduce + std::string(is_narrow ? ":f32" : "") + "[i, j] x[i, j]");
      }
      for (const char* assign : {"+=", "*=", "max=", "min="}) {
        text.output(type, "24", "i", (is_narrow ? "max:f32[j] x[i, j]" : "max[j] x[i, j]"), assign);
        text.output(type, "24", "i", "x[i, 0]", assign);
      }
      for (const char* reduce : {"argmax", "argmin"}) {
        if (has_i32) {
          add(Type::kI32, reduce);
        }
        if (has_i64) {
          add(Type::kI64, reduce);
        }
      }
    }
    append(all, {text.finished()});
  }
}

}  // namespace

std::vector<Case> reduction_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  const auto has = [&](Type type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  for (const Type type : types) {
    if (program::byte_size(type) == 2 && !has(Type::kF32)) {
      continue;
    }
    const bool is_common = type == Type::kF32 || type == Type::kF64 || type == Type::kI32;
    for (const std::uint64_t columns : {1U, 5U, 33U, is_common ? 1030U : 70U}) {
      add_reductions(all, seed, type, columns, has(Type::kI32), has(Type::kI64));
    }
  }
  return all;
}

std::vector<Case> accumulator_programs(std::uint64_t seed, std::uint64_t type_mask) {
  std::vector<Case> all;
  const std::vector<Type> types = types_of(type_mask);
  for (const Type type : types) {
    for (const Type wide : types) {
      if (wide == type || type == Type::kBool || program::is_float(wide) != program::is_float(type) ||
          program::byte_size(wide) == 2 || wide == Type::kBool || !program::holds_all(wide, type)) {
        continue;
      }
      const Data spread{DataKind::kSpread, 1, -1};
      const auto add = [&](const std::string& dims_x, const std::string& dims_w, const std::string& dims_y,
                           const std::string& indices, const std::string& sum) {
        for (const Type target : {wide, type}) {
          for (const char* assign : {"=", "+="}) {
            ProgramText text(seed, "accumulators_" + std::to_string(all.size()));
            text.input("x", type, dims_x, spread);
            if (!dims_w.empty()) {
              text.input("w", type, dims_w, spread);
            }
            text.output(target, dims_y, indices, "sum:" + name_of(wide) + sum, assign);
            append(all, {text.finished()});
          }
        }
      };
      add("9, 150", "150, 21", "9, 21", "i, j", "[k] x[i, k] * w[k, j]");
      add("70, 33", "70", "33", "j", "[k] x[k, j] * w[k]");
      add("40, 190", "", "40", "i", "[k] x[i, k]");
      add("1100, 3", "", "3", "i", "[k] x[k, i]");
      // Long enough for every backend to sum in parts.
      add("70001", "", "", "", "[k] x[k]");
      add("2, 9000", "9000", "2", "i", "[k] x[i, k] * w[k]");
    }
  }
  return all;
}

}  // namespace yoke::conformance
