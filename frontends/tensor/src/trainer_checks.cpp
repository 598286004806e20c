// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_checks.cpp: checks the arguments of data_parallel and opens the backends.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "all_reduce.h"
#include "node.h"
#include "shortest.h"
#include "trainer_impl.h"

namespace yoke {

namespace detail {

namespace {

constexpr std::uint32_t kMostStepsAhead = 64;  // errors name the step of work that is at most this old

}  // namespace

std::vector<BackendCount> parse_backends(const std::string& text) {
  std::vector<BackendCount> named;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    BackendCount backend{item.substr(0, colon), -1};
    if (colon != std::string::npos) {
      const char* first = item.data() + colon + 1;
      const char* last = item.data() + item.size();
      const auto [stop, failure] = std::from_chars(first, last, backend.shard_count);
      if (failure != std::errc{} || stop != last || backend.shard_count < 1 ||
          backend.shard_count > kMaxShards) {
        fail("backend '" + item +
             "': the colon must be followed by a number of shards, 1 to 4096, as in cuda:1,cc:2");
      }
    }
    if (backend.backend_name.empty()) {
      fail("backend_name '" + text +
           "': a name is missing; give one name, or names with counts as in cuda:1,cc:2");
    }
    named.push_back(backend);
    begin = end + 1;
  }
  if (named.size() > 1) {
    for (const BackendCount& backend : named) {
      if (backend.shard_count < 0) {
        fail("backend_name '" + text +
             "': every backend of a list needs a number of shards, as in cuda:1,cc:2");
      }
    }
  }
  return named;
}

std::vector<Option> options_for(const std::string& backend_name, const std::vector<Option>& all) {
  const std::string own_prefix = backend_name + ".";
  std::vector<Option> own;
  for (const Option& option : all) {
    const std::size_t dot = option.name.find('.');
    const bool has_prefix = dot != std::string::npos;
    const bool is_replaced = std::any_of(
        all.begin(), all.end(), [&](const Option& other) { return other.name == own_prefix + option.name; });
    if (has_prefix ? option.name.substr(0, dot) == backend_name : !is_replaced) {
      own.push_back({option.name.substr(has_prefix ? dot + 1 : 0), option.value});
    }
  }
  return own;
}

void check_prefixes(const char* call, const std::vector<Option>& device_options,
                    const std::vector<BackendCount>& named) {
  for (const Option& option : device_options) {
    const std::size_t dot = option.name.find('.');
    const auto has_prefix = [&](const BackendCount& backend) {
      return backend.backend_name == option.name.substr(0, dot);
    };
    if (dot == std::string::npos || std::any_of(named.begin(), named.end(), has_prefix)) {
      continue;
    }
    std::string names;
    for (const BackendCount& backend : named) {
      names += (names.empty() ? "" : ", ") + backend.backend_name;
    }
    fail(std::string(call) + ": device option '" + option.name + "': '" + option.name.substr(0, dot) +
         "' is not a backend of this run; its backends: " + names);
  }
}

void check_rate(double rate, const char* call) {
  if (!(std::isfinite(rate) && rate >= 0)) {
    fail(std::string(call) + ": learning_rate is " + shortest(rate) +
         "; it must be a finite number that is at least 0");
  }
}

}  // namespace detail

using detail::BackendCount;
using detail::fail;

namespace {

// The symbols that the trainer sets, and a binding may not have. A binding may be named "step".
std::set<std::string> own_symbols() {
  return {detail::kRowSymbol, detail::kStepNumber, seed_symbol().name, run_seed_symbol().name,
          batch_row_symbol().name};
}

constexpr std::int64_t kMostPieceSeeds = std::int64_t{1} << 25U;

// Precondition: count is a power of two, and k < count.
std::uint32_t reverse_bits(std::uint32_t k, std::uint32_t count) {
  std::uint32_t reversed = 0;
  for (std::uint32_t bit = 1; bit < count; bit *= 2) {
    reversed = reversed * 2 + ((k & bit) != 0 ? 1 : 0);
  }
  return reversed;
}

}  // namespace

