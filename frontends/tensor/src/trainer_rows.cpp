// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_rows.cpp: steps in which the numbers of rows of shards change, computed in pieces whose
// sizes were compiled at setup.
#include <yoke/ops.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;
using detail::LossGraph;
using detail::NamedProgram;
using detail::PieceRoutines;
using detail::PieceSize;
using detail::Variant;

namespace {

constexpr std::int64_t kMostWeight = 1'000'000;

void fill_number(const Context& context, const char* name, double value) {
  context.stream()->fill(context.tensor(name).view, &value, sizeof(value));
}

}  // namespace

void Trainer::Impl::check_row_weights(std::span<const std::int64_t> weights, std::int64_t least,
                                      const char* what) const {
  if (weights.size() != shard_backends.size()) {
    fail(std::string(what) + ": " + detail::counted(weights.size(), "weight") + " for " +
         detail::counted(shard_backends.size(), "shard") + "; give one per shard");
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] < least || weights[k] > kMostWeight) {
      fail(std::string(what) + ": the weight of shard " + std::to_string(k) + " is " +
           std::to_string(weights[k]) + "; choose " + std::to_string(least) + " to 1000000");
    }
  }
  if (std::all_of(weights.begin(), weights.end(), [](std::int64_t weight) { return weight == 0; })) {
    fail(std::string(what) +
         ": all weights are 0, so no shard would get rows; choose at least one that is not");
  }
}

// The weights of all micro-batches, in the order of their rows.
std::vector<std::uint64_t> Trainer::Impl::micro_weights() const {
  std::vector<std::uint64_t> weights(shard_backends.size() * per_shard, 1);
  for (std::size_t k = 0; k < row_weights.size(); ++k) {
    std::fill_n(weights.begin() + first_micro[k], per_shard, static_cast<std::uint64_t>(row_weights[k]));
  }
  return weights;
}

// A program for each number of rows that a run with fixed rows has, and for the powers of two below: any number of
// rows is a sum of few of these.
void Trainer::Impl::build_pieces() {
  std::vector<std::uint64_t> sizes;
  for (const detail::RowPlan& run : {plan, is_fed() ? plan : plan_of(most_rows)}) {
    sizes.insert(sizes.end(), run.rows.begin(), run.rows.end());
    sizes.insert(sizes.end(), run.tail.begin(), run.tail.end());
  }
  const std::uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  for (std::uint64_t power = 1; power <= largest; power *= 2) {
    sizes.push_back(power);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  Variant made;
  made.rows = plan.rows;
  made.first_in_batch = detail::rows_before(made.rows);
  made.weights = detail::loss_weights(made.rows, options.reduction);
  made.active = static_cast<std::uint32_t>(made.rows.size());
  made.loss_total = detail::kLossTotal;
  made.loss_weight = detail::kLossWeight;
  for (const std::uint64_t size : sizes) {
    if (size == 0) {
      continue;
    }
    const auto starts = static_cast<std::int64_t>(capacity() - size + 1);
    const Batch piece = detail::each_field(data, capacity(), [&](const Tensor& all) {
      return rows(all, Symbol{detail::kRowSymbol, 0, starts, 1}, size);
    });
    const Tensor share = placeholder(detail::kLossWeight, Type::kF64, {});
    made.graph = build_loss(piece, options.reduction == Reduction::kMean ? share : Tensor(), share);
    piece_sizes.push_back({size, build_piece(made.graph, size)});
  }
  made.programs.push_back(piece_sizes.front().program);
  variants.push_back(std::move(made));
  first_rows.resize(plan.rows.size());
}

// Computes the gradients of a piece, and adds its weighted loss to the loss of its micro-batch and to the totals.
NamedProgram Trainer::Impl::build_piece(const LossGraph& graph, std::uint64_t rows) {
  const auto number = [](const char* name) { return placeholder(name, Type::kF64, {}); };
  const Tensor whole = placeholder("loss", graph.loss.type(), {});
  const Tensor total = number(detail::kLossTotal);
  const Tensor total_of_shards = number(detail::kLossTotalOfShards);
  const Tensor bad = number(detail::kFiniteSteps);
  const Tensor share = number(detail::kShardShare);
  const Tensor loss = cast(graph.loss, Type::kF64);
  const Symbol step{detail::kStepNumber, 0, std::int64_t{1} << 62U, 1};
  const Tensor bad_now =
      where(abs(loss) <= detail::kLargestLoss, bad, -1.0 - cast(symbol_value(step), Type::kF64));
  std::vector<Update> stores = {{whole, whole + graph.loss * cast(share, graph.loss.type())},
                                {total, total + loss * number(detail::kLossWeight)},
                                {total_of_shards, total_of_shards + loss * share},
                                {bad, where(bad < 0.0, bad, bad_now)}};
  for (const Field& metric : graph.metrics) {
    const Tensor sum = number((detail::kMetric + metric.name).c_str());
    stores.push_back({sum, sum + metric.tensor * number(detail::kLossWeight)});
  }
  std::vector<Output> outputs;
  std::map<std::string, std::string> names;
  add_gradients(graph, outputs, names);
  const Lowered lowered = lower("gradient_of_" + std::to_string(rows) + "_rows", outputs, stores);
  check_reductions(lowered.program);
  check_values(lowered);
  return detail::name_program(lowered, names, "literal/gradient/" + std::to_string(rows) + "/");
}

void Trainer::Impl::make_piece_tensors(std::size_t s) {
  Context& context = micro_batches[s].context;
  for (const char* name : {detail::kLossTotalOfShards, detail::kShardShare}) {
    context.allocate(name, {YOKE_TYPE_F64, {}});
    fill_number(context, name, 0);
  }
  const detail::MicroBatch& first = micro_batches[first_micro[micro_batches[s].shard]];
  for (std::size_t i = 0; slot_rows(s) == 0 && i < slot_count(); ++i) {
    for (const Field& field : data.fields()) {
      const auto& [spec, view] = first.slots[i].tensor(field.name);
      micro_batches[s].slots[i].adopt(field.name, spec, view);
    }
  }
}

void Trainer::Impl::link_pieces(const std::vector<std::shared_ptr<Buffer>>& workspaces) {
  pieces.clear();
  for (std::uint32_t i = 0; i < set_count() * slot_count(); ++i) {  // as routine_slot()
    const std::uint32_t set = i / slot_count();
    for (std::size_t s = 0; s < micro_batches.size(); ++s) {
      const std::uint32_t k = micro_batches[s].shard;
      Context first = micro_batches[s].slots[i % slot_count()];
      Context later = first.child();
      sums[k].adopt_gradients(later, static_cast<std::uint32_t>(s) - first_micro[k], true);
      PieceRoutines& made = pieces.emplace_back();
      for (const PieceSize& size : piece_sizes) {
        prepare(contexts[k], size.program);  // shares the literals between the shard's routines
        made.first.push_back(link(first, size.program, (*symbols)[k], workspaces[k], set));
        made.later.push_back(link(later, size.program, (*symbols)[k], workspaces[k], set));
      }
    }
  }
}

// Records the rows of this step. Allocates nothing.
Variant& Trainer::Impl::choose_rows() {
  Variant& now = variants[0];
  const bool is_tail = batch_number >= plan.full_batches;
  const std::vector<std::uint64_t>& rows = is_fed() ? fed_rows[slot()] : is_tail ? plan.tail : plan.rows;
  std::copy(rows.begin(), rows.end(), now.rows.begin());
  std::exclusive_scan(rows.begin(), rows.end(), now.first_in_batch.begin(), std::uint64_t{0});
  batch_rows = std::accumulate(rows.begin(), rows.end(), std::uint64_t{0});
  std::uint64_t first = is_fed() ? 0 : batch_number * plan.batch;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    if (is_fed() && s % per_shard == 0) {
      first = 0;  // each shard has only its rows
    }
    first_rows[s] = first;
    first += rows[s];
    const double share = static_cast<double>(rows[s]) / static_cast<double>(batch_rows);
    now.weights[s] = rows[s] == 0 ? 0 : options.reduction == Reduction::kSum ? 1 : share;
  }
  return now;
}

