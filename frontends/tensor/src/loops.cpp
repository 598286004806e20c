// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loops.cpp: loops over symbols, run by one worker or by several in turn.
#include <yoke/train_helpers.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "node.h"

namespace yoke {

using detail::fail;

namespace {

void loop_over(std::vector<Binding>& bindings, std::size_t at, const std::function<void(std::size_t)>& on_set,
               const std::function<void()>& f) {
  while (at < bindings.size() && !bindings[at].iterate) {
    ++at;
  }
  if (at == bindings.size()) {
    f();
    return;
  }
  Binding& binding = bindings[at];
  if (binding.symbol.step < 1) {
    fail("symbol '" + binding.symbol.name + "' has step " + std::to_string(binding.symbol.step) +
         "; the step must be at least 1");
  }
  // Restores the value even if `f` throws.
  const auto restore = [&binding, before = binding.value](void*) { binding.value = before; };
  const std::unique_ptr<void, decltype(restore)> restored(&binding, restore);
  std::int64_t value = binding.symbol.low;
  for (bool goes_on = value < binding.symbol.high; goes_on;) {
    binding.value = value;
    on_set(at);
    loop_over(bindings, at + 1, on_set, f);
    // Without overflow, also at the end of the type.
    goes_on = !__builtin_add_overflow(value, binding.symbol.step, &value) && value < binding.symbol.high;
  }
}

template <class Function>
void require_function(const Function& function, const char* what) {
  if (!function) {
    fail(std::string(what) + " is empty");
  }
}

}  // namespace

Binding& find_exn(std::vector<Binding>& bindings, const Symbol& symbol) {
  std::string known;
  for (Binding& binding : bindings) {
    if (binding.symbol == symbol) {
      return binding;
    }
    known += (known.empty() ? "'" : ", '") + binding.symbol.name + "'";
  }
  throw Error(ErrorCode::kNotFound,
              "find_exn: no binding of symbol '" + symbol.name + "' with its range; " +
                  (known.empty() ? "the list of bindings is empty; add one for the symbol"
                                 : "the bindings are " + known));
}

void sequential_loop(std::vector<Binding>& bindings, const std::function<void()>& f) {
  require_function(f, "sequential_loop: the function");
  loop_over(
      bindings, 0, [](std::size_t) {}, f);
}

void round_robin(std::span<const std::function<void()>> workers,
                 std::span<std::vector<Binding>> worker_bindings, std::vector<Binding>& bindings,
                 const std::function<void(std::uint32_t)>& sync) {
  const auto count = static_cast<std::uint32_t>(workers.size());
  if (count == 0 || worker_bindings.size() != workers.size()) {
    fail("round_robin: expected at least one worker, and one list of bindings per worker");
  }
  for (const std::function<void()>& worker : workers) {
    require_function(worker, "round_robin: a worker");
  }
  require_function(sync, "round_robin: the function sync");
  for (const std::vector<Binding>& own : worker_bindings) {
    const bool same = std::equal(own.begin(), own.end(), bindings.begin(), bindings.end(),
                                 [](const Binding& a, const Binding& b) { return a.symbol == b.symbol; });
    if (!same) {
      fail("round_robin: every worker must have the symbols of `bindings`, in the same order");
    }
  }
  std::size_t innermost = bindings.size();
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    innermost = bindings[i].iterate ? i : innermost;
  }
  std::uint64_t position = 0;
  std::vector<std::int64_t> latest(bindings.size());
  const auto on_set = [&](std::size_t at) {
    for (std::size_t worker = 0; worker < count; ++worker) {
      if (at != innermost || worker == position % count) {
        worker_bindings[worker][at].value = bindings[at].value;
      }
    }
  };
  loop_over(bindings, 0, on_set, [&] {
    workers[position % count]();
    ++position;
    std::transform(bindings.begin(), bindings.end(), latest.begin(),
                   [](const Binding& binding) { return binding.value; });
    if (position % count == 0) {
      sync(count);
    }
  });
  if (position % count == 0) {
    return;
  }
  // The last sync sees the values of the last call, as the others do.
  const auto exchange = [&](void*) {
    for (std::size_t i = 0; i < bindings.size(); ++i) {
      if (bindings[i].iterate) {  // sync may set the others
        std::swap(bindings[i].value, latest[i]);
      }
    }
  };
  exchange(nullptr);
  const std::unique_ptr<void, decltype(exchange)> restored(&latest, exchange);
  sync(static_cast<std::uint32_t>(position % count));
}

void round_robin_dry_run(std::uint32_t worker_count, const std::vector<Binding>& bindings,
                         const std::function<void(std::uint32_t)>& dry_sync) {
  if (worker_count == 0) {
    fail("round_robin_dry_run: expected at least one worker");
  }
  require_function(dry_sync, "round_robin_dry_run: the function dry_sync");
  std::vector<Binding> scratch = bindings;
  std::uint64_t position = 0;
  sequential_loop(scratch, [&] {
    if (++position % worker_count == 0) {
      dry_sync(worker_count);
    }
  });
  if (position % worker_count != 0) {
    dry_sync(static_cast<std::uint32_t>(position % worker_count));
  }
}

}  // namespace yoke
