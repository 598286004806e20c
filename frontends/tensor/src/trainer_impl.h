// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_impl.h: the state of a Trainer and the steps of its setup.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/lower.h>
#include <yoke/mode.h>
#include <yoke/runtime/feed.h>
#include <yoke/runtime/gradient_parts.h>
#include <yoke/runtime/gradient_sum.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "loss_scale.h"
#include "row_plan.h"
#include "scalar_table.h"
#include "trainer_types.h"

namespace yoke {

namespace detail {
struct LinkedRows;
}

struct Trainer::Impl {
  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Setup, in this order. In trainer_checks.cpp:
  void check_arguments();
  void check_learning_rate();
  void check_bindings() const;
  void check_max_rows() const;
  void check_reproducible() const;
  void check_reductions(const program::Program& loss) const;
  void check_symbols(const Lowered& lowered) const;
  void check_values(const Lowered& lowered) const;
  void check_data() const;
  void find_backends();
  void plan_micro_batches();
  // In trainer_graphs.cpp:
  detail::RowPlan plan_of(std::uint64_t rows) const;  // of data with so many rows
  void build_graphs();
  void build_variant(bool is_tail);
  InMode in_precision(InMode graph) const;
  // Without a weight, the loss has the weight 1.
  detail::LossGraph build_loss(const Batch& batch, const Tensor& weight, const Tensor& row_share);
  void check_metrics(const Loss& returned);
  void check_names() const;
  detail::NamedProgram build_program(const detail::LossGraph& graph, bool is_tail, std::size_t s);
  void add_gradients(const detail::LossGraph& graph, std::vector<Output>& outputs,
                     std::map<std::string, std::string>& names) const;
  // In trainer_updates.cpp:
  void check_groups() const;
  void check_number() const;
  void check_prior() const;
  std::vector<Update> update_of(const Tensor& value, const Tensor& gradient, const std::string& suffix,
                                std::uint32_t group, const Tensor& number);
  Tensor term_of(const Tensor& gradient, const Tensor& vector) const;
  Tensor number_of_total(const Tensor& total, const Tensor& vector) const;
  Tensor number_of(const std::vector<Tensor>& gradients) const;
  const detail::NamedProgram& update_program(const UpdateShape& shape);
  const detail::NamedProgram& measure_program(const UpdateShape& shape);
  detail::NamedProgram combine_program() const;
  void link_updates();
  // In trainer_setup.cpp:
  void open_shards();
  std::int64_t rows_of(const detail::Variant& variant, std::size_t k) const;
  void plan_steps();
  std::vector<StepParameter> step_parameters() const;
  void make_tensors();
  void make_symbols();
  void start_parameters();
  void link_steps();
  std::vector<std::shared_ptr<Buffer>> make_workspaces();
  void make_sums();
  void link_gradients();
  void link_parts();
  void set_up();
  void build();

  // In trainer_prior.cpp:
  void use_prior_devices();
  bool starts_from_prior(const Parameter& parameter) const;
  void update_prior() const;

  // In trainer_parts.cpp:
  GradientProgram describe_gradients(const detail::NamedProgram& program) const;
  void order_parameters();
  void cut_gradients();
  void cut_at_reductions();
  std::pair<passes::Cut, std::vector<detail::Variant::Reduced>> cut_at_reductions(
      const detail::NamedProgram& program);
  void link_reductions(detail::Variant& variant);
  void each_gradient_program(std::size_t k,
                             const std::function<void(const detail::NamedProgram& program)>& visit) const;
  void link_gradient_parts(const std::vector<std::shared_ptr<Buffer>>& workspaces);
  void link_whole_gradients();

  // In trainer_data.cpp:
  void upload(const Batch& all);
  void check_new_data(const Batch& given) const;
  void replace_data(const Batch& given);

  // With rows that vary, in trainer_rows.cpp:
  bool is_varying() const { return options.varying_rows; }
  void check_row_weights(std::span<const std::int64_t> weights, std::int64_t least, const char* what) const;
  std::vector<std::uint64_t> micro_weights() const;
  std::uint64_t capacity() const { return is_fed() ? plan.batch : most_rows; }  // rows in each slot
  void build_pieces();
  detail::NamedProgram build_piece(const detail::LossGraph& graph, std::uint64_t rows);
  void make_piece_tensors(std::size_t s);
  void link_pieces(const std::vector<std::shared_ptr<Buffer>>& workspaces);
  detail::Variant& choose_rows();
  void queue_pieces(detail::Variant& now, std::uint32_t k, std::uint32_t number);
  void set_row_weights(std::span<const std::int64_t> weights);

  // In trainer_measure.cpp:
  std::vector<std::string> device_kinds() const;
  std::vector<double> time_gradients(int repeats);
  void pretend_batch();
  void measure_row_weights();

  // In trainer_memory.cpp:
  MemoryNeed& need_of(const Device& device);
  void count_routine(std::size_t k, const detail::NamedProgram& program,
                     std::set<std::string>* counted = nullptr, std::uint64_t routines = 1);
  void count_gradients(std::size_t k);
  std::uint64_t workspace_of(std::uint32_t k);
  std::uint64_t row_bytes() const;  // of all fields
  void count_memory();
  void check_memory() const;

  // With a feed, in trainer_feed.cpp:
  bool is_fed() const { return feed.next != nullptr; }
  std::uint32_t slot_count() const { return is_fed() ? detail::kFeedSlots : 1; }
  std::uint32_t slot() const { return static_cast<std::uint32_t>(step_number % slot_count()); }
  void check_feed();
  void make_feeds();
  std::uint64_t staged_bytes(std::size_t k) const;  // of one batch
  void check_batch(const Batch& batch, std::uint64_t rows) const;
  bool is_tail_batch(std::int64_t number) const;  // the smaller last one of an epoch
  void send(const Batch& batch, std::int64_t number);
  bool fetch();
  void fetch_current();
  void fetch_ahead();

  // Makes the context's tensors for the program's literals and scalars, where they are missing.
  void prepare(Context& context, const detail::NamedProgram& program);
  StepRoutine link(Context& context, const detail::NamedProgram& program, const SymbolTable& table,
                   std::shared_ptr<Buffer> workspace = nullptr, std::uint32_t set = 0);

  // A single shard runs each step as one program, so its gradients may have no memory. A hand-written
  // loop's first call of a part links the parts.
  bool is_single() const { return shard_backends.size() == 1 && !has_sums(); }
  // Whether the loss is scaled. The number over all gradients then is the vector of loss_scale.h.
  bool is_scaled() const { return options.precision == Precision::kF16; }
  bool has_number() const { return is_scaled() || options.optimizer.rule().term; }
  bool is_reproducible() const { return options.reproducible != 0; }
  bool has_sums() const { return per_shard > 1 || is_reproducible() || is_varying(); }
  std::uint32_t extra_gradient_levels() const {
    return has_sums() ? GradientSum::extra_levels(per_shard, sum_order(), is_varying()) : 0;
  }
  SumOrder sum_order() const { return is_reproducible() ? SumOrder::kTree : SumOrder::kSequence; }
  // The rows in one slot of a micro-batch. If they vary, all micro-batches of a shard use the first one's.
  std::uint64_t slot_rows(std::size_t s) const {
    const bool is_first = s == first_micro[micro_batches[s].shard];
    return !is_varying() ? slot_plan.part_rows(s) : is_first ? capacity() : 0;
  }
  // Whether gradient programs run in parts, between which buckets are merged.
  bool is_cut() const { return !after_part.empty(); }
  // Whether tensors are reduced between the parts, because the loss uses all_reduce.
  bool has_reductions() const { return is_cut() && !variants[0].reduced.empty(); }
  bool shares_workspaces() const { return has_sums() || slot_count() > 1 || set_count() > 1 || is_cut(); }
  // The number of shards that get rows of such a batch; they come first. All shards take part in a reproducible
  // sum.
  // Shard k's last micro-batch with rows, unless the run is reproducible. Precondition: k < active_shards(variant).
  std::uint32_t last_micro(const detail::Variant& variant, std::uint32_t k) const {
    return std::min(variant.active, first_micro[k] + per_shard) - 1;
  }
  std::uint32_t active_shards(const detail::Variant& variant) const {
    return is_reproducible() ? static_cast<std::uint32_t>(shard_backends.size())
                             : (variant.active + per_shard - 1) / per_shard;
  }

