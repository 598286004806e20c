// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/communicator.cpp: joins groups, queues collectives, and aborts them.
#include "communicator.h"

#include <yoke/sdk/worker_stream.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include "buffer.h"
#include "stream.h"

namespace yoke::gpu {
namespace {

constexpr char kMark[] = "yoke group id of NCCL or RCCL";  // after the library's bytes of an id
constexpr std::uint64_t kLongestQueuing = 60'000'000'000;  // ns; the library may connect members meanwhile

// The devices that are members of a group. The library would refuse a second member only after a while.
struct Claims {
  std::mutex mutex;
  std::multimap<sdk::GroupId, const Context*> devices;
};

Claims& claims() {
  static auto* const all = new Claims;
  return *all;
}

void claim(const sdk::GroupId& id, const Context& context) {
  const std::lock_guard lock(claims().mutex);
  const auto [first, last] = claims().devices.equal_range(id);
  if (std::any_of(first, last, [&](const auto& member) { return member.second == &context; })) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                       "device " + std::to_string(context.hardware().ordinal) +
                           " already has a member of this group; use one device for each member");
  }
  claims().devices.emplace(id, &context);
}

void unclaim(const sdk::GroupId& id, const Context& context) {
  const std::lock_guard lock(claims().mutex);
  const auto [first, last] = claims().devices.equal_range(id);
  const auto mine = std::find_if(first, last, [&](const auto& member) { return member.second == &context; });
  if (mine != last) {
    claims().devices.erase(mine);
  }
}

Address address_of(sdk::Buffer* buffer, std::uint64_t offset) {
  return buffer == nullptr ? 0 : static_cast<Buffer*>(buffer)->device_address() + offset;
}

}  // namespace

int comm_type(std::int32_t type) {
  constexpr int kTypes[] = {-1, 8, 7, 6, 9, 4, 2, 3, 1, 1};  // bool is copied as u8
  return kTypes[type];
}

int comm_reduction(std::int32_t reduction) {
  return reduction == YOKE_REDUCTION_SUM ? 0 : reduction == YOKE_REDUCTION_MAX ? 2 : 3;
}

sdk::Failure failure_of_comm(const char* name, int code) {
  constexpr std::array<const char*, 8> kNames = {
      "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
      "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};
  const bool is_known = code >= 0 && static_cast<std::size_t>(code) < kNames.size();
  const std::string text =
      is_known ? kNames[static_cast<std::size_t>(code)] : "error " + std::to_string(code);
  return {YOKE_STATUS_UNAVAILABLE,
          std::string(name) + " failed: " + text + "; NCCL_DEBUG=WARN shows more in the program's output",
          code};
}

sdk::GroupId Communicator::make_group_id(const Comm& comm) {
  CommId id = {};
  if (const int code = comm.unique_id(&id); code != 0) {
    throw failure_of_comm(comm.unique_id.name, code);
  }
  sdk::GroupId result = {};
  static_assert(sizeof id + sizeof kMark <= sizeof result);
  std::memcpy(result.data(), &id, sizeof id);
  std::memcpy(result.data() + sizeof id, &kMark, sizeof kMark);
  return result;
}

Communicator::Communicator(std::shared_ptr<Context> context, const sdk::GroupId& id, std::uint32_t rank,
                           std::uint32_t size)
    : context_(std::move(context)), id_(id) {
  CommId raw = {};
  if (std::memcmp(id.data() + sizeof raw, &kMark, sizeof kMark) != 0) {
    throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "the id of the group is not from group_id_create");
  }
  std::memcpy(&raw, id.data(), sizeof raw);
  const Current current = context_->enter();
  claim(id_, *context_);
  CommConfig config;
  const int code =
      comm().init(&handle_, static_cast<int>(size), raw, static_cast<int>(rank), static_cast<void*>(&config));
  if (code != 0 && code != kCommInProgress) {
    unclaim(id_, *context_);
    throw failure_of_comm(comm().init.name, code);
  }
}

Communicator::~Communicator() {
  {
    const Current current = context_->try_enter();
    const std::lock_guard lock(mutex_);
    if (handle_ != nullptr) {
      (void)(has_joined_ && !context_->lost() ? comm().destroy(handle_) : comm().abort(handle_));
    }
  }
  if (aborter_.joinable()) {
    aborter_.join();
  }
  unclaim(id_, *context_);
}

