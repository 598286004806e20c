// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/parallel_update.cpp: merges, updates and publishes after each round of hand-written routines.
#include <yoke/parallel_update.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "node.h"

namespace yoke {

using detail::fail;

namespace {

bool has_range(const SymbolInfo& used, const Symbol& symbol) {
  return used.low == symbol.low && used.high == symbol.high && used.step == symbol.step;
}

// The positions in `bindings` of a routine's symbols.
std::vector<std::size_t> slots_of(const LinkedRoutine& routine, const std::vector<Binding>& bindings) {
  std::vector<std::size_t> slots;
  for (const SymbolInfo& used : routine.symbols()) {
    const auto at = std::find_if(bindings.begin(), bindings.end(),
                                 [&](const Binding& b) { return b.symbol.name == used.name; });
    if (at == bindings.end() || !has_range(used, at->symbol)) {
      fail("parallel_update: the symbol '" + used.name + "' of routine '" + routine.name() +
           (at == bindings.end() ? "' has no binding" : "' has a binding with another range") +
           "; all routines must have the same bindings");
    }
    slots.push_back(static_cast<std::size_t>(at - bindings.begin()));
  }
  return slots;
}

// A routine that takes the values of its symbols from bindings.
struct BoundRoutine {
  LinkedRoutine routine;
  std::vector<std::size_t> slots;
  std::vector<std::int64_t> values;

  void run(const std::vector<Binding>& bindings) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      values[i] = bindings[slots[i]].value;
    }
    routine.run(values);
  }
};

BoundRoutine bound(const LinkedRoutine& routine, const std::vector<Binding>& bindings) {
  std::vector<std::size_t> slots = slots_of(routine, bindings);
  std::vector<std::int64_t> values(slots.size());
  return {routine, std::move(slots), std::move(values)};
}

void check(const ParallelUpdate& run, const GradUpdate& update) {
  if (run.grad_updates.empty() || run.grad_updates.size() != run.contexts.size()) {
    fail("parallel_update: expected at least one worker, and one context per worker, but got " +
         detail::counted(run.grad_updates.size(), "routine") + " and " +
         detail::counted(run.contexts.size(), "context"));
  }
  if (run.bindings == nullptr) {
    fail("parallel_update: the list of bindings is null; an empty list is allowed");
  }
  const auto same = [](const SymbolInfo& a, const SymbolInfo& b) {
    return a.name == b.name && a.low == b.low && a.high == b.high && a.step == b.step;
  };
  const std::vector<SymbolInfo>& first = run.grad_updates[0].symbols();
  for (const LinkedRoutine& routine : run.grad_updates) {
    if (!std::equal(first.begin(), first.end(), routine.symbols().begin(), routine.symbols().end(), same)) {
      fail(
          "parallel_update: the routines of the workers differ in their symbols; all routines must have the "
          "same "
          "bindings");
    }
  }
  for (const Context& context : run.contexts) {
    for (const Parameter& parameter : update.params) {
      if (!context.has(parameter.name())) {
        fail("parallel_update: the context on stream '" + context.stream()->name() + "' has no tensor '" +
             parameter.name() + "'; allocate the tensors of the gradient program first");
      }
    }
  }
}

// What one call of the function iterates over and queues.
struct Rounds {
  std::shared_ptr<std::vector<Binding>> bindings;
  std::vector<std::vector<Binding>> own;  // per worker
  std::vector<std::function<void()>> workers;
  std::vector<BoundRoutine> gradients;  // per worker
  BoundRoutine sgd_update;
  std::map<std::uint32_t, LinkedCollective> merges;  // by the number of workers of a round
  LinkedCollective publish;
  std::function<void(std::uint32_t)> post_sync;

  // Gives the workers the values that the caller has set.
  void set_own() {
    for (std::vector<Binding>& one : own) {
      for (std::size_t i = 0; i < one.size() && i < bindings->size(); ++i) {
        one[i].value = (*bindings)[i].value;  // round_robin sets those that it iterates over again
      }
    }
  }
};

LinkedCollective link_merge(const ParallelUpdate& run, const GradUpdate& update, std::uint32_t worker_count,
                            const std::shared_ptr<CodeCache>& codes) {
  const auto group = Collectives::create(MergeStrategy::kTree, std::span(run.contexts).first(worker_count),
                                         run.copy_to_merge ? MergeUse::kCopy : MergeUse::kStreaming, codes);
  LinkedCollective merge;
  for (std::size_t i = 0; i < update.params.size(); ++i) {
    merge.add(group->reduce("gradient_" + std::to_string(i)));
  }
  merge.add(group->reduce("loss"));
  return merge;
}

}  // namespace

std::function<void()> parallel_update(const ParallelUpdate& run, const GradUpdate& update) {
  check(run, update);
  const auto rounds = std::make_shared<Rounds>();
  rounds->bindings = run.bindings;
  rounds->post_sync = run.post_sync;
  rounds->sgd_update = bound(run.sgd_update, *run.bindings);
  rounds->own.assign(run.grad_updates.size(), *run.bindings);
  for (std::size_t k = 0; k < run.grad_updates.size(); ++k) {
    rounds->gradients.push_back(bound(run.grad_updates[k], *run.bindings));
    rounds->workers.emplace_back([all = rounds.get(), k] { all->gradients[k].run(all->own[k]); });
  }
  const auto codes = std::make_shared<CodeCache>();
  const auto worker_count = static_cast<std::uint32_t>(run.grad_updates.size());
  round_robin_dry_run(worker_count, *run.bindings, [&](std::uint32_t count) {
    if (!rounds->merges.contains(count)) {
      rounds->merges.emplace(count, link_merge(run, update, count, codes));
    }
  });
  const auto everyone = Collectives::create(MergeStrategy::kOwner, run.contexts, MergeUse::kStreaming, codes);
  for (const Parameter& parameter : update.params) {
    rounds->publish.add(everyone->broadcast(parameter.name()));
  }
  return [rounds] {
    rounds->set_own();
    round_robin(rounds->workers, rounds->own, *rounds->bindings, [&](std::uint32_t count) {
      rounds->merges.at(count).run();
      rounds->sgd_update.run(*rounds->bindings);
      rounds->publish.run();
      if (rounds->post_sync) {
        rounds->post_sync(count);
        rounds->set_own();
      }
    });
  };
}

}  // namespace yoke
