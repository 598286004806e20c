// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/matmul_load.cpp: the text that moves a factor's part of a tile from memory to shared memory.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "matmul.h"

namespace yoke::codegen::matmul {

Loader::Loader(const Product& product, const Tile& tile, bool is_a, Storage storage)
    : product_(product),
      factor_(is_a ? product.a : product.b),
      other_(is_a ? product.b : product.a),
      axes_(is_a ? product.m : product.n),
      storage_(std::move(storage)) {
  const auto step = [&](const std::vector<Axis>& axes) {
    const std::int64_t last = axes.empty() ? 0 : std::abs(axes.back().steps[factor_.address]);
    return last == 0 ? std::int64_t{1} << 40 : last;
  };
  const std::int64_t row_step = step(axes_);
  // Short runs along the depth are worth it only if rows are far apart.
  is_along_depth_ = step(product.k) < row_step && (product.k.back().extent >= 8 || row_step >= 8);
  const std::int64_t extent = is_a ? tile.rows : tile.columns;
  const std::int64_t width = is_along_depth_ ? tile.depth : extent;
  const std::int64_t count = extent * tile.depth / tile.threads;
  (is_along_depth_ ? rows_ : depths_) = count;
  const std::string fast = "tid % " + std::to_string(width);
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
             {"element", element_name(factor_.type)},
             {"stored", storage_.type},
             {"int", product.integer()},
             {"unsigned", product.is_wide ? "unsigned long long" : "unsigned"}};
}

std::string Loader::text(std::string_view pattern, Values more) const {
  more.insert(more.end(), values_.begin(), values_.end());
  return fill_in(pattern, more);
}

std::string Loader::setup() const {
  std::string result = base_text(product_, factor_.address, text("$x$_base"));
  std::string arrays = "$x$_at[$rows$]";
  std::string splits;
  const auto part = [&](std::size_t form) {
    return steps_text(product_, product_.batch, form, "z") + " + " + steps_text(product_, axes_, form, "r");
  };
  for (std::size_t c = 0; c < factor_.checks.size(); ++c) {
    const std::string at = "$x$_at" + std::to_string(c);
    const std::string base = "$x$_base" + std::to_string(c);
    result += base_text(product_, factor_.checks[c].form, text(base));
    arrays += ", " + at + "[$rows$]";
    splits += "    " + at + "[e] = ($int$)" + base + " + " + part(factor_.checks[c].form) + ";\n";
  }
  // Rows past the last one repeat it: their sums are not stored.
  return result + text("  const $element$* $x$_from = $pointer$ + $x$_base;\n  $int$ " + arrays + R"(;
  $stored$ $x$_next[$count$];
#pragma unroll
  for (int e = 0; e < $rows$; ++e) {
    int r = $start$ + $row$;
$clamp$    $split$
    $x$_at[e] = $at$;
)" + splits + "  }\n",
                       {{"clamp", is_ragged_ ? text("    r = r < $extent$ ? r : $extent$ - 1;\n") : ""},
                        {"split", split_text(axes_, "r", "r")},
                        {"at", part(factor_.address)}});
}

std::string Loader::load(const std::string& from, bool is_careful) const {
  std::string checks;
  std::string in = has_tail_ ? "k < $k_extent$" : "true";
  for (std::size_t c = 0; c < factor_.checks.size(); ++c) {
    const Check& check = factor_.checks[c];
    const std::string q = "q" + std::to_string(c);
    const std::string divisor = std::to_string(check.divisor);
    checks += "        const $int$ " + q + " = $x$_at" + std::to_string(c) + "[$i$] + " +
              steps_text(product_, product_.k, check.form, "k") + ";\n";
    in += " && ($unsigned$)" + q + " < " + std::to_string(check.extent * check.divisor);
    if (check.divisor > 1) {
      in += " && " + q + " % " + divisor + " == 0";
      checks +=
          "        at += ($int$)" + std::to_string(check.stride) + " * (" + q + " / " + divisor + ");\n";
    }
  }
  std::string outside = is_careful && factor_.is_skipped ? storage_.mark
                        : storage_.is_converted          ? number_text(factor_.fill, product_.sum)
                                                         : "0";
  if (has_tail_ && outside != "0") {
    outside = "k < $k_extent$ ? (" + storage_.type + ")" + outside + " : (" + storage_.type + ")0";
  }
  std::string value = "$x$_from[at]";
  value = storage_.is_converted ? load_text(factor_.type, product_.sum, value) : value;
  value = is_careful ? "yk_unmarked(" + value + ")" : value;
  const std::string loop = is_along_depth_ ? R"(    {
      const int k = $from$ + $depth$;
      $split$
#pragma unroll
      for (int e = 0; e < $rows$; ++e) {
)"
                                           : R"(#pragma unroll
    for (int e = 0; e < $count$; ++e) {
      const int k = $from$ + $depth$;
      $split$
      {
)";
  const std::string body = "        $int$ at = $x$_at[$i$] + $step$;\n" + checks +
                           "        $stored$ value = " + outside + ";\n        if (" + in +
                           ") value = " + value + ";\n        $x$_next[e] = value;\n      }\n    }\n";
  return text(loop + body, {{"i", is_along_depth_ ? "e" : "0"},
                            {"from", from},
                            {"split", split_text(product_.k, "k", "k")},
                            {"step", steps_text(product_, product_.k, factor_.address, "k")}});
}

std::string Loader::store() const {
  return text(R"(#pragma unroll
    for (int e = 0; e < $count$; ++e) {
      const int row = $row$, depth = $depth$;
      $x$_tile[$place$] = $x$_next[e];
$report$    }
)",
              {{"place", storage_.place},
               {"report", other_.is_skipped ? "      if ($special$($x$_next[e])) special[stage] = 1;\n" : ""},
               {"special", storage_.special}});
}

}  // namespace yoke::codegen::matmul