std::int32_t Communicator::state() {
  int progress = 0;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || handle_ == nullptr) {
      return YOKE_STATE_FAILED;
    }
    const int code = comm().async_error(handle_, &progress);
    progress = code != 0 ? code : progress;
    has_joined_ = has_joined_ || progress == 0;
    if (progress == 0 || progress == kCommInProgress) {
      return has_joined_ ? YOKE_STATE_DONE : YOKE_STATE_PENDING;
    }
  }
  fail(failure_of_comm("the communicator", progress));
  return YOKE_STATE_FAILED;
}

void Communicator::wait(std::uint64_t timeout_ns) {
  std::int32_t now = YOKE_STATE_PENDING;
  if (!poll_until(timeout_ns, [&] { return (now = state()) != YOKE_STATE_PENDING; })) {
    throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED, "members of the group have not joined; wait longer");
  }
  const std::lock_guard lock(mutex_);
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
}

void Communicator::abort() {
  fail(sdk::Failure(YOKE_STATUS_ABORTED, "the communicator was aborted; make another group"));
}

void Communicator::fail(const sdk::Failure& failure) {
  std::vector<Use> uses;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      return;
    }
    failure_.emplace(failure);
    uses.swap(uses_);
  }
  // Before the abort, which ends the work; without the lock, because this calls the driver.
  for (const Use& use : uses) {
    try {
      if (use.point->state() == YOKE_STATE_PENDING) {
        use.timeline->cancel(failure);
      }
    } catch (const std::exception&) {  // the driver fails; the abort ends the work
    }
  }
  const std::lock_guard lock(mutex_);
  may_abort_ = true;
  if (users_ == 0) {
    begin_abort();
  }
}

void Communicator::begin_abort() noexcept {
  void* const handle = std::exchange(handle_, nullptr);
  if (handle == nullptr) {
    return;
  }
  try {
    const sdk::detail::SignalsBlocked inherited;
    aborter_ = std::thread([this, handle] {
      const Current current = context_->try_enter();
      (void)comm().abort(handle);
    });
  } catch (const std::system_error&) {  // no thread
    const Current current = context_->try_enter();
    (void)comm().abort(handle);
  }
}

void* Communicator::take() {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    throw sdk::Failure(*failure_);
  }
  ++users_;
  return handle_;
}

void Communicator::give_back() noexcept {
  const std::lock_guard lock(mutex_);
  if (--users_ == 0 && may_abort_) {
    begin_abort();
  }
}

void Communicator::note(Timeline& timeline) {
  Use use = {timeline.shared_from_this(), timeline.record(false)};
  std::optional<sdk::Failure> failed;  // since take(): fail() has not seen this use
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(uses_, [&](const Use& earlier) { return earlier.timeline == use.timeline; });
    uses_.push_back(std::move(use));
    failed = failure_;
  }
  if (failed) {
    timeline.cancel(*failed);
  }
}

int Communicator::call(const sdk::Collective& row, void* handle, void* stream) const {
  const Address source = address_of(row.source, row.source_offset);
  const Address target = address_of(row.target, row.target_offset);
  const auto count = static_cast<std::size_t>(row.count);
  const int type = comm_type(row.type);
  switch (row.kind) {
    case YOKE_COLLECTIVE_ALL_REDUCE:
      return comm().all_reduce(source, target, count, type, comm_reduction(row.reduction), handle, stream);
    case YOKE_COLLECTIVE_REDUCE_SCATTER:
      return comm().reduce_scatter(source, target, count, type, comm_reduction(row.reduction), handle,
                                   stream);
    case YOKE_COLLECTIVE_ALL_GATHER:
      return comm().all_gather(source, target, count, type, handle, stream);
    default:
      return comm().broadcast(source != 0 ? source : target, target, count, type, static_cast<int>(row.root),
                              handle, stream);
  }
}

