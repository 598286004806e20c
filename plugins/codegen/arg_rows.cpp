// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/arg_rows.cpp: kernels for argmax and argmin over rows. Each thread searches some elements
// of a row; then threads compare what they found. NaN beats every number, and the lowest index wins ties, so
// that results do not depend on how elements are shared.
#include "arg_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "general.h"
#include "printer.h"
#include "rows.h"

namespace yoke::codegen {

using program::Reduce;
using program::Statement;
using program::Type;

namespace {

constexpr std::uint64_t kShortArgRow = 64;      // not worth a warp
constexpr std::uint64_t kMostInArgWarp = 2048;  // elements of a row that a warp shares
constexpr std::uint64_t kMostArgRows = std::uint64_t{1} << 23U;
constexpr std::uint64_t kArgThreads = 256;

class ArgPrinter {
 public:
  ArgPrinter(Builder& builder, const Statement& statement)
      : statement_(statement),
        printer_(builder, !fits_in_int(builder.program(), statement)),
        warp_(builder.target().warp_size),
        extent_(statement.loops[statement.reduce_loops[0]].extent),
        per_row_(extent_ <= kMostInArgWarp ? warp_ : kArgThreads) {
    for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
      if (!statement.reduces(loop)) {
        loops_.push_back(loop);
        extents_.push_back(statement.loops[loop].extent);
        rows_ *= statement.loops[loop].extent;
      }
    }
  }

  std::uint64_t rows() const { return rows_; }
  std::uint64_t extent() const { return extent_; }

  void plan() {
    printer_.select(statement_);
    print_row();
    print_search();
    for (std::uint64_t mask = warp_ / 2; mask > 0; mask /= 2) {
      const std::string by = ", " + std::to_string(mask) + ")";
      printer_.line("other = (" + value_ + ")YK_SHUFFLE_XOR(" +
                    (statement_.value.type == Type::kU8 ? "(int)best" : "best") + by + ";");
      printer_.line("other_at = YK_SHUFFLE_XOR(at" + by + ";");
      print_comparison();
    }
    if (per_row_ > warp_) {
      print_block();
    }
    printer_.open("if (lane == 0" + std::string(is_partial() ? " && active" : "") + ")");
    const Type to = printer_.program().tensors[statement_.target.tensor].type;
    printer_.store(statement_.target.tensor, printer_.place(statement_.target).element,
                   "(" + std::string(value_type(to)) + ")at");
    printer_.close();
    Launch launch = printer_.launch();
    launch.kernel = printer_.builder().kernel(kArgThreads, printer_.text());
    launch.grid[0] = static_cast<std::uint32_t>((rows_ + in_block() - 1) / in_block());
    printer_.builder().launch(std::move(launch));
  }

 private:
  std::uint64_t in_block() const { return kArgThreads / per_row_; }
  bool is_partial() const { return rows_ % in_block() != 0; }

  void print_row() {
    const std::string per_row = std::to_string(per_row_);
    const std::string thread = "(" + index_ + ")threadIdx.x";
    printer_.line("const " + index_ + " lane = " + thread + " % " + per_row + ";");
    printer_.line(index_ + " row = (" + index_ + ")blockIdx.x * " + std::to_string(in_block()) + " + " +
                  thread + " / " + per_row + ";");
    if (is_partial()) {  // threads without a row take part in the shuffles
      printer_.line("const bool active = row < " + std::to_string(rows_) + ";");
      printer_.line("if (!active) row = 0;");
    }
    const std::vector<std::string> names = split(printer_, "row", extents_);
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      printer_.bind(loops_[i], names[i]);
    }
  }

  void print_search() {
    printer_.line(value_ + " best = 0, other = 0;");
    printer_.line(index_ + " at = 0, other_at = lane;");
    printer_.line("#pragma unroll 4");
    printer_.open("for (; other_at < " + std::to_string(extent_) +
                  "; other_at += " + std::to_string(per_row_) + ")");
    printer_.bind(statement_.reduce_loops[0], "other_at");
    printer_.line("other = " + printer_.value(statement_.value) + ";");
    print_comparison("other_at == lane || ");
    printer_.close();
  }

  // Keeps the other element if it ranks before the best one so far.
  void print_comparison(const std::string& always = "") {
    const bool is_max = statement_.reduce == Reduce::kArgMax;
    const std::string beyond = is_max ? "other > best" : "other < best";
    std::string wins = "(" + beyond + " || (other == best && other_at < at))";
    if (program::is_float(statement_.value.type)) {
      wins = "(best != best ? other != other && other_at < at : other != other || " + wins + ")";
    }
    printer_.open("if (" + always + wins + ")");
    printer_.line("best = other;");
    printer_.line("at = other_at;");
    printer_.close();
  }

  void print_block() {
    const std::string warp = std::to_string(warp_);
    const std::string warps = std::to_string(per_row_ / warp_);
    printer_.line("YK_SHARED " + value_ + " values[" + warps + "];");
    printer_.line("YK_SHARED " + index_ + " places[" + warps + "];");
    printer_.open("if (lane % " + warp + " == 0)");
    printer_.line("values[lane / " + warp + "] = best;");
    printer_.line("places[lane / " + warp + "] = at;");
    printer_.close();
    printer_.line("YK_SYNC();");
    printer_.open("for (int i = 0; i < " + warps + "; ++i)");
    printer_.line("other = values[i];");
    printer_.line("other_at = places[i];");
    print_comparison();
    printer_.close();
  }

  const Statement& statement_;
  Printer printer_;
  std::uint64_t warp_;
  std::uint64_t extent_;
  std::uint64_t per_row_;
  std::uint64_t rows_ = 1;
  std::vector<std::uint32_t> loops_;
  std::vector<std::uint64_t> extents_;
  std::string value_{value_type(statement_.value.type)};
  std::string index_{printer_.index_type()};
};

}  // namespace

bool plan_arg_rows(Builder& builder, std::size_t number) {
  const Statement& statement = builder.program().statements[number];
  if ((statement.reduce != Reduce::kArgMax && statement.reduce != Reduce::kArgMin) ||
      is_by_column(builder.program(), number)) {
    return false;
  }
  ArgPrinter printer(builder, statement);
  if (printer.extent() < kShortArgRow || printer.rows() > kMostArgRows) {
    return false;
  }
  printer.plan();
  return true;
}

}  // namespace yoke::codegen
