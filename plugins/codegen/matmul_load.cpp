// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_load.cpp: the text that loads a factor's part of a tile into shared memory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "matmul.h"

namespace yoke::codegen::matmul {
namespace {

const Factor& factor_of(const Product& product, bool is_a) {
  return is_a ? product.a : product.b;
}
const std::vector<Axis>& axes_of(const Product& product, bool is_a) {
  return is_a ? product.m : product.n;
}

}  // namespace

bool is_along_depth(const Product& product, bool is_a) {
  const auto step = [&](const std::vector<Axis>& axes) {
    const std::int64_t last = std::abs(axes.back().steps[factor_of(product, is_a).address]);
    return last == 0 ? std::int64_t{1} << 40 : last;
  };
  const std::int64_t row_step = step(axes_of(product, is_a));
  // Short runs along the depth are worth it only if rows are far apart.
  return step(product.k) < row_step && (product.k.back().extent >= 8 || row_step >= 8);
}

bool has_runs_of_8(const Product& product, bool is_a) {
  const Factor& factor = factor_of(product, is_a);
  const std::vector<Axis>& rows = axes_of(product, is_a);
  const Axis& fast = is_along_depth(product, is_a) ? product.k.back() : rows.back();
  const Form& form = product.forms[factor.address];
  const auto divides = [](std::int64_t step) { return step % 8 == 0; };
  const auto all_divide = [&](const std::vector<Axis>& axes) {
    return std::all_of(axes.begin(), axes.end(), [&](const Axis& axis) {
      return &axis == &fast || divides(axis.steps[factor.address]);
    });
  };
  return program::byte_size(factor.type) == 2 && factor.checks.empty() && divides(fast.extent) &&
         fast.steps[factor.address] == 1 && all_divide(product.batch) && all_divide(rows) &&
         all_divide(product.k) && divides(form.constant) &&
         std::all_of(form.symbols.begin(), form.symbols.end(), divides);
}

Loader::Loader(const Product& product, const Tile& tile, bool is_a, Storage storage)
    : product_(product),
      factor_(factor_of(product, is_a)),
      other_(factor_of(product, !is_a)),
      axes_(axes_of(product, is_a)),
      storage_(std::move(storage)),
      is_along_depth_(is_along_depth(product, is_a)) {
  const std::int64_t extent = is_a ? tile.rows : tile.columns;
  const std::int64_t width = (is_along_depth_ ? tile.depth : extent) / storage_.run;
  const std::int64_t count = extent * tile.depth / tile.threads / storage_.run;
  rows_ = is_along_depth_ ? count : 1;
  keeps_rows_ = rows_ <= 8;
  std::string fast = "tid % " + std::to_string(width);
  fast = storage_.run == 1 ? fast : fast + " * " + std::to_string(storage_.run);
  const std::string slow =
      "tid / " + std::to_string(width) + " + e * " + std::to_string(tile.threads / width);
  is_ragged_ = extent_of(axes_) % extent != 0;
  has_tail_ = extent_of(product.k) % tile.depth != 0;
  values_ = {{"x", is_a ? "a" : "b"},
             {"pointer", is_a ? "p0" : "p1"},
             {"start", is_a ? "m0" : "n0"},
             {"row", is_along_depth_ ? slow : fast},
             {"depth", is_along_depth_ ? fast : slow},
             {"rows", std::to_string(rows_)},
             {"count", std::to_string(count)},
             {"extent", std::to_string(extent_of(axes_))},
             {"k_extent", std::to_string(extent_of(product.k))},
             {"run", std::to_string(storage_.run)},
             {"element", element_name(factor_.type)},
             {"stored", storage_.type},
             {"place", storage_.place},
             {"stage", storage_.stage},
             {"special", storage_.special},
             {"int", product.integer()},
             {"unsigned", product.is_wide ? "unsigned long long" : "unsigned"}};
}

std::string Loader::text(std::string_view pattern, Values more) const {
  more.insert(more.end(), values_.begin(), values_.end());
  return fill_in(pattern, more);
}

std::string Loader::row_text() const {
  const auto part = [&](std::size_t form) {
    return steps_text(product_, product_.batch, form, "z") + " + " + steps_text(product_, axes_, form, "r");
  };
  // Rows past the last one repeat others: their sums are not stored.
  std::string result = "int r = $start$ + $row$;\n";
  result += is_ragged_ ? "    r = r < $extent$ ? r : $extent$ - $run$;\n" : "";
  result +=
      "    " + split_text(axes_, "r", "r") + "\n    const $int$ row_at = " + part(factor_.address) + ";\n";
  for (std::size_t c = 0; c < factor_.checks.size(); ++c) {
    const std::string number = std::to_string(c);
    result += fill_in("    const $int$ row_at$c$ = ($int$)$x$_base$c$ + $part$;\n",
                      {{"c", number}, {"part", part(factor_.checks[c].form)}});
  }
  return text(result);
}

std::string Loader::setup() const {
  std::string result = base_text(product_, factor_.address, text("$x$_base"));
  std::string arrays;
  std::string kept = "    $x$_at[e] = row_at;\n";
  for (std::size_t c = 0; c < factor_.checks.size(); ++c) {
    const std::string number = std::to_string(c);
    result += base_text(product_, factor_.checks[c].form, text("$x$_base") + number);
    arrays += fill_in(", $x$_at$c$[$rows$]", {{"c", number}});
    kept += fill_in("    $x$_at$c$[e] = row_at$c$;\n", {{"c", number}});
  }
  result += text("  const $element$* $x$_from = $pointer$ + $x$_base;\n");
  if (storage_.in_registers) {
    result +=
        text(storage_.run > 1 ? "  yk_16_bytes $x$_next[$count$];\n" : "  $stored$ $x$_next[$count$];\n");
  }
  if (storage_.run > 1) {
    result += text("  const bool $x$_is_aligned = (unsigned long long)$x$_from % 16 == 0;\n");
  }
  if (keeps_rows_) {
    result += text("  $int$ $x$_at[$rows$]" + arrays + R"(;
#pragma unroll
  for (int e = 0; e < $rows$; ++e) {
    )" + row_text() +
                   kept + "  }\n");
  }
  return result;
}

// The statements that move one element, or one run. `in` is the condition that it exists.
std::string Loader::value_text(const std::string& in, bool is_async) const {
  const std::string report = text(other_.is_skipped ? " if ($special$(value)) special[$stage$] = 1;" : "");
  if (storage_.run > 1 && storage_.in_registers) {
    return text("        $x$_next[e] = yk_load_halves($x$_from + at, $x$_is_aligned, " + in + ");\n");
  }
  if (storage_.run > 1) {
    const std::string copy =
        is_async ? "        yk_copy_async(to, in ? $x$_from + at : $x$_from, in);\n"
                 : "        const yk_16_bytes value = yk_load_halves($x$_from + at, $x$_is_aligned, in);\n"
                   "        *to = value;" +
                       report + "\n";
    return text(
        "        const int row = $row$, depth = $depth$;\n"
        "        yk_16_bytes* to = (yk_16_bytes*)($x$_tile + $place$);\n"
        "        const bool in = " +
        in + ";\n" + copy);
  }
  std::string outside = storage_.is_converted ? number_text(factor_.fill, product_.sum) : "0";
  if (factor_.is_skipped) {
    outside = "is_careful ? ($stored$)" + storage_.mark + " : ($stored$)0";
  }
  if (has_tail_ && outside != "0") {
    outside = "k < $k_extent$ ? ($stored$)(" + outside + ") : ($stored$)0";
  }
  std::string value = text("$x$_from[at]");
  value = storage_.is_converted ? load_text(factor_.type, product_.sum, value) : value;
  value = factor_.is_skipped ? "yk_unmarked(" + value + ")" : value;
  const std::string move = storage_.in_registers ? "        $x$_next[e] = value;\n"
                                                 : "        const int row = $row$, depth = $depth$;\n"
                                                   "        $x$_tile[$place$] = value;" +
                                                       report + "\n";
  return text("        $stored$ value = " + outside + ";\n        if (" + in + ") value = " + value + ";\n" +
              move);
}

std::string Loader::load(const std::string& from) const {
  std::string checks;
  std::string in = text(has_tail_ ? "k < $k_extent$" : "true");
  const std::string kept = keeps_rows_ ? (is_along_depth_ ? "[e]" : "[0]") : "";
  const std::string name = keeps_rows_ ? text("$x$_at") : "row_at";
  for (std::size_t c = 0; c < factor_.checks.size(); ++c) {
    const Check& check = factor_.checks[c];
    const std::string number = std::to_string(c);
    const Values values = {{"c", number},
                           {"name", name},
                           {"kept", kept},
                           {"part", steps_text(product_, product_.k, check.form, "d")},
                           {"limit", std::to_string(check.extent * check.divisor)},
                           {"divisor", std::to_string(check.divisor)},
                           {"stride", std::to_string(check.stride)}};
    checks += fill_in("        const $int$ q$c$ = $name$$c$$kept$ + $part$;\n", values);
    in += fill_in(" && ($unsigned$)q$c$ < $limit$", values);
    if (check.divisor > 1) {
      in += fill_in(" && q$c$ % $divisor$ == 0", values);
      checks += fill_in("        at += ($int$)$stride$ * (q$c$ / $divisor$);\n", values);
    }
  }
  const std::string loop = is_along_depth_ ? R"(    {
      const int k = $from$ + $depth$;
      $split$
#pragma unroll$unroll$
      for (int e = 0; e < $rows$; ++e) {
)"
                                           : R"(#pragma unroll$unroll$
    for (int e = 0; e < $count$; ++e) {
      const int k = $from$ + $depth$;
      $split$
      {
)";
  const std::string row = keeps_rows_ ? "" : "    " + row_text();
  const auto body = [&](bool is_async) {
    return text(loop + row + "        $int$ at = " + name + kept + " + $step$;\n" + checks +
                    value_text(in, is_async) + "      }\n    }\n",
                {{"from", from},
                 {"unroll", storage_.in_registers ? "" : " 8"},  // more loads at once do not fit in registers
                 {"split", split_text(product_.k, "k", "d")},
                 {"step", steps_text(product_, product_.k, factor_.address, "d")}});
  };
  const bool may_be_async = storage_.run > 1 && !storage_.in_registers && !other_.is_skipped;
  return may_be_async
             ? text("    if ($x$_is_aligned) {\n") + body(true) + "    } else {\n" + body(false) + "    }\n"
             : body(false);
}

std::string Loader::store() const {
  return text(R"(#pragma unroll
    for (int e = 0; e < $count$; ++e) {
      const int row = $row$, depth = $depth$;
      )" +
              std::string(storage_.run > 1 ? "const yk_16_bytes value = $x$_next[e];\n"
                                             "      *(yk_16_bytes*)($x$_tile + $place$) = value;"
                                           : "const $stored$ value = $x$_next[e];\n"
                                             "      $x$_tile[$place$] = value;") +
              std::string(other_.is_skipped ? " if ($special$(value)) special[$stage$] = 1;" : "") +
              "\n    }\n");
}

}  // namespace yoke::codegen::matmul
