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
        std::uint32_t taken = updated_product(next);
        taken = taken != 0 ? taken : region(next);
        // A sum that is carried from tile to tile must not become a product within a tile.
        taken = taken != 0 || is_carried(next) ? taken : product(next);
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
  // next statement, which adds a bias.
  std::uint32_t product(std::uint32_t id) {
    std::string why_not;
    auto found = recognize(program(), program().statements[id], why_not);
    if (!found) {
      return convolution(id) ? 1 : 0;
    }
    if (found->multiplications() < kSmallProduct) {
      note(id, true, "tile kernel: the product is too small for a library call");
      return 0;
    }
    if (const std::uint32_t taken = panel_product(id, *found); taken != 0) {
      return taken;
    }
    if (product_with_bias(id, *found)) {
      return 2;
    }
    LibraryCalls calls = divide(library(), *found, false, why_not);
    if (!calls.pieces.empty()) {
      add_calls({id}, *found, std::nullopt, std::move(calls));
      return 1;
    }
    if (convolution(id)) {
      return 1;
    }
    if (!fits_tables(*found)) {
      note(id, true, "tile kernel: " + why_not);
      return 0;
    }
    note(id, true, "cc blocked matmul: " + why_not);
    LibraryStep step{.a = found->a, .b = found->b, .t = found->t};
    if (!plan_only_) {
      step.own = std::make_unique<const Gemm>(*found, *options_.table);
    }
    result_.steps.push_back({{id}, -1, std::move(step)});
    return 1;
  }

  bool product_with_bias(std::uint32_t id, const Contraction& product) {
    if (id + 1 >= last_of_hint(id)) {
      return false;
    }
    const Statement& statement = program().statements[id];
    auto bias = recognize_bias(program(), statement, product, program().statements[id + 1]);
    if (!bias || !may_replace(id, product, bias->target)) {
      return false;
    }
    Contraction whole = product;
    whole.t = std::move(bias->target);
    std::string why_not;
    LibraryCalls calls = divide(library(), whole, true, why_not);
    if (calls.pieces.empty()) {
      return false;
    }
    add_calls({id, id + 1}, whole, std::move(bias->bias), std::move(calls));
    return true;
  }

  // Whether the product in statement `id` may write the target of the next statement instead of its own. It
  // reads the operands while it writes the target.
  bool may_replace(std::uint32_t id, const Contraction& product, const Operand& target) const {
    return target.tensor != product.a.tensor && target.tensor != product.b.tensor &&
           (target.tensor == product.t.tensor || !uses_->is_needed_after(product.t.tensor, id + 1));
  }

  // Returns how many statements the product covers: 0 (panels do not suit it), 1, or 2 with a bias and relu.
  std::uint32_t panel_product(std::uint32_t id, const Contraction& product) {
    LibraryStep step{.a = product.a, .b = product.b, .t = product.t};
    step.panel = PanelProduct::make(product, *options_.table, options_.threads, false);
    if (!step.panel) {
      return 0;
    }
    if (id + 1 < last_of_hint(id)) {
      const Statement& statement = program().statements[id];
      const Statement& next = program().statements[id + 1];
      auto bias = recognize_relu(program(), statement, product, next);
      const bool is_relu = bias.has_value();
      bias = is_relu ? std::move(bias) : recognize_bias(program(), statement, product, next);
      if (bias && may_replace(id, product, bias->target)) {
        step.t = std::move(bias->target);
        step.bias = std::move(bias->bias);
        step.is_relu = is_relu;
        note(id + 1, true,
             is_relu ? "bias and maximum of the preceding product" : "bias of the preceding product");
      }
    }
    return add_panel_product(id, std::move(step));
  }

  // A product whose result the next statement, in the same hint, scales and subtracts from its target.
  // Returns how many statements it covers: 0 or 2.
  std::uint32_t updated_product(std::uint32_t id) {
    std::string why_not;
    const std::span<const Statement> statements = program().statements;
    const auto found = recognize(program(), statements[id], why_not);
    if (!found || id + 1 >= last_of_hint(id) || is_carried(id)) {
      return 0;
    }
    auto update = recognize_update(program(), statements[id], *found, statements[id + 1]);
    if (!update || !may_replace(id, *found, update->target)) {
      return 0;
    }
    LibraryStep step{.a = found->a, .b = found->b, .t = update->target};
    step.panel = PanelProduct::make(*found, *options_.table, options_.threads, true);
    if (!step.panel) {
      return 0;
    }
    step.update = std::move(update);
    note(id + 1, true, "update of the preceding product");
    return add_panel_product(id, std::move(step));
  }

  std::uint32_t add_panel_product(std::uint32_t id, LibraryStep step) {
    const bool covers_next = step.update || step.bias;
    note(id, true, covers_next ? "cc product in panels, with the next statement" : "cc product in panels");
    std::vector<std::uint32_t> ids = {id};
    if (covers_next) {
      ids.push_back(id + 1);
    }
    result_.steps.push_back({std::move(ids), -1, std::move(step)});
    return covers_next ? 2 : 1;
  }

  LibraryOptions library() const { return {*options_.engine, options_.threads, plan_only_}; }

  // Returns whether the statement is a convolution that oneDNN computes.
  bool convolution(std::uint32_t id) {
    std::string why_not;
    const auto found = recognize_convolution(program(), program().statements[id], why_not);
    if (!found || found->multiplications() < kSmallProduct) {
      return false;
    }
    LibraryCalls calls = divide(library(), *found, why_not);
    if (calls.pieces.empty()) {
      note(id, true, "tile kernel: " + why_not);
      return false;
    }
    add_calls({id}, *found, std::nullopt, std::move(calls));
    return true;
  }

  void add_calls(std::vector<std::uint32_t> statements, const SumOfProducts& sum, std::optional<Operand> bias,
                 LibraryCalls calls) {
    const std::string& description = calls.pieces[0].call.description;
    note(statements[0], true, description + (bias ? " with the bias of the next statement" : ""));
    if (bias) {
      note(statements[1], true, "bias of the preceding oneDNN matmul");
    }
    result_.steps.push_back(
        {std::move(statements), -1,
         LibraryStep{
             .a = sum.a, .b = sum.b, .t = sum.t, .bias = std::move(bias), .calls = std::move(calls)}});
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
