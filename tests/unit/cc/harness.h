// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/harness.h: runs programs on cc and compares the results with the reference executor.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "case.h"
#include "compile.h"
#include "tile/kernels.h"

namespace yoke::cc::test {

// The memory of one argument, between guard bytes.
class Guarded {
 public:
  explicit Guarded(std::uint64_t byte_count);
  std::byte* data() { return memory_.data() + offset_; }
  const std::byte* data() const { return memory_.data() + offset_; }
  std::uint64_t byte_count() const { return byte_count_; }
  bool guards_are_intact() const;

 private:
  std::vector<std::byte> memory_;
  std::uint64_t offset_ = 0;
  std::uint64_t byte_count_ = 0;
};

std::vector<const KernelTable*> all_tables();

// The text of a program `p` with these declarations, statements and symbols.
std::string text_of(const std::string& body, const std::string& symbols = "");
program::Program read(std::string_view text);

// Runs a launch on cc twice with each table. Checks that it writes only its outputs, that the conformance kit
// allows the results, and that both runs write the same bits.
void check_launch(const conformance::Case& one, const std::vector<std::int64_t>& symbols, int threads,
                  std::span<const KernelTable* const> tables);
inline void check_launch(const conformance::Case& one, const std::vector<std::int64_t>& symbols, int threads,
                         const KernelTable& table) {
  const KernelTable* const tables[] = {&table};
  check_launch(one, symbols, threads, tables);
}
// Calls check_launch for a text with every kernel table. `data` selects the kind of the arguments.
struct Data {
  conformance::DataKind kind = conformance::DataKind::kUniform;
  std::vector<std::int64_t> symbols = {};
  int threads = 1;
};
void expect_like_reference(std::string_view text, std::uint64_t seed, const Data& data = {});

// Returns how cc runs each statement.
std::vector<std::string> notes_of(std::string_view text);

// Compiles the program. If `table` is null, uses the best kernels. Results of several KiB are large.
std::shared_ptr<const CompiledProgram> compile(const program::Program& program, int threads = 1,
                                               const KernelTable* table = nullptr,
                                               std::int64_t tile_bytes = CompileOptions{}.tile_bytes,
                                               std::uint64_t large_result_bytes = 4096);

// Runs the program on cc with these arguments. Checks that it stays within its workspace.
void run_on_cc(const std::shared_ptr<const CompiledProgram>& compiled,
               const std::vector<std::byte*>& arguments, const std::vector<std::int64_t>& symbols);
inline void run_on_cc(const program::Program& program, const std::vector<std::byte*>& arguments,
                      const std::vector<std::int64_t>& symbols) {
  run_on_cc(compile(program), arguments, symbols);
}

// As above, with arguments between guard bytes. Checks that guards and
// inputs are unchanged. Returns the arguments.
std::vector<Guarded> run_guarded(const std::shared_ptr<const CompiledProgram>& compiled,
                                 const std::vector<Guarded>& start, const std::vector<std::int64_t>& symbols);
// The contents of the arguments before a launch.
std::vector<Guarded> start_of(const conformance::Case& one);
std::vector<Guarded> guarded(const conformance::Contents& contents);
conformance::Contents contents_of(const std::vector<Guarded>& arguments);
bool same_bytes(const std::vector<Guarded>& a, const std::vector<Guarded>& b);

// A case with uniform arguments.
conformance::Case case_of(const std::string& text);
bool has_note(const CompiledProgram& compiled, const std::string& part);
// Checks that the tiles write the same bits as the statements do when they run one by one.
void expect_same_bits(const conformance::Case& one, const std::vector<std::int64_t>& symbols,
                      std::int64_t tile_bytes, int threads = 1);

// A program linked to its own zeroed memory.
class Launchable {
 public:
  explicit Launchable(const program::Program& program);
  ~Launchable();
  void launch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

double ulp_distance(program::Type type, double x, double y);

// Whether this machine has kernels for products in panels; without them, oneDNN computes these products.
bool has_panels();

}  // namespace yoke::cc::test
