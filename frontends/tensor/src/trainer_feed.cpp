// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_feed.cpp: takes batches from the caller and sends them to the shards.
#include <yoke/program/program.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <tuple>

#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;

void Trainer::Impl::check_feed() {
  std::vector<Field> fields;
  for (const auto& [name, spec] : feed.fields) {
    const bool is_empty = std::find(spec.dims.begin(), spec.dims.end(), 0U) != spec.dims.end();
    if (spec.type < YOKE_TYPE_F64 || spec.type > YOKE_TYPE_BOOL || spec.dims.empty() || is_empty) {
      fail("data_parallel: the feed's field '" + name + "' has type " + std::to_string(spec.type) +
           " and shape " + dims_text(spec.dims) +
           "; it needs an element type, and at least one axis, the rows; no axis may be 0");
    }
    fields.push_back({name, placeholder(name, static_cast<Type>(spec.type), spec.dims)});
  }
  data = Batch(std::move(fields));
}

std::uint64_t Trainer::Impl::staged_bytes(std::size_t k) const {
  std::int64_t rows = is_varying() ? static_cast<std::int64_t>(capacity()) : 0;
  for (const detail::Variant& variant : variants) {
    rows = std::max(rows, rows_of(variant, k));
  }
  return static_cast<std::uint64_t>(rows) * row_bytes();
}

void Trainer::Impl::make_feeds() {
  for (std::size_t k = 0; is_fed() && k < shards.size(); ++k) {
    feeds.emplace_back(contexts[k], slot_count(), staged_bytes(k));
    all_streams.push_back(feeds[k].stream());
  }
  fed_batches.resize(is_varying() ? slot_count() : 0);
  fed_rows.resize(is_varying() ? slot_count() : 0);
}

// Checks a batch of `rows` rows or, if they vary, of 1 to `rows` rows.
void Trainer::Impl::check_batch(const Batch& batch, std::uint64_t rows) const {
  detail::check_fields(batch, data, "the feed's batch");
  const std::uint64_t given_rows = batch.row_count();
  if (is_varying() && given_rows > 0) {
    rows = std::min(rows, given_rows);
  }
  for (const auto& [name, like] : data.fields()) {
    const Tensor given = batch[name];
    Dims dims = like.dims();
    dims[0] = rows;
    if (!given || given.source() != Source::kLiteral || given.type() != like.type() || given.dims() != dims) {
      fail(std::string("the feed returned ") +
           (given ? detail::describe(given) : std::string("an empty Tensor")) + " as " + name +
           "; it must be host data of shape " + dims_text(dims) + " and type " +
           std::string(program::type_name(like.type())) +
           (is_varying() || options.batch_size != 0 ? "" : "; options.batch_size sets the number of rows"));
    }
  }
}

bool Trainer::Impl::is_tail_batch(std::int64_t number) const {
  return !is_varying() && static_cast<std::uint64_t>(number) % plan.batch_count() >= plan.full_batches;
}

// Stages the rows of a batch, and queues their copies to the shards.
void Trainer::Impl::send(const Batch& batch, std::int64_t number) {
  const bool is_tail = is_tail_batch(number);
  const auto slot = static_cast<std::uint32_t>(number % detail::kFeedSlots);
  if (is_varying()) {
    fed_batches[slot] = batch;
    fed_rows[slot] = detail::split_rows(batch.row_count(), micro_weights());
  }
  const std::vector<std::uint64_t>& parts = is_varying() ? fed_rows[slot] : is_tail ? plan.tail : plan.rows;
  std::vector<std::uint64_t> first(parts.size() + 1, 0);
  std::partial_sum(parts.begin(), parts.end(), first.begin() + 1);
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const std::span<std::byte> staging = feeds[k].stage(slot, number);
    std::uint64_t offset = 0;
    for (std::size_t s = first_micro[k]; s < first_micro[k] + per_shard && parts[s] > 0; ++s) {
      for (const auto& [name, tensor] : batch.fields()) {
        const std::uint64_t row = tensor.host_bytes().size() / tensor.dims()[0];
        std::memcpy(staging.data() + offset, tensor.host_bytes().data() + first[s] * row, parts[s] * row);
        BufferView to = micro_batches[s].slots[slot].tensor(name).view;
        const std::uint64_t before = is_varying() ? first[s] - first[first_micro[k]]
                                     : is_tail    ? slot_plan.full_rows(s)
                                                  : 0;
        to = {to.buffer, to.offset + before * row, parts[s] * row};
        feeds[k].send(slot, offset, to);
        offset += parts[s] * row;
      }
    }
  }
}

// Takes batch `fetched` from the caller. Returns false, and sets fetch_error, if that fails.
bool Trainer::Impl::fetch() {
  const auto note = [&](ErrorCode code, const std::string& reason) {
    fetch_error = Error(code, "step " + std::to_string(fetched) + " needs batch " +
                                  std::to_string(fetched % static_cast<std::int64_t>(plan.batch_count())) +
                                  " of " + std::to_string(plan.batch_count()) + " of an epoch: " + reason);
  };
  try {
    const auto kept = kept_batches.find(fetched);
    const Batch batch = kept != kept_batches.end() ? kept->second : feed.next(fetched);
    check_batch(batch, is_tail_batch(fetched) ? plan.tail_rows() : plan.batch);
    if (redistributes()) {
      kept_batches.emplace(fetched, batch);
    }
    send(batch, fetched);
    ++fetched;
    return true;
  } catch (const Error& error) {
    note(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    note(ErrorCode::kResourceExhausted, "the host has no memory left for the batch");
  } catch (const std::exception& error) {
    note(ErrorCode::kUnknown, std::string("the feed failed: ") + error.what());
  } catch (...) {
    note(ErrorCode::kUnknown, "the feed failed with an exception of an unknown type");
  }
  return false;
}

// Throws Error if the batch of this step is missing; nothing has been queued then.
void Trainer::Impl::fetch_current() {
  while (is_fed() && fetched <= step_number) {
    if (fetch_error || !fetch()) {
      const Error error = *fetch_error;
      fetch_error.reset();
      throw error;
    }
  }
}

void Trainer::Impl::fetch_ahead() {
  try {
    while (is_fed() && !fetch_error && fetched < step_number + detail::kFeedSlots && fetch()) {
    }
  } catch (const std::bad_alloc&) {
    // No memory for fetch_error: the step that needs the batch asks for it again.
  }
}

}  // namespace yoke