// A rate that is a number becomes a scalar, so that the programs do not depend on its value.
void Trainer::Impl::check_learning_rate() {
  if (!options.learning_rate) {
    fail("data_parallel: learning_rate is missing; set options.learning_rate, e.g. 0.1F");
  }
  if (options.learning_rate.rank() != 0) {
    fail("data_parallel: learning_rate has shape " + dims_text(options.learning_rate.dims()) +
         "; it must be a scalar");
  }
  if (const std::optional<double> number = detail::number_of(options.learning_rate)) {
    detail::check_rate(*number, "data_parallel");
    const Type type = options.learning_rate.type() == Type::kF64 ? Type::kF64 : Type::kF32;
    learning_rate = scalar("yoke/learning_rate", *number, type);
    options.learning_rate = learning_rate;
  }
  const Lowered lowered = lower("rate", {{"rate", options.learning_rate}});
  check_symbols(lowered);
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.kind == LoweredArgument::Kind::kPlaceholder ||
        argument.kind == LoweredArgument::Kind::kParameter) {
      fail("data_parallel: learning_rate uses '" + argument.leaf.name() +
           "'; it may use numbers, host data, scalars and symbols such as the step, but no parameters or "
           "placeholders");
    }
  }
}

void Trainer::Impl::check_data() const {
  for (const auto& [name, tensor] : data.fields()) {
    if (!tensor || tensor.source() != Source::kLiteral) {
      fail("data_parallel: " + name + " must be host data (a literal), created by tensor() or literal()");
    }
    if (tensor.rank() == 0) {
      fail("data_parallel: " + name + " must not be a scalar; axis 0 is the batch");
    }
  }
}

// Checks the uses of all_reduce in the loss.
void Trainer::Impl::check_reductions(const program::Program& loss) const {
  const std::vector<detail::ReducePoint> points = detail::reduce_points(loss);
  if (!points.empty() && has_sums()) {
    fail(
        "data_parallel: the loss uses all_reduce (as synchronized batch norm does), which needs all rows of "
        "a "
        "batch at the same time and cannot be combined with accumulate, reproducible or varying_rows");
  }
  for (const detail::ReducePoint& point : points) {
    if (point.reduction != Reduction::kSum) {
      fail(
          "data_parallel: the loss uses all_reduce with Reduction::kMean, but shards may have different "
          "numbers of rows; use Reduction::kSum, and divide by the total number of rows");
    }
  }
}

void Trainer::Impl::check_symbols(const Lowered& lowered) const {
  if (detail::has_all_reduce(lowered.program)) {
    fail(
        "data_parallel: the learning rate, a tensor that is read or a model for predict() uses all_reduce, "
        "which only the loss may use; use a DistributedProgram");
  }
  check_values(lowered);
}

void Trainer::Impl::check_values(const Lowered& lowered) const {
  for (const program::Symbol& symbol : lowered.program.symbols) {
    const auto has_name = [&](const Symbol& binding) { return binding.name == symbol.name; };
    if (!symbol.is_variable && !own_symbols().contains(symbol.name) && symbol.name != step_symbol().name &&
        std::none_of(options.bindings.begin(), options.bindings.end(), has_name)) {
      fail("data_parallel: the symbol '" + symbol.name + "' has no value; add it to options.bindings");
    }
  }
}

void Trainer::Impl::check_arguments() {
  check_bindings();
  check_learning_rate();
  check_reproducible();
  if (options.steps_ahead < 1 || options.steps_ahead > detail::kMostStepsAhead) {
    fail("data_parallel: steps_ahead is " + std::to_string(options.steps_ahead) + "; choose 1 to " +
         std::to_string(detail::kMostStepsAhead));
  }
  if (on_device_lost_name(options.on_device_lost) == std::string_view("unknown")) {
    fail("data_parallel: on_device_lost is " + std::to_string(static_cast<int>(options.on_device_lost)) +
         "; use kFail or kRedistribute");
  }
  if (precision_name(options.precision) == std::string_view("unknown")) {
    fail("data_parallel: precision is " + std::to_string(static_cast<int>(options.precision)) +
         "; use kF32, kBF16 or kF16");
  }
  if (options.precision == Precision::kF16 && options.wire != Wire::kFull) {
    fail(
        "data_parallel: precision f16 scales gradients, and the wire format bf16 keeps their rounding "
        "errors; use "
        "precision bf16 or the wire format full");
  }
  if (options.reduction != Reduction::kMean && options.reduction != Reduction::kSum) {
    fail("data_parallel: reduction is " + std::to_string(static_cast<int>(options.reduction)) +
         "; choose Reduction::kMean or kSum");
  }
  if (options.accumulate < 1 || options.accumulate > kMaxShards) {
    fail("data_parallel: accumulate is " + std::to_string(options.accumulate) + "; choose 1 to 4096");
  }
  is_fed() ? check_feed() : check_data();
  if (data.fields().empty()) {
    fail("data_parallel: the data has no fields; give at least one named tensor");
  }
  const std::uint64_t rows = data.row_count();
  for (const Field& field : data.fields()) {
    if (field.tensor.dims()[0] != rows) {
      fail("data_parallel: " + data.fields()[0].name + " has " + detail::counted(rows, "row") + ", but " +
           field.name + " has " + std::to_string(field.tensor.dims()[0]) +
           "; all fields must have the same number of rows");
    }
  }
  if (options.batch_size < 0 || static_cast<std::uint64_t>(options.batch_size) > rows) {
    fail("data_parallel: batch_size " + std::to_string(options.batch_size) + " is out of range for data of " +
         detail::counted(rows, "row") + "; choose 1 to " + std::to_string(rows) + ", or 0 for all");
  }
  if (options.shards && (*options.shards < 1 || *options.shards > kMaxShards)) {
    fail("data_parallel: shards is " + std::to_string(*options.shards) + "; choose 1 to " +
         std::to_string(kMaxShards));
  }
  check_max_rows();
  const std::int64_t seeds_used = is_varying() ? kMostPieceSeeds : kMaxShards + 1;
  if (options.base_seed < 0 || options.base_seed > (std::int64_t{1} << 62) - seeds_used) {
    fail("data_parallel: base_seed " + std::to_string(options.base_seed) + " is out of range [0, 2^62 - " +
         std::to_string(seeds_used) + "]");
  }
}

void Trainer::Impl::check_max_rows() const {
  if (options.max_rows == 0) {
    return;
  }
  const std::string text = "data_parallel: max_rows is " + std::to_string(options.max_rows);
  if (options.max_rows < 0) {
    fail(text + "; choose at least 1, or 0 for the rows of the data");
  }
  if (is_fed() || !is_varying()) {
    fail(text + (is_fed() ? ", but a feed's batches have at most batch_size rows; leave it out"
                          : ", but the number of rows is fixed; set varying_rows, too"));
  }
}

void Trainer::Impl::check_reproducible() const {
  if (options.measure_row_weights && (!options.row_weights.empty() || options.reproducible != 0)) {
    fail(std::string("data_parallel: measure_row_weights and ") +
         (options.reproducible != 0 ? "reproducible" : "row_weights") + " are set; set only one of them");
  }
  const std::int64_t slices = options.reproducible;
  if (slices == 0) {
    return;
  }
  const std::string text = "data_parallel: reproducible is " + std::to_string(slices);
  if (slices < 0 || slices > kMaxShards || !std::has_single_bit(static_cast<std::uint64_t>(slices))) {
    fail(text + "; choose a power of two up to 4096, or 0");
  }
  if (!options.row_weights.empty()) {
    fail(text + ", which needs equal parts of a batch; leave out row_weights");
  }
  if (options.accumulate != 1) {
    fail(text + " and accumulate is " + std::to_string(options.accumulate) +
         "; set only one of them: reproducible / shards is the number of micro-batches per shard");
  }
  if (options.wire != Wire::kFull) {
    fail(text + ", which needs the wire format full, because rounding errors depend on the number of shards");
  }
  if (options.merge != MergeStrategy::kAuto && options.merge != MergeStrategy::kTree) {
    fail(text + ", which needs the merge strategy tree, but merge is " + merge_strategy_name(options.merge));
  }
}

