// SPDX-License-Identifier: Apache-2.0
// plugins/cc/compile.cpp: compiles a program to a list of steps: matrix products and tile kernels.
#include "compile.h"

#include <yoke/program/memory.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "group.h"
#include "pool.h"
#include "workspace.h"

namespace yoke::cc {

using program::Program;
using program::Statement;

namespace {

// Gemm (gemm.h) builds offset tables only for extents below this.
constexpr std::int64_t kLargestTable = std::int64_t{1} << 22;

class Compiler {
 public:
  Compiler(Program program, const CompileOptions& options, bool plan_only)
      : options_(options), plan_only_(plan_only) {
    result_.program = std::move(program);
    uses_.emplace(result_.program);
    lives_ = program::lifetimes(result_.program);
    result_.threads = options.threads;
    result_.notes.resize(result_.program.statements.size());
  }

  CompiledProgram compile() {
    const OneOpenMpThread one;  // oneDNN picks block sizes for the current number of threads
    for (const program::Block& block : program().blocks()) {
      const std::size_t first_step = result_.steps.size();
      for (auto next = static_cast<std::uint32_t>(block.first); next < block.last;) {
        std::string why_not;
        const auto found = recognize(program(), program().statements[next], why_not);
        std::uint32_t taken = found ? updated_product(next, *found) : 0;
        taken = taken != 0 ? taken : region(next);
        // A sum that is carried from tile to tile must not become a product within a tile.
        taken = taken != 0 || is_carried(next) ? taken : product(next, found);
        next += taken != 0 ? taken : tile_group(next);
      }
      for (std::size_t i = first_step; i < result_.steps.size(); ++i) {
        result_.steps[i].repeat = block.repeat;
      }
    }
    if (!plan_only_) {
      place_memory(result_, lives_);
    }
    return std::move(result_);
  }

 private:
  const Program& program() const { return result_.program; }

  bool is_carried(std::uint32_t id) const {
    return options_.original.carried != nullptr && (*options_.original.carried)[id];
  }

  // Statements are compiled together only if they are in the same hint. The program of a tile counts as one
  // hint.
  std::uint32_t last_of_hint(std::uint32_t id) const {
    if (options_.original.program != nullptr) {
      return static_cast<std::uint32_t>(program().statements.size());
    }
    return program().statements[id].hint < 0 ? id + 1 : end_of_region(program(), id);
  }

  void note(std::uint32_t statement, bool native, std::string reason) {
    result_.notes[statement] = {native, std::move(reason)};
  }

  // Returns how many statements run tile by tile, from `first` on; 0 if none do.
  std::uint32_t region(std::uint32_t first) {
    const Statement& statement = program().statements[first];
    const bool starts = statement.hint >= 0 &&
                        (first == 0 || program().statements[first - 1].hint != statement.hint) &&
                        !program().hints[static_cast<std::size_t>(statement.hint)].loops.empty();
    if (options_.tile_bytes == 0 || options_.original.program != nullptr || (!starts && !statement.reduce)) {
      return 0;
    }
    const RegionOptions options{options_.threads, options_.tile_bytes};
    RegionRun run = find_run(program(), first);
    const std::uint32_t region_count = starts ? end_of_region(program(), first) - first : 0;
    std::optional<Region> cut;
    if (run.places.size() > region_count) {
      cut = cut_run(program(), first, run, lives_, options);
    }
    // If the whole group is one kernel, intermediate values stay in registers, which is better than tiles.
    const auto none = [](std::uint32_t) { return false; };
    if (!cut && starts &&
        group_from(program(), first, first + region_count, {}, none).size() < region_count) {
      run = run_of_hint(program(), first);
      cut = cut_run(program(), first, run, lives_, options);
    }
    if (!cut) {
      return 0;
    }
    const auto count = static_cast<std::uint32_t>(run.places.size());
    RegionStep step;
    std::vector<Store> stores;
    for (const std::uint32_t tensor : cut->tensors) {
      stores.push_back(store_of(tensor, first + count - 1));
    }
    const Original original{&program(), first, &run.carried, &stores};
    step.tile = compile_tile(std::move(cut->tile), original);
    if (cut->tail) {
      step.tail = compile_tile(std::move(*cut->tail), original);
    }
    std::erase_if(cut->slices,
                  [&](const Region::Slice& slice) { return !caches(*step.tile, slice.operand.tensor); });
    step.region = std::move(*cut);
    step.carried = std::move(run.carried);
    const std::string tiles = std::to_string(step.region.tile_count()) + " tiles";
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Note& one = step.tile->notes[i];
      note(first + i, one.native, one.reason + ", tile by tile in a region of " + tiles);
      ids.push_back(first + i);
    }
    result_.steps.push_back({std::move(ids), -1, std::move(step)});
    return count;
  }

