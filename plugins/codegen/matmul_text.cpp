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

using program::Assign;
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
    std::string value = inner == 1 ? index : index + " / " + std::to_string(inner);
    if (i > 0) {
      value = (inner == 1 ? value : "(" + value + ")") + " % " + std::to_string(axes[i].extent);
    }
    text += "const int " + prefix + std::to_string(i) + " = " + value + "; ";
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
      const std::string value = prefix + std::to_string(i);
      text += (text.empty() ? "" : " + ") +
              (step == 1 ? value : "(" + product.integer() + ")" + std::to_string(step) + " * " + value);
    }
  }
  return text.empty() ? "0" : text;
}

std::string assign_text(const Product& product, const std::string& element, const std::string& sum) {
  const Type type = product.target_type;
  const bool is_half = type == Type::kF16 || type == Type::kBF16;
  const Type computed = is_half ? Type::kF32 : type;
  const std::string half = type == Type::kF16 ? "f16" : "bf16";
  const std::string cast = product.sum == computed ? sum : "(" + element_name(computed) + ")(" + sum + ")";
  const auto stored = [&](const std::string& value) {
    return element + " = " + (is_half ? "yk_to_" + half + "(" + value + ")" : value) + ";";
  };
  if (product.assign == Assign::kSet) {
    return stored(cast);
  }
  const std::string value = is_half ? "yk_round_" + half + "(" + cast + ")" : cast;
  const std::string old = load_text(type, computed, element);
  switch (product.assign) {
    case Assign::kMul:
      return stored(old + " * (" + value + ")");
    case Assign::kMax:
      return stored("yk_max(" + old + ", " + value + ")");
    case Assign::kMin:
      return stored("yk_min(" + old + ", " + value + ")");
    case Assign::kSet:
    case Assign::kAdd:
      break;
  }
  return stored(old + " + (" + value + ")");
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
