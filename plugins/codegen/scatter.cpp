// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/scatter.cpp: kernels for scatters. The loops that may write an element twice count updates;
// a block belongs to an update and some iterations of the other loops. If an earlier update has the same
// indices, the block ends. Otherwise, it owns the elements and searches the later updates for these indices.
#include "scatter.h"

#include <algorithm>
#include <string>
#include <vector>

#include "general.h"
#include "group.h"
#include "printer.h"

namespace yoke::codegen {

using program::Program;
using program::Statement;
using program::Type;

namespace {

constexpr std::uint32_t kScatterThreads = 256;
constexpr std::uint64_t kMostScatterBlocks = (std::uint64_t{1} << 32U) / kScatterThreads;  // HIP's limit
constexpr std::uint64_t kMostUpdates = 1U << 17U;  // every owner looks at all of them

class ScatterPrinter {
 public:
  ScatterPrinter(Builder& builder, std::size_t number)
      : builder_(builder),
        statement_(builder.program().statements[number]),
        printer_(builder, !fits_in_int(builder.program(), statement_)) {
    const std::vector<bool> independent = program::independent_loops(statement_);
    for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
      if (statement_.reduces(loop)) {
        continue;
      }
      const std::uint64_t extent = statement_.loops[loop].extent;
      const bool is_other = independent[loop];
      (is_other ? others_ : updates_).push_back(loop);
      (is_other ? other_extents_ : update_extents_).push_back(extent);
      (is_other ? other_count_ : update_count_) *= extent;
    }
  }

  // Blocks per update.
  std::uint64_t blocks_each() const { return (other_count_ + kScatterThreads - 1) / kScatterThreads; }
  std::uint64_t update_count() const { return update_count_; }

  void plan() {
    printer_.select(statement_);
    const std::string each = std::to_string(blocks_each());
    const std::string threads = std::to_string(kScatterThreads);
    printer_.line("YK_SHARED unsigned long long words[" + threads + " / 8];  // `hits`");
    printer_.line("unsigned char* const hits = (unsigned char*)words;  // by update of a window");
    printer_.line(
        "YK_SHARED volatile int state[2];  // whether there is an earlier update; the last window with a "
        "hit");
    printer_.line("const int owner = (int)(blockIdx.x / " + each + ");");
    print_key("mine", "owner");
    printer_.line("if (mine < 0) return;");
    printer_.line("if (threadIdx.x < 2) state[threadIdx.x] = 0;");
    printer_.line("YK_SYNC();");
    printer_.open("for (int u = (int)threadIdx.x; u < owner && state[0] == 0; u += " + threads + ")");
    print_key("key", "u");
    printer_.line("if (key == mine) state[0] = 1;");
    printer_.close();
    printer_.line("YK_SYNC();");
    printer_.line("if (state[0] != 0) return;");
    print_updates();
    Launch launch = printer_.launch();
    launch.kernel = builder_.kernel(kScatterThreads, printer_.text());
    launch.grid[0] = static_cast<std::uint32_t>(update_count_ * blocks_each());
    builder_.launch(std::move(launch));
  }

 private:
  void bind(const std::vector<std::uint32_t>& loops, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < loops.size(); ++i) {
      printer_.bind(loops[i], names[i]);
    }
  }

  // Declares the number of the first element that an update writes; -1 if an index is out of range.
  void print_key(const std::string& name, const std::string& update) {
    printer_.line("long long " + name + ";");
    printer_.open("");
    bind(others_, std::vector<std::string>(others_.size(), "0"));
    bind(updates_, split(printer_, update, update_extents_));
    const Printer::Place place = printer_.place(statement_.target);
    printer_.line(name + " = " + (place.inside.empty() ? "" : place.inside + " ? ") + "(long long)(" +
                  place.element + ")" + (place.inside.empty() ? "" : " : -1ll") + ";");
    printer_.close();
  }

  void print_updates() {
    const std::string type(printer_.index_type());
    const std::string threads = std::to_string(kScatterThreads);
    const std::uint32_t tensor = statement_.target.tensor;
    const Type of = builder_.program().tensors[tensor].type;
    printer_.line(type + " other = (" + type + ")(blockIdx.x % " + std::to_string(blocks_each()) + ") * " +
                  threads + " + (" + type + ")threadIdx.x;");
    // Threads without an element help to search.
    printer_.line("const bool active = other < " + std::to_string(other_count_) + ";");
    printer_.line("if (!active) other = 0;");
    bind(others_, split(printer_, "other", other_extents_));
    bind(updates_, split(printer_, "owner", update_extents_));
    const std::string element = printer_.place(statement_.target).element;
    printer_.line(std::string(value_type(of)) +
                  " result = " + from_memory(of, printer_.tensor(tensor) + "[" + element + "]") + ";");
    const std::string count = std::to_string(update_count_);
    printer_.open("for (int window = owner; window < " + count + "; window += " + threads + ")");
    printer_.line("const int u = window + (int)threadIdx.x;");
    printer_.line("int hit = 0;");
    printer_.open("if (u < " + count + ")");
    print_key("key", "u");
    printer_.line("hit = key == mine;");
    printer_.close();
    printer_.line("hits[threadIdx.x] = (unsigned char)hit;");
    printer_.line("if (hit) state[1] = window + 1;");
    printer_.line("YK_SYNC();");
    printer_.open("for (int i = state[1] == window + 1 ? 0 : " + threads + "; i < " + threads + "; ++i)");
    printer_.line("if (i % 8 == 0 && words[i / 8] == 0) { i += 7; continue; }");
    printer_.line("if (hits[i] == 0) continue;");
    printer_.line("const int update = window + i;");
    bind(others_, split(printer_, "other", other_extents_));
    bind(updates_, split(printer_, "update", update_extents_));
    const std::string term = printer_.named(of, printer_.reduced());
    printer_.line("result = " + printer_.applied(op(), of, {"result", term}) + ";");
    printer_.close();
    printer_.line("YK_SYNC();");
    printer_.close();
    printer_.line("if (active) " + printer_.tensor(tensor) + "[" + element +
                  "] = " + to_memory(of, "result") + ";");
  }

