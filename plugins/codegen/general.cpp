// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/general.cpp: kernels for any statement.
#include "general.h"

#include <algorithm>
#include <map>
#include <utility>

#include "arg_rows.h"
#include "group.h"

namespace yoke::codegen {

std::uint32_t open_elements(Printer& printer, std::uint64_t count, std::uint32_t threads,
                            const std::string& name) {
  const std::uint64_t blocks = std::max<std::uint64_t>((count + threads - 1) / threads, 1);
  const std::string type(printer.index_type());
  const std::string first =
      "(" + type + ")blockIdx.x * " + std::to_string(threads) + " + (" + type + ")threadIdx.x";
  const std::string end = std::to_string(count) + (type == "int" ? "" : "ll");
  if (blocks <= kMostBlocks) {
    printer.line("const " + type + " " + name + " = " + first + ";");
    printer.open("if (" + name + " < " + end + ")");
    return static_cast<std::uint32_t>(blocks);
  }
  printer.open("for (" + type + " " + name + " = " + first + "; " + name + " < " + end + "; " + name +
               " += " + std::to_string(kMostBlocks * threads) + ")");
  return kMostBlocks;
}

std::vector<std::string> split(Printer& printer, const std::string& number,
                               const std::vector<std::uint64_t>& extents) {
  std::vector<std::string> names(extents.size());
  const std::string type(printer.index_type());
  const std::string suffix = type == "int" ? "" : "ll";
  std::string rest = number;
  for (std::size_t i = extents.size(); i-- > 0;) {
    const std::string extent = std::to_string(extents[i]) + suffix;
    if (extents[i] == 1) {
      names[i] = "0";
    } else if (std::all_of(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(i),
                           [](std::uint64_t outer) { return outer == 1; })) {
      names[i] = rest;
    } else {
      names[i] = printer.fresh("i");
      printer.line(joined({"const ", type, " ", names[i], " = ", rest, " % ", extent, ";"}));
      const std::string quotient = printer.fresh("q");
      printer.line(joined({"const ", type, " ", quotient, " = ", rest, " / ", extent, ";"}));
      rest = quotient;
    }
  }
  return names;
}

namespace {

// Puts last the loop along which most accesses have neighbors: consecutive threads differ in its index.
void order_for_lanes(const program::Program& program, std::size_t number, std::vector<std::uint32_t>& loops) {
  std::map<std::uint32_t, int> neighbors;
  for (const Touch& touch : touches_of(program, number)) {
    if (const auto element = program::flat_element(program, touch.access)) {
      for (const program::Affine::Term& term : element->terms) {
        neighbors[term.id] += !term.is_symbol && term.coefficient == 1 && !touch.is_write ? 1 : 0;
      }
    }
  }
  const auto best = std::max_element(loops.rbegin(), loops.rend(), [&](std::uint32_t a, std::uint32_t b) {
    return neighbors[a] < neighbors[b];
  });
  if (best != loops.rend()) {
    std::rotate(best.base() - 1, best.base(), loops.end());
  }
}

}  // namespace

void plan_general(Builder& builder, std::size_t number) {
  if (plan_arg_rows(builder, number)) {
    return;
  }
  constexpr std::uint32_t kThreads = 256;
  const program::Statement& statement = builder.program().statements[number];
  Printer printer(builder, !fits_in_int(builder.program(), statement));
  printer.select(statement);
  const std::vector<bool> independent = program::independent_loops(statement);
  std::vector<std::uint32_t> parallel;
  std::vector<std::uint32_t> serial;
  for (std::uint32_t i = 0; i < statement.loops.size(); ++i) {
    if (!statement.reduces(i)) {
      (independent[i] ? parallel : serial).push_back(i);
    }
  }
  order_for_lanes(builder.program(), number, parallel);
  std::vector<std::uint64_t> extents;
  std::uint64_t count = 1;
  for (const std::uint32_t loop : parallel) {
    extents.push_back(statement.loops[loop].extent);
    count *= extents.back();
  }
  const std::uint32_t threads = count < kThreads ? builder.target().warp_size : kThreads;
  const std::uint32_t blocks = open_elements(printer, count, threads, "e");
  const std::vector<std::string> names = split(printer, "e", extents);
  for (std::size_t i = 0; i < parallel.size(); ++i) {
    printer.bind(parallel[i], names[i]);
  }
  std::string remark;
  for (const std::uint32_t loop : serial) {
    printer.open_loop(loop);
    remark += (remark.empty() ? "serial because of the scatter: " : ", ") + statement.loops[loop].name;
  }
  printer.one_element();
  for (std::size_t i = 0; i < serial.size(); ++i) {
    printer.close();
  }
  printer.close();
  Launch launch = printer.launch();
  launch.kernel = builder.kernel(threads, printer.text());
  launch.grid[0] = blocks;
  launch.remark = std::move(remark);
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen
