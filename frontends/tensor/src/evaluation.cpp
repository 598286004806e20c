// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/evaluation.cpp: means of metrics over a data set, computed on all shards.
#include <yoke/mode.h>
#include <yoke/ops.h>

#include <algorithm>
#include <array>

#include "all_reduce.h"
#include "evaluation_impl.h"
#include "host_copy.h"

namespace yoke {

using detail::NamedProgram;
using detail::RowPlan;

namespace {

std::string total_name(std::size_t metric) {
  return "yoke/total/" + std::to_string(metric);
}

// The program that adds rows * metric to the totals of shard k.
NamedProgram metrics_program(const RowPlan& plan, std::size_t k, bool is_tail, const Batch& data,
                             const MetricsOf& metrics_of, const std::string& prefix,
                             std::size_t& metric_count) {
  const Batch batch = detail::each_field(data, plan.part_rows(k),
                                         [&](const Tensor& all) { return plan.batch_of(all, k, is_tail); });
  const std::vector<Tensor> metrics = in_mode(metrics_of(batch), Mode::kEval).values;
  metric_count = metrics.size();
  const auto rows = static_cast<double>(is_tail ? plan.tail[k] : plan.rows[k]);
  std::vector<Update> updates;
  std::map<std::string, std::string> given;
  for (const Field& field : data.fields()) {
    given[field.name] = prefix + field.name;
  }
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    if (!metrics[m] || metrics[m].rank() != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "evaluation: metric " + std::to_string(m) +
                      (metrics[m] ? " has shape " + dims_text(metrics[m].dims()) : " is an empty Tensor") +
                      "; each must be a scalar");
    }
    const std::string name = total_name(m);
    const Tensor total = placeholder(name, Type::kF64, {});
    updates.push_back({total, total + cast(metrics[m], Type::kF64) * rows});
    given[name] = prefix + name;
  }
  const Lowered lowered = lower("evaluate", {}, updates);
  if (detail::has_all_reduce(lowered.program)) {
    throw Error(ErrorCode::kInvalidArgument,
                "evaluation: the metrics use all_reduce, which only the loss may use; a metric is averaged "
                "over all rows");
  }
  return detail::name_program(lowered, given, prefix + (is_tail ? "tail_literal/" : "literal/"));
}

// Per shard: the programs for full batches and for the last batch; empty for shards without rows in them.
std::vector<std::array<NamedProgram, 2>> metrics_programs(const RowPlan& plan, const Batch& data,
                                                          const MetricsOf& metrics_of,
                                                          const std::string& prefix,
                                                          std::size_t& metric_count) {
  std::vector<std::array<NamedProgram, 2>> programs;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> same_shape;  // rows and tail -> first shard
  for (std::size_t k = 0; k < plan.rows.size(); ++k) {
    const auto [found, is_new] = same_shape.try_emplace({plan.rows[k], plan.tail[k]}, k);
    if (!is_new) {
      programs.push_back(programs[found->second]);
      continue;
    }
    programs.emplace_back();
    for (const bool is_tail : {false, true}) {
      if ((is_tail ? plan.tail[k] : plan.rows[k]) > 0) {
        programs.back()[is_tail ? 1 : 0] =
            metrics_program(plan, k, is_tail, data, metrics_of, prefix, metric_count);
      }
    }
  }
  return programs;
}

void upload_rows(const RowPlan& plan, const Tensor& data, const std::string& name, std::size_t k,
                 Context& context) {
  TensorSpec spec{static_cast<std::int32_t>(data.type()), data.dims()};
  spec.dims[0] = plan.part_rows(k);
  context.allocate(name, spec);
  detail::write_now(context, name, plan.pack(data.host_bytes(), k));
}

}  // namespace

Evaluation Trainer::evaluation(const Batch& data, const MetricsOf& metrics_of, std::int64_t batch_rows) {
  const bool is_host_data = std::all_of(data.fields().begin(), data.fields().end(), [&](const Field& field) {
    const Tensor& tensor = field.tensor;
    return tensor && tensor.source() == Source::kLiteral && tensor.rank() > 0 &&
           tensor.dims()[0] == data.row_count();
  });
  if (data.row_count() == 0 || !is_host_data || batch_rows < 1) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "evaluation: the data must be host data with the same number of rows, and batch_rows must be at "
        "least 1");
  }
  if (!metrics_of) {
    throw Error(ErrorCode::kInvalidArgument, "evaluation: metrics_of is an empty function");
  }
  auto made = std::make_shared<Evaluation::Impl>();
  made->data = data;
  made->metrics_of = metrics_of;
  made->batch_rows = static_cast<std::uint64_t>(batch_rows);
  made->prefix = "evaluation/" + std::to_string(impl_->evaluation_count++) + "/";
  if (impl_->redistributes()) {
    Impl::at_step(impl_, "evaluation()", [&] { impl_->prepare_evaluation(*made); });
  } else {
    impl_->prepare_evaluation(*made);
    made->data = Batch();
    made->metrics_of = nullptr;
  }
  made->trainer = &impl_;
  std::erase_if(impl_->evaluations, [](const auto& each) { return each.expired(); });
  impl_->evaluations.push_back(made);
  Evaluation evaluation;
  evaluation.impl_ = std::move(made);
  return evaluation;
}