  program::Op op() const {
    switch (statement_.assign) {
      case program::Assign::kMul:
        return program::Op::kMul;
      case program::Assign::kMax:
        return program::Op::kMax;
      case program::Assign::kMin:
        return program::Op::kMin;
      case program::Assign::kAdd:
      case program::Assign::kSet:
        break;
    }
    return program::Op::kAdd;
  }

  Builder& builder_;
  const Statement& statement_;
  Printer printer_;
  std::vector<std::uint32_t> updates_;
  std::vector<std::uint32_t> others_;
  std::vector<std::uint64_t> update_extents_;
  std::vector<std::uint64_t> other_extents_;
  std::uint64_t update_count_ = 1;
  std::uint64_t other_count_ = 1;
};

// Whether an index of the target is an element that depends on a loop whose iterations never conflict.
bool has_varying_indices(const Statement& statement) {
  const std::vector<bool> independent = program::independent_loops(statement);
  bool found = false;
  for (const program::Index& index : statement.target.indices) {
    for (const program::Affine& affine : index.element_indices) {
      for (const program::Affine::Term& term : affine.terms) {
        found = found || (!term.is_symbol && independent[term.id] && statement.loops[term.id].extent > 1);
      }
    }
  }
  return found;
}

bool reads_its_target(const Statement& statement) {
  bool reads_target = false;
  program::visit_read_tensors(statement.value, [&](std::uint32_t tensor) {
    reads_target = reads_target || tensor == statement.target.tensor;
  });
  return reads_target;
}

// The type that atomicAdd() is called with; empty if it has none for elements of the type.
std::string_view atomic_type(const Target& target, Type type) {
  switch (type) {
    case Type::kF32:
      return "float";
    case Type::kF64:
      return target.dialect == Dialect::kHip || target.capability >= 60 ? "double" : "";
    case Type::kI64:
      return "unsigned long long";  // the bits of sums are the same
    case Type::kI32:
      return "int";
    case Type::kU32:
      return "unsigned";
    default:
      return "";
  }
}

// A thread for each update and each iteration of the other loops.
void plan_atomic_scatter(Builder& builder, const Statement& statement) {
  const Type type = builder.program().tensors[statement.target.tensor].type;
  const std::string as(atomic_type(builder.target(), type));
  Printer printer(builder, !fits_in_int(builder.program(), statement));
  printer.select(statement);
  std::vector<std::uint32_t> loops;
  std::vector<std::uint64_t> extents;
  std::uint64_t count = 1;
  for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
    if (!statement.reduces(loop)) {
      loops.push_back(loop);
      extents.push_back(statement.loops[loop].extent);
      count *= extents.back();
    }
  }
  const std::uint32_t blocks = open_elements(printer, count, kScatterThreads, "e");
  const std::vector<std::string> names = split(printer, "e", extents);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    printer.bind(loops[i], names[i]);
  }
  const Printer::Place place = printer.place(statement.target);
  printer.open(place.inside.empty() ? "" : "if (" + place.inside + ")");
  const std::string term = printer.named(type, printer.reduced());
  printer.line("atomicAdd((" + as + "*)(" + printer.tensor(statement.target.tensor) + " + " + place.element +
               "), (" + as + ")" + term + ");");
  printer.close();
  printer.close();
  Launch launch = printer.launch();
  launch.kernel = builder.kernel(kScatterThreads, printer.text());
  launch.grid[0] = blocks;
  launch.remark = "adds in any order";
  builder.launch(std::move(launch));
  if (type == Type::kF32 || type == Type::kF64) {
    builder.adds_in_any_order();
  }
}

}  // namespace

bool plan_scatter(Builder& builder, std::size_t number) {
  const Program& program = builder.program();
  const Statement& statement = program.statements[number];
  if (!program::has_element_index(statement.target) || reads_its_target(statement)) {
    return false;
  }
  if (builder.target().atomics && statement.assign == program::Assign::kAdd &&
      !atomic_type(builder.target(), program.tensors[statement.target.tensor].type).empty()) {
    plan_atomic_scatter(builder, statement);
    return true;
  }
  if (has_varying_indices(statement)) {
    return false;
  }
  ScatterPrinter printer(builder, number);
  if (printer.update_count() < 2 || printer.update_count() > kMostUpdates ||
      printer.blocks_each() >= kMostScatterBlocks / printer.update_count()) {
    return false;
  }
  printer.plan();
  return true;
}

}  // namespace yoke::codegen
