// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/harness.cpp: runs programs on cc and compares the results with the reference executor.
#include "harness.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "evaluate.h"
#include "routine.h"

namespace yoke::cc::test {

using program::Program;
using program::Role;
using program::Tensor;
using program::Type;

namespace {

constexpr std::size_t kGuard = 192;
constexpr std::byte kGuardByte{0xA5};

const DnnlEngine& engine() {
  static const DnnlEngine shared;
  return shared;
}

// A workspace filled with NaN, so that reads of bytes that were never written change the results.
struct Workspace {
  explicit Workspace(std::uint64_t byte_count) : guarded(byte_count + 64) {
    std::memset(guarded.data(), 0xFF, guarded.byte_count());
    const auto address = reinterpret_cast<std::uintptr_t>(guarded.data());
    base = guarded.data() + ((64 - address % 64) % 64);
  }
  Guarded guarded;
  std::byte* base = nullptr;
};

}  // namespace

Guarded::Guarded(std::uint64_t byte_count)
    : memory_(byte_count + 2 * kGuard, kGuardByte), byte_count_(byte_count) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  offset_ = 64 + (64 - address % 64) % 64;
}

bool Guarded::guards_are_intact() const {
  const auto intact = [](std::byte b) { return b == kGuardByte; };
  return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(offset_), intact) &&
         std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + byte_count_), memory_.end(),
                     intact);
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables(8);
  tables.resize(static_cast<std::size_t>(usable_kernels(tables.data(), 8)));
  return tables;
}

std::string text_of(const std::string& body, const std::string& symbols) {
  return "yoke.program 1\nprogram p(" + symbols + ") {\n" + body + "}\n";
}

Program read(std::string_view text) {
  return program::parse_and_verify(text).programs.at(0);
}

double ulp_distance(Type type, double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) {
    return 0;
  }
  if (!program::is_float(type) || std::isnan(x) || std::isnan(y) || std::isinf(x) || std::isinf(y)) {
    return std::numeric_limits<double>::infinity();
  }
  const int digits = type == Type::kF64 ? 53 : type == Type::kF32 ? 24 : type == Type::kF16 ? 11 : 8;
  const int lowest = type == Type::kF64 ? -1022 : type == Type::kF16 ? -14 : -126;
  int exponent = 0;
  std::frexp(std::max(std::fabs(x), std::fabs(y)), &exponent);
  return std::fabs(x - y) / std::ldexp(1.0, std::max(exponent - 1, lowest) - digits + 1);
}

std::shared_ptr<const CompiledProgram> compile(const Program& program, int threads, const KernelTable* table,
                                               std::int64_t tile_bytes, std::uint64_t large_result_bytes) {
  CompileOptions options{&engine(), table == nullptr ? &best_kernels() : table, threads};
  options.tile_bytes = tile_bytes;
  options.large_result_bytes = large_result_bytes;
  return std::make_shared<const CompiledProgram>(compile_program(program, options));
}

void run_on_cc(const std::shared_ptr<const CompiledProgram>& compiled,
               const std::vector<std::byte*>& arguments, const std::vector<std::int64_t>& symbols) {
  Workspace workspace(compiled->workspace_byte_count);
  BoundProgram bound(compiled, arguments, workspace.base);
  bound.launch(symbols);
  EXPECT_TRUE(workspace.guarded.guards_are_intact()) << "out-of-bounds write to the workspace\n"
                                                     << program::print(compiled->program);
}

struct Launchable::Impl {
  std::vector<Guarded> memory;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<BoundProgram> bound;
};

Launchable::Launchable(const Program& program) : impl_(std::make_unique<Impl>()) {
  std::vector<std::byte*> arguments;
  impl_->memory.reserve(program.tensors.size());
  for (const std::uint32_t id : program.arguments()) {
    impl_->memory.emplace_back(program.tensors[id].byte_count());
    std::memset(impl_->memory.back().data(), 0, impl_->memory.back().byte_count());
    arguments.push_back(impl_->memory.back().data());
  }
  auto compiled = compile(program);
  impl_->workspace = std::make_unique<Workspace>(compiled->workspace_byte_count);
  impl_->bound = std::make_unique<BoundProgram>(std::move(compiled), arguments, impl_->workspace->base);
}

Launchable::~Launchable() = default;
void Launchable::launch() {
  impl_->bound->launch({});
}

std::vector<Guarded> start_of(const conformance::Case& one) {
  return guarded(conformance::initial_arguments(one));
}