  // A step, in trainer.cpp; its loss, in trainer_loss.cpp:
  void set_symbols();
  void advance_bindings();
  // The slot for the end of this step; until then, it holds the end of the step options.steps_ahead before.
  Event& step_end(std::size_t k) {
    return step_ends[k][static_cast<std::uint64_t>(step_number) % options.steps_ahead];
  }
  detail::Variant& begin_step();
  void finish_step(detail::Variant& now);
  void require_gradients(const char* what) const;
  void run_step();
  void queue_step();
  void select(const detail::Variant& now, std::size_t s);
  void queue_micro_batch(detail::Variant& now, std::uint32_t k, std::uint32_t number);
  void reset_seeds();
  void queue_gradients();
  void queue_parts(detail::Variant& now, bool merges);
  void queue_merge_and_update();
  void check_replicas();
  // In trainer_values.cpp:
  void require_parameter(const Parameter& parameter) const;
  CollectiveTensor replica(std::uint32_t k, const Parameter& parameter) const;
  std::vector<float> read(const Context& context, std::string_view name);
  void require_batch(std::string_view tensor) const;
  std::vector<float> compute(const Tensor& t);
  double combined_loss(std::span<const double> weights);
  const std::vector<Field>& metrics() const {
    static const std::vector<Field> none;
    return variants.empty()
               ? none
               : variants[0].graph.metrics;  // while shards are replaced, there may be no variants
  }
  std::vector<double> metric_weights() const;
  double combined_metric(const std::string& name);
  double take_loss_total(std::size_t s, const char* name);
  void advance();

  // In trainer_state.cpp:
  LossScale read_scale() const;
  void write_scale(const std::vector<std::byte>& bytes);
  TrainerState take_state() const;
  std::string state_problems(const TrainerState& state) const;
  void write_state(const TrainerState& state);

  // With on_device_lost = redistribute, in trainer_recovery.cpp:
  bool redistributes() const { return options.on_device_lost == OnDeviceLost::kRedistribute; }
  // A step reads the parameters of one set and writes the other. Routines are linked for each.
  std::uint32_t set_count() const { return redistributes() && shard_backends.size() > 1 ? 2 : 1; }
  std::uint32_t routine_slot() const { return step_plan.set() * slot_count() + slot(); }
  std::string name_now(std::string_view tensor) const { return StepPlan::name_in(*whole_set, tensor); }
  std::vector<std::string> kept_names() const;
  void require_whole_steps(const char* call) const;
  void settle();
  // Of the latest step. `each`: the loss of each shard; `of_metrics`: a value per shard, metric by metric.
  void record_losses(std::span<const double> each, std::span<const double> of_metrics);
  std::optional<Error> wait_for_all(const std::shared_ptr<std::vector<std::byte>>& memory) noexcept;
  std::vector<LostShard> find_lost() const;
  detail::Snapshot take_snapshot(const std::vector<bool>& is_lost) const;
  void restore_snapshot();
  void keep_row_weights();
  std::unique_ptr<Impl> successor(const std::vector<bool>& is_lost);
  // Continues without the shards that have failed. Returns false if none has failed, or if no shard is left.
  static bool lose_shards(std::unique_ptr<Impl>& impl);
  static void restart(std::unique_ptr<Impl>& impl);

  Error cause_of(const Error& seen) const;
  // Calls `function`, and repeats the call as long as it fails because of shards that can be replaced.
  template <class Function>
  static auto at_step(std::unique_ptr<Impl>& impl, const char* call, Function&& function) {
    for (;;) {
      try {
        restart(impl);
        return function();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kDeadlineExceeded || !lose_shards(impl)) {
          const Error cause = impl->cause_of(error);
          throw Error(cause.code(), std::string(call) + ": " + cause.what());
        }
      }
    }
  }

  // Names of the optimizer's states that a parameter has.
  std::vector<std::string> states_of(const Parameter& parameter) const {
    return parameter.is_state() ? std::vector<std::string>() : options.optimizer.states();
  }

  // In trainer_predict.cpp:
  detail::LinkedRows link_rows(const std::function<Tensor(const Batch&)>& model, const Batch& given,
                               std::uint64_t rows);

  // In evaluation.cpp:
  void prepare_evaluation(Evaluation::Impl& made);

  DataParallelOptions options;
  Scalar learning_rate;  // replaces a number in options.learning_rate; empty if that is an expression
  Batch data;            // with a feed, placeholders
  Feed feed;
  LossOf loss_of;
  std::optional<std::set<std::string>> metric_names;

