// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/parallel_update.h: training by hand-written routines, distributed over workers in turn.
#pragma once

#include <yoke/train_helpers.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace yoke {

// What parallel_update runs. A worker is a context in which the gradient program of a GradUpdate was linked. Worker 0
// is the owner; `sgd_update` was linked in its context.
struct ParallelUpdate {
  std::vector<Context> contexts;            // per worker, with the tensors of the programs
  std::vector<LinkedRoutine> grad_updates;  // per worker
  LinkedRoutine sgd_update;
  // The symbols that the routines use. Those with `iterate` are iterated over, the last one fastest. The caller may set
  // the values of the others at any time, also in post_sync, by find_exn(*bindings, symbol).value: they apply to all
  // later launches. Bindings must not be added or removed.
  std::shared_ptr<std::vector<Binding>> bindings = std::make_shared<std::vector<Binding>>();
  bool copy_to_merge = false;  // copies tensors before merging them, instead of reading them in place
  // Called after each synchronization with the number of workers that took part in it. May be empty.
  std::function<void(std::uint32_t num_synced)> post_sync = {};
};

// Returns a function that iterates over the bindings and runs the workers in turn. After each round, and at the end if
// the last round is incomplete, it adds up the gradients and losses of the workers that ran, in a tree that ends at the
// owner; runs sgd_update; copies the parameters to all workers; and calls post_sync. It only queues work; reading a
// value waits for it. All merges are linked here, and only for rounds that will happen.
//
// Errors: kInvalidArgument: the list of workers is empty, or the lists differ in length; the workers' routines do not
// have the same symbols; `bindings` is null; a symbol has no binding, or one with another range; or a context lacks a
// parameter. kNotFound:
// the context of a worker whose gradients are merged lacks them.
std::function<void()> parallel_update(const ParallelUpdate& run, const GradUpdate& update);

}  // namespace yoke