std::vector<Guarded> guarded(const conformance::Contents& contents) {
  std::vector<Guarded> arguments;
  for (const std::vector<std::byte>& bytes : contents) {
    arguments.emplace_back(bytes.size());
    std::memcpy(arguments.back().data(), bytes.data(), bytes.size());
  }
  return arguments;
}

conformance::Contents contents_of(const std::vector<Guarded>& arguments) {
  conformance::Contents contents;
  for (const Guarded& each : arguments) {
    contents.emplace_back(each.data(), each.data() + each.byte_count());
  }
  return contents;
}

std::vector<Guarded> run_guarded(const std::shared_ptr<const CompiledProgram>& compiled,
                                 const std::vector<Guarded>& start,
                                 const std::vector<std::int64_t>& symbols) {
  const Program& program = compiled->program;
  std::vector<Guarded> got = start;
  std::vector<std::byte*> arguments;
  for (Guarded& memory : got) {
    arguments.push_back(memory.data());
  }
  run_on_cc(compiled, arguments, symbols);
  const std::vector<std::uint32_t> ids = program.arguments();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Tensor& tensor = program.tensors[ids[i]];
    EXPECT_TRUE(got[i].guards_are_intact()) << "out-of-bounds write to " << tensor.name << "\n"
                                            << program::print(program);
    if (tensor.role == Role::kIn) {
      EXPECT_EQ(std::memcmp(got[i].data(), start[i].data(), got[i].byte_count()), 0)
          << "the input " << tensor.name << " was overwritten";
    }
  }
  return got;
}

bool same_bytes(const std::vector<Guarded>& a, const std::vector<Guarded>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Guarded& one, const Guarded& other) {
    return std::memcmp(one.data(), other.data(), one.byte_count()) == 0;
  });
}

void check_launch(const conformance::Case& one, const std::vector<std::int64_t>& symbols, int threads,
                  std::span<const KernelTable* const> tables) {
  const std::vector<Guarded> start = start_of(one);
  const conformance::AllowedResults allowed(one, symbols);
  for (const KernelTable* table : tables) {
    SCOPED_TRACE("seed " + std::to_string(one.seed) + ", kernels " + table->name + ", threads " +
                 std::to_string(threads) + "\n" + program::print(one.program));
    const auto compiled = compile(one.program, threads, table);
    const std::vector<Guarded> got = run_guarded(compiled, start, symbols);
    EXPECT_EQ(allowed.compare(contents_of(got)), "");
    EXPECT_TRUE(same_bytes(got, run_guarded(compiled, start, symbols)))
        << "the second run wrote different bits";
  }
}

void expect_like_reference(std::string_view text, std::uint64_t seed, const Data& data) {
  conformance::Case one;
  one.seed = seed;
  one.program = read(text);
  one.data.assign(one.program.tensors.size(), {data.kind, 1, -1});
  check_launch(one, data.symbols, data.threads, all_tables());
}

std::vector<std::string> notes_of(std::string_view text) {
  std::vector<std::string> notes;
  const auto compiled = compile(read(text));
  for (const Note& note : compiled->notes) {
    notes.push_back(note.reason);
  }
  EXPECT_EQ(plan_program(read(text), {&engine(), &best_kernels(), 1}), compiled->notes);
  return notes;
}

conformance::Case case_of(const std::string& text) {
  conformance::Case one;
  one.seed = 5;
  one.program = read(text);
  one.data.assign(one.program.tensors.size(), {conformance::DataKind::kUniform, 1, -1});
  return one;
}

bool has_note(const CompiledProgram& compiled, const std::string& part) {
  return std::any_of(compiled.notes.begin(), compiled.notes.end(),
                     [&](const Note& note) { return note.reason.find(part) != std::string::npos; });
}

void expect_same_bits(const conformance::Case& one, const std::vector<std::int64_t>& symbols,
                      std::int64_t tile_bytes, int threads) {
  program::Program without_hints = one.program;
  for (program::Statement& statement : without_hints.statements) {
    statement.hint = -1;
  }
  const auto whole = compile(without_hints, 1, nullptr, 0);
  const auto tiles = compile(one.program, threads, nullptr, tile_bytes);
  ASSERT_TRUE(has_note(*tiles, "tile by tile"));
  const std::vector<Guarded> start = start_of(one);
  EXPECT_TRUE(same_bytes(run_guarded(whole, start, symbols), run_guarded(tiles, start, symbols)))
      << program::print(one.program) << "\nin tiles of " << tile_bytes << " bytes, " << threads << " threads";
}

bool has_panels() {
  return best_kernels().panel != nullptr;
}

}  // namespace yoke::cc::test