  std::shared_ptr<Runtime> runtime;
  std::vector<std::shared_ptr<Backend>> shard_backends;  // per shard
  std::vector<std::uint32_t> shard_ordinals;
  std::vector<std::uint32_t> shard_numbers;            // when training began
  std::vector<std::shared_ptr<Device>> shard_devices;  // empty: not open yet
  std::string device_names;
  std::uint32_t per_shard = 1;             // micro-batches
  std::vector<std::uint32_t> first_micro;  // per shard: its first micro-batch; the others follow
  detail::RowPlan plan;                    // by micro-batch
  detail::RowPlan slot_plan;               // the rows in a slot: all, or with a feed one batch of each size
  std::uint64_t most_rows = 0;             // of data that the shards have memory for, unless it is fed
  std::vector<detail::Variant> variants;
  std::vector<std::int64_t> row_weights;             // per shard; empty: equal
  std::vector<std::int64_t> kept_row_weights;        // those of the Impl that this one replaces
  std::vector<detail::PieceSize> piece_sizes;        // the largest first
  std::vector<detail::PieceRoutines> pieces;         // per slot and micro-batch
  std::vector<std::uint64_t> first_rows;             // per micro-batch of the latest step: in its slot
  std::uint64_t batch_rows = 0;                      // of the latest step
  std::vector<Batch> fed_batches;                    // per slot: the latest
  std::vector<std::vector<std::uint64_t>> fed_rows;  // per slot: the rows of the micro-batches
  std::vector<Parameter> parameters;

  std::vector<Shard> shards;
  std::vector<Context> contexts;  // one per shard
  std::vector<detail::MicroBatch> micro_batches;
  std::vector<FeedStream> feeds;                     // per shard
  std::int64_t fetched = 0;                          // number of batches
  std::optional<Error> fetch_error;                  // of batch `fetched`
  std::vector<GradientSum> sums;                     // if `has_sums`, per shard that computes gradients
  std::vector<std::shared_ptr<Stream>> streams;      // of the shards, then of the step plan
  std::vector<std::shared_ptr<Stream>> all_streams;  // and then of the feeds
  // Per stream: the ends of the latest steps, at the step number modulo options.steps_ahead.
  std::vector<std::vector<Event>> step_ends;
  // Per shard, for the latest step. Shared with evaluations, which may outlive the trainer.
  const std::shared_ptr<std::vector<SymbolTable>> symbols = std::make_shared<std::vector<SymbolTable>>();
  const std::shared_ptr<detail::ScalarTable> scalars =
      std::make_shared<detail::ScalarTable>();  // also shared
  std::vector<std::int64_t> seeds;
  std::shared_ptr<CodeCache> codes = std::make_shared<CodeCache>();
  std::vector<MemoryNeed> needs;  // per device
  // Of the optimizer, by type, element count, number of gradients and group.
  using UpdatePrograms =
      std::map<std::tuple<std::int32_t, std::uint64_t, std::uint32_t, std::uint32_t>, detail::NamedProgram>;
  UpdatePrograms update_programs, measure_programs;
  StepPlan step_plan;
  std::vector<std::size_t> parameter_order;  // of the step plan
  std::vector<std::vector<GradientParts::Bucket>> after_part;
  std::uint64_t carried_byte_count = 0;  // of a shard, for what gradient parts leave for later ones
  std::uint64_t reduced_byte_count = 0;  // of the largest tensor that the loss reduces
  bool is_trial = false;                 // only measures; shards do not wait for each other

  std::uint64_t batch_number = 0;  // in the epoch
  std::int64_t step_number = 0;
  std::vector<std::int64_t> binding_values;
  const Tensor scale = detail::scale_leaf(StepPlan::kNumber);  // of the gradients, if `is_scaled`
  // If `is_scaled`: at the start or, with on_device_lost = redistribute, after the latest step.
  std::vector<std::byte> scale_bytes;
  std::uint32_t latest_slot = 0;     // with the batch of the latest gradients
  detail::Variant* last = nullptr;   // the variant of the latest gradients
  bool merged = false;               // whether grad_sync has run since the latest gradients
  bool has_gradients = false;        // whether launch_gradients has run for the latest step
  bool has_parts = false;            // whether link_parts has succeeded
  bool has_whole_gradients = false;  // likewise link_whole_gradients
  std::uint64_t steps_in_loss_total = 0;
  bool has_averages = false;  // in the place of the parameters
  std::uint64_t evaluation_count = 0;
  double setup_seconds = 0;

  std::optional<detail::Snapshot> snapshot;  // of shards that this Impl replaces, until it is ready
  // The set with the parameters of the latest step that has finished. Shared with evaluations.
  const std::shared_ptr<std::uint32_t> whole_set = std::make_shared<std::uint32_t>(0);
  std::vector<LostShard> lost;
  detail::HostLosses losses;
  std::map<std::int64_t, Batch> kept_batches;  // of the feed: from the current step on
  std::vector<std::weak_ptr<Evaluation::Impl>> evaluations;
};

}  // namespace yoke
