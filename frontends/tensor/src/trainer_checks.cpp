// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_checks.cpp: what a caller of data_parallel gave, checked, and the backends it
// names.
#include <algorithm>
#include <charconv>
#include <set>

#include "trainer_impl.h"

namespace yoke {

namespace detail {

namespace {

constexpr std::int64_t kMaxShards = 4096;

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::kInvalidArgument, sentence);
}

}  // namespace

std::vector<Placement> parse_placements(const std::string& text) {
  std::vector<Placement> placements;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    Placement placement{item.substr(0, colon), -1};
    if (colon != std::string::npos) {
      const char* first = item.data() + colon + 1;
      const char* last = item.data() + item.size();
      const auto [stop, failure] = std::from_chars(first, last, placement.shard_count);
      if (failure != std::errc{} || stop != last || placement.shard_count < 1 ||
          placement.shard_count > kMaxShards) {
        refuse("backend '" + item +
               "': behind the colon stands a number of shards, 1 to 4096, as in cuda:1,cc:2");
      }
    }
    if (placement.backend_name.empty()) {
      refuse("backend_name '" + text +
             "': a name is missing; write one name, or names with counts as in cuda:1,cc:2");
    }
    placements.push_back(placement);
    begin = end + 1;
  }
  if (placements.size() > 1) {
    for (const Placement& placement : placements) {
      if (placement.shard_count < 0) {
        refuse("backend_name '" + text +
               "': in a list every backend needs its number of shards, as in cuda:1,cc:2");
      }
    }
  }
  return placements;
}

}  // namespace detail

using detail::Placement;

namespace {

void check_data(const Tensor& tensor, const char* what) {
  if (!tensor || tensor.source() != Source::kLiteral) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("data_parallel: ") + what +
                    " must be host data (a literal), made by tensor() or literal()");
  }
  if (tensor.rank() == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("data_parallel: ") + what + " is a scalar; axis 0 must be the batch");
  }
}

}  // namespace

void Trainer::Impl::check_arguments() {
  if (!options.learning_rate) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: learning_rate is missing; set options.learning_rate, e.g. 0.1F");
  }
  if (options.learning_rate.rank() != 0) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: learning_rate has shape " +
                                                 dims_text(options.learning_rate.dims()) +
                                                 "; it must be a scalar");
  }
  if (options.optimizer.nesterov && options.optimizer.momentum == 0) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: nesterov needs a momentum above 0");
  }
  check_bindings();
  check_data(inputs, "inputs");
  check_data(targets, "targets");
  const std::uint64_t rows = inputs.dims()[0];
  if (targets.dims()[0] != rows) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: inputs have " + std::to_string(rows) +
                                                 " rows, targets " + std::to_string(targets.dims()[0]) +
                                                 "; give both the same number");
  }
  if (options.batch_size < 0 || static_cast<std::uint64_t>(options.batch_size) > rows) {
    throw Error(ErrorCode::kInvalidArgument,
                "data_parallel: a batch of " + std::to_string(options.batch_size) +
                    " rows does not fit data of " + std::to_string(rows) + " rows; choose 1 to " +
                    std::to_string(rows) + ", or 0 for all");
  }
  if (options.shards && (*options.shards < 1 || *options.shards > detail::kMaxShards)) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: " + std::to_string(*options.shards) +
                                                 " shards; choose 1 to " +
                                                 std::to_string(detail::kMaxShards));
  }
  if (options.base_seed < 0 || options.base_seed > (std::int64_t{1} << 62) - detail::kMaxShards - 1) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: base_seed " + std::to_string(options.base_seed) +
                                                 " is outside 0..2^62 - 4097");
  }
}

void Trainer::Impl::check_bindings() const {
  std::set<std::string> names = {detail::kRowSymbol, seed_symbol().name};
  for (const Symbol& binding : options.bindings) {
    if (!names.insert(binding.name).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: the binding '" + binding.name +
                      "' is given twice, or the trainer's own; choose another name");
    }
    if (binding.step < 1 || binding.high <= binding.low) {
      throw Error(ErrorCode::kInvalidArgument,
                  "data_parallel: the binding '" + binding.name +
                      "' has no values; high must be above low, and step 1 or more");
    }
  }
}

void Trainer::Impl::find_backends() {
  runtime = options.runtime ? options.runtime : std::make_shared<Runtime>();
  const std::vector<Placement> placements = detail::parse_placements(options.backend_name);
  std::int64_t said = 0;
  for (const Placement& placement : placements) {
    said += std::max<std::int64_t>(placement.shard_count, 0);
  }
  if (options.shards && said > 0 && said != *options.shards) {
    throw Error(ErrorCode::kInvalidArgument, "data_parallel: backend_name '" + options.backend_name +
                                                 "' asks for " + std::to_string(said) +
                                                 " shards, options.shards for " +
                                                 std::to_string(*options.shards) + "; leave one of them out");
  }
  for (const Placement& placement : placements) {
    const auto backend = runtime->backend(placement.backend_name);
    const std::uint32_t devices = backend->device_count();
    if (devices == 0) {
      throw Error(ErrorCode::kUnavailable,
                  "backend '" + backend->name() + "' has no devices here: " + backend->no_device_reason());
    }
    std::int64_t count = placement.shard_count > 0 ? placement.shard_count : options.shards.value_or(0);
    if (count == 0) {
      for (std::uint32_t ordinal = 0; ordinal < devices; ++ordinal) {
        count += backend->device_info(ordinal).suggested_stream_count;
      }
    }
    if (count + static_cast<std::int64_t>(shard_backends.size()) > detail::kMaxShards) {
      throw Error(ErrorCode::kInvalidArgument, "data_parallel: backend_name '" + options.backend_name +
                                                   "' asks for more than 4096 shards; choose fewer");
    }
    for (std::int64_t i = 0; i < count; ++i) {
      shard_backends.push_back(backend);
      shard_ordinals.push_back(static_cast<std::uint32_t>(i) % devices);
    }
    device_names += (device_names.empty() ? "" : ", ") + backend->name() + " x" + std::to_string(count);
  }
}

}  // namespace yoke
