// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/collective_call.cpp: links a collective of a backend, and queues it on all members' streams.
#include "schedule/collective_call.h"

#include <yoke/program/program.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <numeric>

#include "device/call.h"
#include "schedule/range.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

constexpr const char* kKindNames[] = {"", "all_reduce", "reduce_scatter", "all_gather", "broadcast"};

// The accesses of a part, whose source and target are in one buffer, one within the other.
std::vector<Access> accesses_of(const CollectiveCall::Part& part) {
  Hazards& hazards = part.target.buffer->hazards();
  const auto end_of = [](const BufferView& view) { return view.offset + view.byte_count; };
  if (part.source.buffer == nullptr) {
    return {{&hazards, part.target.offset, end_of(part.target), false, true}};
  }
  const bool target_is_inner = part.target.byte_count < part.source.byte_count;
  const BufferView& inner = target_is_inner ? part.target : part.source;
  const BufferView& outer = target_is_inner ? part.source : part.target;
  assert(part.source.buffer == part.target.buffer && outer.offset <= inner.offset &&
         end_of(inner) <= end_of(outer));
  std::vector<Access> accesses = {
      {&hazards, outer.offset, inner.offset, target_is_inner, !target_is_inner},
      {&hazards, inner.offset, end_of(inner), true, true},
      {&hazards, end_of(inner), end_of(outer), target_is_inner, !target_is_inner}};
  sort_accesses(accesses);
  return accesses;
}

}  // namespace

std::shared_ptr<const CollectiveCall> CollectiveCall::link(std::shared_ptr<CollectiveGroup> group,
                                                           std::span<const std::shared_ptr<Stream>> streams,
                                                           const Shape& shape, std::vector<Part> parts,
                                                           std::string_view tensor) {
  for (std::uint32_t k = 0; k < parts.size(); ++k) {
    for (const BufferView* view : {&parts[k].source, &parts[k].target}) {
      const Device& device = *streams[k]->device();
      if (view->buffer != nullptr && !view->buffer->device()->is_same(device)) {
        throw Error(ErrorCode::kInvalidArgument, "collective of '" + std::string(tensor) +
                                                     "': the tensor of member " + std::to_string(k) +
                                                     " is on '" + view->buffer->device()->name() +
                                                     "', but its stream is on '" + device.name() + "'");
      }
    }
  }
  return {new CollectiveCall(std::move(group), streams, shape, std::move(parts), tensor),
          &CollectiveCall::end};
}

CollectiveCall::CollectiveCall(std::shared_ptr<CollectiveGroup> group,
                               std::span<const std::shared_ptr<Stream>> streams, const Shape& shape,
                               std::vector<Part> parts, std::string_view tensor)
    : group_(std::move(group)),
      streams_(streams.begin(), streams.end()),
      parts_(std::move(parts)),
      rows_(parts_.size()),
      lock_order_(parts_.size()),
      tickets_(parts_.size()),
      tensor_(tensor),
      byte_count_(shape.count * program::byte_size(static_cast<program::Type>(shape.type))) {
  for (std::uint32_t k = 0; k < parts_.size(); ++k) {
    const Part& part = parts_[k];
    yoke_collective& row = rows_[k];
    row.communicator = group_->communicator(k);
    row.stream = streams_[k]->state().native_;
    row.source = part.source.buffer ? part.source.buffer->get() : nullptr;
    row.source_offset = part.source.offset;
    row.target = part.target.buffer->get();
    row.target_offset = part.target.offset;
    row.count = shape.count;
    row.kind = shape.kind;
    row.type = shape.type;
    row.reduction = YOKE_REDUCTION_SUM;
    row.root = shape.root;
    accesses_.push_back(accesses_of(part));
  }
  std::iota(lock_order_.begin(), lock_order_.end(), 0U);
  std::sort(lock_order_.begin(), lock_order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::less<>()(&group_->stream(a), &group_->stream(b));
  });
}

void CollectiveCall::end(const CollectiveCall* call) {
  if (call->group_->wait_idle()) {
    delete call;
    return;
  }
  // Leaked, like a routine: a stream may still refer to it.
  const Device& device = *call->streams_[0]->device();
  device.backend()->state().runtime->log_leak([&] {
    return "collective.leak device=" + device.name() + " tensor=" + call->tensor_ +
           " reason=\"it is still pending after the wait timeout\"";
  });
}

std::string CollectiveCall::describe(std::uint32_t member) const {
  return std::string(kKindNames[rows_[0].kind]) + " of " + detail::counted(byte_count_, "byte") +
         " of tensor '" + tensor_ + "', " + group_->member_name(member);
}

void CollectiveCall::fail(std::uint32_t member) const noexcept {
  const StreamState& stream = group_->stream(member);
  try {
    group_->fail(member, stream.error_code(), stream.error().what());
  } catch (const std::exception&) {  // out of memory
    group_->fail(member, stream.error_code(), {});
  }
}

void CollectiveCall::retire(std::uint32_t first, std::uint32_t end) const noexcept {
  for (std::uint32_t k = first; k < end; ++k) {
    StreamState& stream = group_->stream(k);
    stream.fail(stream.last_ticket() + 1, ErrorCode::kAborted, [&] {
      return stream.title(stream.last_ticket() + 1) + ": " + describe(k) + ": " + group_->failure();
    });
    stream.abandon();
  }
}