void Trainer::Impl::prepare_evaluation(Evaluation::Impl& made) {
  Evaluation::Impl::Parts parts;
  const std::uint64_t total = made.data.row_count();
  parts.plan =
      RowPlan::make(total, std::min(total, made.batch_rows), static_cast<std::uint32_t>(shards.size()));
  parts.trainer_symbols = symbols;
  parts.symbols = *symbols;
  parts.scalars = scalars;
  parts.set = whole_set;
  const auto programs =
      metrics_programs(parts.plan, made.data, made.metrics_of, made.prefix, parts.metric_count);
  std::uint64_t row_bytes = 0;
  for (const Field& field : made.data.fields()) {
    row_bytes += field.tensor.host_bytes().size() / total;
  }
  const std::vector<MemoryNeed> before = needs;
  try {
    for (std::size_t k = 0; k < programs.size(); ++k) {
      parts.has_full.push_back(parts.plan.rows[k] > 0);
      parts.has_tail.push_back(parts.plan.tail[k] > 0);
      need_of(*shards[k].stream->device()).data += parts.plan.part_rows(k) * row_bytes;
      for (const NamedProgram& program : programs[k]) {
        for (std::uint32_t set = 0; set < set_count() && !program.text.empty(); ++set) {
          count_routine(k, program);
        }
      }
    }
    check_memory();
  } catch (...) {  // a refused evaluation needs nothing
    needs = before;
    throw;
  }
  parts.full.resize(set_count());
  parts.tail.resize(set_count());
  for (std::size_t k = 0; k < programs.size(); ++k) {
    Context context = contexts[k].child();
    if (parts.plan.part_rows(k) > 0) {
      for (const auto& [name, tensor] : made.data.fields()) {
        upload_rows(parts.plan, tensor, made.prefix + name, k, context);
      }
      for (std::size_t m = 0; m < parts.metric_count; ++m) {
        context.allocate(made.prefix + total_name(m), {YOKE_TYPE_F64, {}});
      }
    }
    for (std::uint32_t set = 0; set < set_count(); ++set) {
      for (const bool is_tail : {false, true}) {
        const NamedProgram& program = programs[k][is_tail ? 1 : 0];
        (is_tail ? parts.tail : parts.full)[set].push_back(
            program.text.empty() ? StepRoutine() : link(context, program, parts.symbols[k], nullptr, set));
      }
    }
    parts.contexts.push_back(context);
  }
  for (std::size_t m = 0; m < parts.metric_count; ++m) {
    parts.totals.push_back(made.prefix + total_name(m));
  }
  made.parts = std::move(parts);
}

std::vector<double> Evaluation::run() {
  if (impl_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition,
                "cannot run an empty Evaluation; create one with Trainer::evaluation()");
  }
  return impl_->trainer != nullptr
             ? Trainer::Impl::at_step(*impl_->trainer, "evaluation", [&] { return impl_->run(); })
             : impl_->run();
}

std::vector<double> Evaluation::Impl::run() {
  Parts& now = parts;
  if (now.scalars == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition,
                "evaluation: its trainer lost shards and could not go on with the others; train again");
  }
  now.scalars->send();
  const std::uint64_t zero = 0;
  for (std::size_t k = 0; k < now.contexts.size(); ++k) {
    if (!now.has_full[k] && !now.has_tail[k]) {
      continue;
    }
    const Context& context = now.contexts[k];
    for (const std::string& total : now.totals) {
      context.stream()->fill(context.tensor(total).view, &zero, 1);
    }
    now.symbols[k].take_values((*now.trainer_symbols)[k]);
  }
  const std::vector<std::uint64_t> before = detail::rows_before(now.plan.rows);
  // Alternates between the shards, so that all of them get work early.
  for (std::uint64_t b = 0; b < now.plan.full_batches; ++b) {
    for (std::size_t k = 0; k < now.contexts.size(); ++k) {
      if (now.has_full[k]) {
        now.symbols[k].set(detail::kRowSymbol, now.plan.first_row(k, b));
        now.symbols[k].set(batch_row_symbol().name, static_cast<std::int64_t>(before[k]));
        now.full[*now.set][k].run(now.symbols[k]);
      }
    }
  }
  const std::vector<std::uint64_t> before_in_tail = detail::rows_before(now.plan.tail);
  for (std::size_t k = 0; k < now.contexts.size(); ++k) {
    if (now.has_tail[k]) {
      now.symbols[k].set(batch_row_symbol().name, static_cast<std::int64_t>(before_in_tail[k]));
      now.tail[*now.set][k].run(now.symbols[k]);
    }
  }
  std::vector<double> sums(now.totals.size(), 0.0);
  for (std::size_t k = 0; k < now.contexts.size(); ++k) {
    if (!now.has_full[k] && !now.has_tail[k]) {
      continue;
    }
    for (std::size_t m = 0; m < sums.size(); ++m) {
      sums[m] += detail::read_scalar<double>(now.contexts[k], now.totals[m]);
    }
  }
  for (double& sum : sums) {
    sum /= static_cast<double>(now.plan.total);
  }
  return sums;
}

}  // namespace yoke
