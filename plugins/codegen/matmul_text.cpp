// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_text.cpp: text that the kernels of products share: places, types, loads.
#include <yoke/program/program.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "matmul.h"

namespace yoke::codegen::matmul {

using program::Type;

std::string fill_in(std::string_view text, const Values& values) {
  std::string result;
  while (true) {
    const std::size_t open = text.find('$');
    result += text.substr(0, open);
    if (open == std::string_view::npos) {
      return result;
    }
    const std::size_t close = text.find('$', open + 1);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const auto known =
        std::find_if(values.begin(), values.end(), [&](const auto& one) { return one.first == name; });
    result += known == values.end() ? std::string(text.substr(open, close - open + 1))
                                    : fill_in(known->second, values);
    text.remove_prefix(close + 1);
  }
}

std::string element_name(Type type) {
  return type == Type::kF64 ? "double" : type == Type::kF32 ? "float" : "unsigned short";
}

std::string load_text(Type from, Type sum, const std::string& element) {
  const std::string value = from == Type::kF16    ? "yk_from_f16(" + element + ")"
                            : from == Type::kBF16 ? "yk_from_bf16(" + element + ")"
                                                  : element;
  return from == sum ? value : "(" + element_name(sum) + ")" + value;
}

std::string base_text(const Product& product, std::size_t form, const std::string& name) {
  const Form& of = product.forms[form];
  std::string text = "  const long long " + name + " = " + std::to_string(of.constant) + "ll";
  for (std::size_t i = 0; i < of.symbols.size(); ++i) {
    if (of.symbols[i] != 0) {
      const bool is_launch_symbol = i < product.launch_symbols;
      text += " + " + std::to_string(of.symbols[i]) + "ll * " +
              (is_launch_symbol ? "symbols[" + std::to_string(i) + "]" : "variable");
    }
  }
  return text + ";\n";
}

std::string split_text(const std::vector<Axis>& axes, const std::string& index, const std::string& prefix) {
  std::string text;
  std::int64_t inner = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::string value = index;
    value += inner == 1 ? "" : " / " + std::to_string(inner);
    value += i == 0 ? "" : " % " + std::to_string(axes[i].extent);
    text += fill_in("const int $prefix$$i$ = $value$; ",
                    {{"prefix", prefix}, {"i", std::to_string(i)}, {"value", value}});
    inner *= axes[i].extent;
  }
  return text;
}

std::string steps_text(const Product& product, const std::vector<Axis>& axes, std::size_t form,
                       const std::string& prefix) {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t step = axes[i].steps[form];
    if (step != 0) {
      text += text.empty() ? "" : " + ";
      text += step == 1
                  ? ""
                  : fill_in("($int$)$step$ * ", {{"int", product.integer()}, {"step", std::to_string(step)}});
      text.append(prefix).append(std::to_string(i));
    }
  }
  return text.empty() ? "0" : text;
}

std::string loops_text(const program::Statement& statement, const Product& product,
                       const Epilogue& epilogue) {
  const std::string type = epilogue.is_wide ? "long long" : "int";
  std::string text = split_text(product.batch, "batch", "z") + split_text(product.m, "row", "r") +
                     split_text(product.n, "column", "c");
  const auto declare = [&](const std::vector<Axis>& axes, const std::string& prefix) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::uint64_t inner = 1;
      for (std::size_t l = axes[i].loops.size(); l-- > 0;) {
        const std::uint32_t loop = axes[i].loops[l];
        std::string value = prefix + std::to_string(i);
        value += inner == 1 ? "" : " / " + std::to_string(inner);
        value += l == 0 ? "" : " % " + std::to_string(statement.loops[loop].extent);
        text += fill_in("const $type$ loop$loop$ = $value$; ",
                        {{"type", type}, {"loop", std::to_string(loop)}, {"value", value}});
        inner *= statement.loops[loop].extent;
      }
    }
  };
  declare(product.batch, "z");
  declare(product.m, "r");
  declare(product.n, "c");
  return text + "\n";
}

std::string number_text(double value, Type type) {
  if (value == 0 && !std::signbit(value)) {
    return "0";
  }
  if (!std::isfinite(value)) {
    const std::string suffix = type == Type::kF64 ? "_F64" : "_F32";
    return std::isnan(value) ? "YK_NAN" + suffix : (value < 0 ? "-YK_INF" : "YK_INF") + suffix;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%a%s", value, type == Type::kF64 ? "" : "f");
  return text;
}

std::string exists_text(const Product& product, const std::string& x, const std::string& y) {
  const std::string has_x = "!yk_is_mark(" + x + ")";
  const std::string has_y = "!yk_is_mark(" + y + ")";
  return !product.b.is_skipped ? has_x : !product.a.is_skipped ? has_y : has_x + " && " + has_y;
}

}  // namespace yoke::codegen::matmul