void CollectiveCall::begin() const {
  std::uint32_t member = 0;
  std::uint32_t begun = 0;
  const auto fail = [&](ErrorCode code, const char* reason) {
    group_->fail(member, code, reason);
    retire(0, begun);
  };
  try {
    for (member = 0; member < group_->size(); ++member) {  // first, so that nothing needs to be undone
      group_->stream(member).check_alive(std::numeric_limits<std::uint64_t>::max() - 1);
    }
    for (member = 0; member < group_->size(); begun = ++member) {
      group_->stream(member).begin(accesses_[member], 1);
    }
  } catch (const Error& error) {
    fail(error.code(), error.what());
    throw;
  } catch (const std::exception& error) {  // out of memory
    fail(ErrorCode::kResourceExhausted, error.what());
    throw;
  }
}

bool CollectiveCall::is_immediate() const {
  for (std::uint32_t k = 0; k < group_->size(); ++k) {
    if (!group_->stream(k).ring_.is_empty()) {
      return false;
    }
  }
  return true;
}

void CollectiveCall::run() const {
  group_->check();
  for (std::uint32_t k = 0; k < group_->size(); ++k) {
    if (&streams_[k]->state() != &group_->stream(k)) [[unlikely]] {
      throw Error(ErrorCode::kFailedPrecondition, "stream '" + streams_[k]->name() + "': " + describe(k) +
                                                      ": the stream was renewed after its group was created; "
                                                      "create the Collectives or StepPlan again");
    }
  }
  begin();
  if (is_immediate()) {
    queue_together();
  } else {
    queue_each();
  }
}

// Precondition: the issue mutexes of all streams are held.
std::int32_t CollectiveCall::call_backend(Status& status, std::uint32_t& failed) const {
  for (failed = 0; failed < group_->size(); ++failed) {
    StreamState& stream = group_->stream(failed);
    if (stream.device->is_lost() || stream.has_failed(tickets_[failed])) {
      const Error error = stream.device->is_lost()
                              ? Error(ErrorCode::kDeviceLost, "its device was lost; reopen it")
                              : stream.error();
      status.set(static_cast<std::int32_t>(error.code()), 0, error.what());
      return status.code();
    }
  }
  return attempt<&yoke_collectives_api::collectives_queue>(
      group_->stream(0).backend(), status, rows_.data(), static_cast<std::uint32_t>(rows_.size()),
      static_cast<std::uint32_t>(sizeof(yoke_collective)));
}

void CollectiveCall::queue_together() const noexcept {
  const std::uint32_t size = group_->size();
  for (std::uint32_t k = 0; k < size; ++k) {
    StreamState& stream = group_->stream(k);
    tickets_[k] = stream.last_ticket() + 1;
    stream.issued_work_.add(tickets_[k], CommandKind::kCollective, tensor_);
    group_->set_last_ticket(k, tickets_[k]);
    stream.reserved_.store(tickets_[k]);
  }
  for (const std::uint32_t k : lock_order_) {
    group_->stream(k).issue_mutex_.lock();
  }
  Status status;
  std::int32_t code = YOKE_STATUS_RESOURCE_EXHAUSTED;
  std::uint32_t failed = 0;
  try {
    code = call_backend(status, failed);
  } catch (const std::exception& error) {  // out of memory
    status.set(code, 0, error.what());
  }
  for (const std::uint32_t k : lock_order_) {
    group_->stream(k).issue_mutex_.unlock();
  }
  if (code != YOKE_STATUS_OK && failed == size) [[unlikely]] {
    failed = group_->find_failed();
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t k = (i + (failed < size ? failed : 0)) % size;  // the one that failed comes first
    StreamState& stream = group_->stream(k);
    if (code != YOKE_STATUS_OK) [[unlikely]] {
      const ErrorCode given = code_of(code);
      // The loss of another member's device is not the loss of this one.
      const ErrorCode mine = given == ErrorCode::kDeviceLost && k != failed ? ErrorCode::kAborted : given;
      stream.fail(tickets_[k], mine, [&]() -> std::string {
        return make_error(stream.title(tickets_[k]) + ": " + describe(k), "collectives_queue", code, status)
            .what();
      });
    }
    stream.finish(tickets_[k]);
  }
  if (code != YOKE_STATUS_OK) {
    fail(failed < size ? failed : 0);
  }
}

void CollectiveCall::queue_each() const {
  std::uint32_t member = 0;
  const auto fail = [&](ErrorCode code, const char* reason) {
    StreamState& stream = group_->stream(member);
    group_->fail(member, code, reason);
    stream.fail(stream.last_ticket(), code, [&] { return std::string(reason); });
    retire(member + 1, group_->size());
  };
  try {
    for (; member < group_->size(); ++member) {
      const std::uint64_t ticket = group_->stream(member).emit(
          [&](Command& command) {
            command.kind = CommandKind::kCollective;
            command.collective = this;
            command.member = member;
          },
          /*on_worker=*/true);
      group_->set_last_ticket(member, ticket);
    }
  } catch (const Error& error) {
    fail(error.code(), error.what());
    throw;
  } catch (const std::exception& error) {  // out of memory
    fail(ErrorCode::kResourceExhausted, error.what());
    throw;
  }
}

}  // namespace yoke::detail