// Assigns micro-batches to shards. A tree over the shards adds 0 + 2 and 1 + 3, so in a reproducible run shard 1 of 4
// gets the third quarter of the micro-batches.
void Trainer::Impl::plan_micro_batches() {
  const auto shard_count = static_cast<std::uint32_t>(shard_backends.size());
  const auto slices = static_cast<std::uint32_t>(options.reproducible);
  if (slices % shard_count != 0) {
    fail("data_parallel: reproducible is " + std::to_string(slices) +
         ", which is not a multiple of the number of shards, " + std::to_string(shard_count));
  }
  if (!options.row_weights.empty()) {
    check_row_weights(options.row_weights, 1, "data_parallel: row_weights");
    row_weights = options.row_weights;
  }
  const std::int64_t count = is_reproducible() ? slices / shard_count : options.accumulate;
  if (count * shard_count > kMaxShards) {
    fail("data_parallel: accumulate is " + std::to_string(count) + ", for " +
         detail::counted(shard_count, "shard") + "; their product must be at most 4096");
  }
  per_shard = static_cast<std::uint32_t>(count);
  for (std::uint32_t k = 0; k < shard_count; ++k) {
    first_micro.push_back((is_reproducible() ? reverse_bits(k, shard_count) : k) * per_shard);
  }
}

void Trainer::Impl::check_bindings() const {
  std::set<std::string> names = own_symbols();
  for (const Symbol& binding : options.bindings) {
    if (binding.name.empty()) {
      fail("data_parallel: a binding has no name");
    }
    if (!names.insert(binding.name).second) {
      fail("data_parallel: the binding name '" + binding.name +
           "' is duplicate or reserved; choose another name");
    }
    if (binding.step < 1 || binding.high <= binding.low) {
      fail("data_parallel: the range of binding '" + binding.name +
           "' is empty; high must be greater than low, and step at least 1");
    }
  }
}

void Trainer::Impl::find_backends() {
  runtime = options.runtime ? options.runtime : std::make_shared<Runtime>();
  if (!options.prior_contexts.empty()) {
    use_prior_devices();
    return;
  }
  const std::vector<BackendCount> named = detail::parse_backends(options.backend_name);
  detail::check_prefixes("data_parallel", options.device_options, named);
  std::int64_t requested = 0;
  for (const BackendCount& backend : named) {
    requested += std::max<std::int64_t>(backend.shard_count, 0);
  }
  if (options.shards && requested > 0 && requested != *options.shards) {
    fail("data_parallel: backend_name '" + options.backend_name + "' requests " +
         detail::counted(requested, "shard") + ", but options.shards is " + std::to_string(*options.shards) +
         "; set only one of them");
  }
  for (const BackendCount& wanted : named) {
    const auto backend = runtime->backend(wanted.backend_name);
    const std::uint32_t devices = backend->device_count();
    if (devices == 0) {
      throw Error(ErrorCode::kUnavailable,
                  "backend '" + backend->name() + "' has no devices: " + backend->no_device_reason());
    }
    std::int64_t count = wanted.shard_count > 0 ? wanted.shard_count : options.shards.value_or(0);
    if (count == 0) {
      for (std::uint32_t ordinal = 0; ordinal < devices; ++ordinal) {
        count += suggested_stream_count(backend->device_info(ordinal), options.stream_use);
      }
    }
    if (count + static_cast<std::int64_t>(shard_backends.size()) > kMaxShards) {
      fail("data_parallel: backend_name '" + options.backend_name +
           "' requests more than 4096 shards; choose fewer");
    }
    for (std::int64_t i = 0; i < count; ++i) {
      shard_backends.push_back(backend);
      shard_ordinals.push_back(static_cast<std::uint32_t>(i) % devices);
    }
    device_names += (device_names.empty() ? "" : ", ") + backend->name() + " x" + std::to_string(count);
  }
}

}  // namespace yoke