  // What happens to a value that a statement up to `last` writes.
  Store store_of(std::uint32_t tensor, std::uint32_t last) const {
    if (!uses_->is_needed_after(tensor, last)) {
      return Store::kNever;
    }
    const bool is_large = program().tensors[tensor].byte_count() >= options_.large_result_bytes;
    const bool past_caches = options_.original.stores == nullptr
                                 ? is_large
                                 : (*options_.original.stores)[tensor] == Store::kPastCaches;
    return past_caches && !uses_->is_read_after(tensor, last) ? Store::kPastCaches : Store::kMemory;
  }

  // Returns false if the program only writes the tensor, past the caches.
  static bool caches(const CompiledProgram& compiled, std::uint32_t tensor) {
    return std::any_of(compiled.steps.begin(), compiled.steps.end(), [&](const Step& step) {
      const auto* kernel = std::get_if<TileKernel>(&step.work);
      return kernel == nullptr || caches_tensor(*kernel, tensor);
    });
  }

  std::shared_ptr<const CompiledProgram> compile_tile(Program tile, const Original& original) const {
    CompileOptions options = options_;
    options.threads = 1;
    options.original = original;
    return std::make_shared<const CompiledProgram>(Compiler(std::move(tile), options, plan_only_).compile());
  }

  // Returns how many statements the product covers: 0 (statement `id` is not a product), 1, or 2 with the
  // next statement, which adds a bias. `found` is the product as recognized, or empty.
  std::uint32_t product(std::uint32_t id, const std::optional<Contraction>& found) {
    if (!found) {
      return convolution(id) ? 1 : 0;
    }
    if (found->multiplications() < kSmallProduct) {
      note(id, true, "tile kernel: the product is too small for a library call");
      return 0;
    }
    std::optional<Epilogue> next = epilogue(id, *found);
    if (next && next->kind == Epilogue::Kind::kUpdate) {
      next.reset();
    }
    if (const std::uint32_t taken = panel_product(id, *found, next); taken != 0) {
      return taken;
    }
    std::string why_not;
    LibraryStep step;
    if (next && next->kind == Epilogue::Kind::kBias) {
      Contraction whole = *found;
      whole.t = next->target;
      step.calls = divide(library(), whole, true, why_not);
    }
    if (step.calls.pieces.empty()) {
      next.reset();
      step.calls = divide(library(), *found, false, why_not);
    }
    if (!step.calls.pieces.empty()) {
      step.epilogue = std::move(next);
      return add(id, *found, std::move(step));
    }
    if (convolution(id)) {
      return 1;
    }
    if (!fits_tables(*found)) {
      note(id, true, "tile kernel: " + why_not);
      return 0;
    }
    if (!plan_only_) {
      step.own = std::make_unique<const Gemm>(*found, *options_.table);
    }
    return add(id, *found, std::move(step), "cc blocked matmul: " + why_not);
  }

  // What the next statement, in the same hint, computes from the result of the product in statement `id`, if the
  // product may write the target of the next statement instead of its own. It reads the operands while it
  // writes the target.
  std::optional<Epilogue> epilogue(std::uint32_t id, const Contraction& product) const {
    if (id + 1 >= last_of_hint(id)) {
      return std::nullopt;
    }
    const std::span<const Statement> statements = program().statements;
    auto next = recognize_epilogue(program(), statements[id], product, statements[id + 1]);
    const std::uint32_t z = product.t.tensor;
    const bool replaces = next && next->target.tensor != product.a.tensor &&
                          next->target.tensor != product.b.tensor &&
                          (next->target.tensor == z || !uses_->is_needed_after(z, id + 1));
    return replaces ? std::move(next) : std::nullopt;
  }

  // A product whose result the next statement scales and subtracts from its target. Returns how many
  // statements it covers: 0 or 2.
  std::uint32_t updated_product(std::uint32_t id, const Contraction& product) {
    std::optional<Epilogue> next = epilogue(id, product);
    const bool updates = next && next->kind == Epilogue::Kind::kUpdate && !is_carried(id);
    return updates ? panel_product(id, product, std::move(next)) : 0;
  }

  // Returns how many statements the product covers: 0 (panels do not suit it), 1, or 2 with the next one.
  std::uint32_t panel_product(std::uint32_t id, const Contraction& product, std::optional<Epilogue> next) {
    LibraryStep step;
    step.panel = PanelProduct::make(product, *options_.table, options_.threads,
                                    next && next->kind == Epilogue::Kind::kUpdate);
    step.epilogue = std::move(next);
    return step.panel ? add(id, product, std::move(step), "cc product in panels") : 0;
  }