int Communicator::finish_queuing(void* handle) {
  int progress = kCommInProgress;
  const auto is_over = [&] {
    const int code = comm().async_error(handle, &progress);
    progress = code != 0 ? code : progress;
    const std::lock_guard lock(mutex_);
    return progress != kCommInProgress || failure_;
  };
  (void)poll_until(kLongestQueuing, is_over);
  return progress;
}

struct Communicator::Part {
  Communicator* member;
  Timeline* timeline;
  void* handle;
  std::optional<sdk::Failure> failure;  // of the stream: the part is left out
  bool is_aborted = false;              // because another part of the group is left out
};

std::vector<Communicator::Part> Communicator::take_parts(std::span<const sdk::Collective> rows) {
  std::vector<Part> parts;
  parts.reserve(rows.size());
  try {
    for (const sdk::Collective& row : rows) {
      auto* const member = static_cast<Communicator*>(row.communicator);
      parts.push_back({member, &static_cast<Stream*>(row.stream)->timeline(), member->take(), {}});
    }
  } catch (const sdk::Failure&) {
    give_back(parts);
    throw;
  }
  return parts;
}

void Communicator::give_back(std::span<const Part> parts) noexcept {
  for (const Part& part : parts) {
    part.member->give_back();
  }
}

// `name` is the function that failed. Returns its error number.
int Communicator::call_parts(const Comm& comm, std::span<const sdk::Collective> rows, std::span<Part> parts,
                             const char*& name) {
  // The library makes other devices current and restores this one. Without a context it would restore the first
  // device, and create a context there.
  const Current current = parts.front().member->context_->try_enter();
  name = comm.group_start.name;
  int code = comm.group_start();
  if (code != 0) {
    return code;
  }
  for (std::size_t i = 0; code == 0 && i < parts.size(); ++i) {
    Part& part = parts[i];
    bool is_called = false;
    try {
      part.timeline->submit([&](void* stream) {
        is_called = true;
        name = "a collective";
        code = rows[i].count == 0 ? 0 : part.member->call(rows[i], part.handle, stream);
        code = code == kCommInProgress ? 0 : code;
      });
    } catch (const sdk::Failure& failure) {  // the device is lost
      part.failure.emplace(failure);
    }
    if (!is_called && !part.failure) {
      part.failure.emplace(YOKE_STATUS_UNAVAILABLE, "the stream of this member failed before its collective");
    }
  }
  const int ended = comm.group_end();
  if (code == 0 && ended != 0 && ended != kCommInProgress) {
    name = comm.group_end.name;
    code = ended;
  }
  // In its first collective, the library connects the members, and would wait here for the members that are left out.
  for (const Part& part : parts) {
    if (code == 0 && left_out(parts, part) == nullptr) {
      name = "a collective";
      code = part.member->finish_queuing(part.handle);
    }
  }
  return code;
}

const Communicator::Part* Communicator::left_out(std::span<const Part> parts, const Part& of) noexcept {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
    return part.failure && part.member->id_ == of.member->id_;
  });
  return found != parts.end() ? &*found : nullptr;
}

void Communicator::queue(const Comm& comm, std::span<const sdk::Collective> rows) {
  std::vector<Part> parts = take_parts(rows);
  const char* name = "";
  const int code = call_parts(comm, rows, parts, name);
  for (Part& part : parts) {
    const Part* const missing = left_out(parts, part);
    try {
      if (code == 0 && missing == nullptr) {
        part.member->note(*part.timeline);
      } else if (code == 0 &&
                 !part.failure) {  // an event could be done before the library has queued the part
        part.is_aborted = true;
        part.timeline->poison(
            {YOKE_STATUS_ABORTED, "another member of the group failed: " + missing->failure->text()});
      }
    } catch (const sdk::Failure& failure) {
      part.failure.emplace(failure);
    } catch (const std::exception& error) {  // out of memory
      part.failure.emplace(YOKE_STATUS_RESOURCE_EXHAUSTED, error.what());
    }
  }
  give_back(parts);
  for (const Part& part : parts) {
    if (code != 0 || part.failure) {
      part.member->fail(part.failure ? *part.failure : failure_of_comm(name, code));
    } else if (part.is_aborted) {
      part.member->abort();
    }
  }
  if (code != 0) {
    parts.front().member->wait(0);  // throws its first failure
  }
}

}  // namespace yoke::gpu