void Trainer::Impl::queue_pieces(Variant& now, std::uint32_t k, std::uint32_t number) {
  const std::uint32_t s = first_micro[k] + number;
  const std::uint64_t rows = now.rows[s];
  if (rows == 0 && (number == 0 || is_reproducible())) {
    sums[k].clear(number);
  } else if (rows == 0) {
    return;
  } else {
    const std::uint64_t zero = 0;
    const Context& context = micro_batches[s].context;
    context.stream()->fill(context.tensor("loss").view, &zero, 1);
    for (const Field& metric : metrics()) {
      context.stream()->fill(context.tensor(detail::kMetric + metric.name).view, &zero, 1);
    }
  }
  SymbolTable& table = (*symbols)[k];
  PieceRoutines& routines = pieces[routine_slot() * micro_batches.size() + s];
  std::uint64_t done = 0;
  for (std::int64_t piece = 0; done < rows; ++piece) {
    std::size_t i = 0;
    while (piece_sizes[i].rows > rows - done) {
      ++i;
    }
    const auto size = static_cast<double>(piece_sizes[i].rows);
    const bool is_sum = options.reduction == Reduction::kSum;
    fill_number(micro_batches[s].context, detail::kLossWeight, size / static_cast<double>(batch_rows));
    fill_number(micro_batches[s].context, detail::kShardShare, is_sum ? 1 : size / static_cast<double>(rows));
    table.set(detail::kRowSymbol, static_cast<std::int64_t>(first_rows[s] + done));
    table.set(batch_row_symbol().name, static_cast<std::int64_t>(now.first_in_batch[s] + done));
    table.set(seed_symbol().name, options.base_seed + s + piece * kMaxShards);
    (piece == 0 ? routines.first : routines.later)[i].run(table);
    if (piece > 0) {
      sums[k].add_piece(number);
    }
    done += piece_sizes[i].rows;
  }
  sums[k].add(number);
}

void Trainer::Impl::set_row_weights(std::span<const std::int64_t> weights) {
  if (!is_varying() || is_reproducible()) {
    throw Error(ErrorCode::kFailedPrecondition,
                is_varying() ? "options.reproducible needs equal parts of a batch; set it to 0"
                             : "the rows of the shards are fixed; set options.varying_rows");
  }
  check_row_weights(weights, 0, "row weights");
  row_weights.assign(weights.begin(), weights.end());
  plan = detail::RowPlan::make(plan.total, plan.batch, micro_weights());
  for (std::int64_t number = step_number; number < fetched; ++number) {
    send(fed_batches[static_cast<std::size_t>(number % detail::kFeedSlots)], number);
  }
}

const std::vector<std::int64_t>& Trainer::row_weights() const {
  return impl_->row_weights;
}

void Trainer::set_row_weights(std::span<const std::int64_t> weights) {
  Impl::at_step(impl_, "set_row_weights()", [&] { impl_->set_row_weights(weights); });
}

}  // namespace yoke