  // Adds a step that computes a sum and, if `step` has an epilogue, the next statement. `how` is the
  // description of the library's call if it is empty. Returns how many statements the step covers.
  std::uint32_t add(std::uint32_t id, const SumOfProducts& sum, LibraryStep step, std::string how = {}) {
    constexpr const char* kNotes[] = {"bias of the preceding product",
                                      "bias and maximum of the preceding product",
                                      "update of the preceding product"};  // by kind
    how = how.empty() ? step.calls.pieces[0].call.description : how;
    step.a = sum.a;
    step.b = sum.b;
    step.t = step.epilogue ? step.epilogue->target : sum.t;
    std::vector<std::uint32_t> ids = {id};
    if (step.epilogue) {
      note(id + 1, true, kNotes[static_cast<std::size_t>(step.epilogue->kind)]);
      how += ", with the next statement";
      ids.push_back(id + 1);
    }
    note(id, true, std::move(how));
    const auto count = static_cast<std::uint32_t>(ids.size());
    result_.steps.push_back({std::move(ids), -1, std::move(step)});
    return count;
  }

  LibraryOptions library() const { return {*options_.engine, options_.threads, plan_only_}; }

  // Returns whether the statement is a convolution that oneDNN computes.
  bool convolution(std::uint32_t id) {
    std::string why_not;
    const auto found = recognize_convolution(program(), program().statements[id], why_not);
    if (!found || found->multiplications() < kSmallProduct) {
      return false;
    }
    LibraryStep step;
    step.calls = divide(library(), *found, why_not);
    if (step.calls.pieces.empty()) {
      note(id, true, "tile kernel: " + why_not);
      return false;
    }
    return add(id, *found, std::move(step)) != 0;
  }

  static bool fits_tables(const Contraction& c) {
    return std::max({extent_of(c.batch), extent_of(c.m), extent_of(c.n), extent_of(c.k)}) < kLargestTable;
  }

  std::uint32_t tile_group(std::uint32_t first) {
    const std::vector<std::uint32_t> group = group_from(
        program(), first, last_of_hint(first), options_.original,
        [&](std::uint32_t id) { return is_carried(id) || !is_product(program(), program().statements[id]); });
    std::vector<Store> stores(program().tensors.size(), Store::kMemory);
    for (const std::uint32_t id : group) {
      const std::uint32_t tensor = program().statements[id].target.tensor;
      stores[tensor] = store_of(tensor, group.back());
    }
    TileKernel kernel = build_tile_kernel(program(), group, stores, *options_.table, options_.original);
    kernel.carried = group.size() == 1 && is_carried(first);
    for (const std::uint32_t id : group) {
      if (group.size() > 1 && is_carried(id)) {
        const std::uint32_t alone[] = {id};
        TileKernel sum = build_tile_kernel(program(), alone, stores, *options_.table, options_.original);
        sum.carried = sum.fed = true;
        kernel.carries.push_back(result_.steps.size());
        result_.steps.push_back({{id}, -1, std::move(sum)});
      }
    }
    const bool after_matmul = !result_.steps.empty() && reads_result_of_last(group);
    for (const std::uint32_t id : group) {
      const Statement& statement = program().statements[id];
      std::string reason = statement.reduce ? "tile kernel, reduction" : "tile kernel";
      if (group.size() > 1) {
        reason += ", one of " + std::to_string(group.size()) + " fused statements";
      }
      reason += after_matmul ? ", right after the product that it reads" : "";
      reason += stores[statement.target.tensor] == Store::kNever ? ", result stays in registers" : "";
      reason += kernel.element_wise ? ", some accesses are done one element at a time" : "";
      reason = result_.notes[id].reason.empty() ? reason : result_.notes[id].reason;
      note(id, !kernel.element_wise, reason);
    }
    result_.steps.push_back({group, -1, std::move(kernel)});
    return static_cast<std::uint32_t>(group.size());
  }

  bool reads_result_of_last(const std::vector<std::uint32_t>& group) const {
    const auto* call = std::get_if<LibraryStep>(&result_.steps.back().work);
    if (call == nullptr) {
      return false;
    }
    bool found = false;
    for (const std::uint32_t id : group) {
      visit_read_tensors(program().statements[id].value,
                         [&](std::uint32_t tensor) { found = found || tensor == call->t.tensor; });
    }
    return found;
  }

  CompileOptions options_;
  bool plan_only_;
  std::optional<Uses> uses_;
  std::vector<program::Lifetime> lives_;
  CompiledProgram result_;
};

}  // namespace

CompiledProgram compile_program(Program program, const CompileOptions& options) {
  return Compiler(std::move(program), options, false).compile();
}

std::vector<Note> plan_program(Program program, const CompileOptions& options) {
  return Compiler(std::move(program), options, true).compile().notes;
}

}  // namespace yoke::cc
