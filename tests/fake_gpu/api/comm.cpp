// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/comm.cpp: the part of NCCL and RCCL that plugins use, with non-blocking communicators. Refuses
// the rest.
//
// As in the libraries, a group's calls only note what to do. A communicator queues it on its stream when it is
// asked for its progress, so the work of a plugin that does not ask never runs.
#include "comm.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

namespace fake_gpu {
namespace {

enum Result : int {
  kCommOk = 0,
  kCommInternal = 3,
  kCommInvalidArgument = 4,
  kCommInvalidUsage = 5,
  kCommRemote = 6,
  kCommInProgress = 7
};

struct CommRound {
  std::map<int, CommPart> parts;  // by rank, those that wait here
  int left = 0;
  bool is_done = false;
  bool has_failed = false;
};

struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  std::map<int, int> devices;  // by rank: of the members that have joined
  std::map<std::uint64_t, CommRound> rounds;
};

struct Comm {
  int device = 0;
  int rank = 0;
  std::shared_ptr<Clique> clique;
  int fault = 0;  // under the clique's mutex, like the rest
  bool is_aborted = false;
  std::vector<CommPart> noted;  // not yet on a stream
  std::uint64_t queued = 0;     // collectives on streams
  std::uint64_t ended = 0;
};

Objects<Comm>& comms() {
  static auto* const all = new Objects<Comm>("communicator", 0x65);
  return *all;
}

struct Cliques {
  std::mutex mutex;
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::shared_ptr<Clique>> all;
};

Cliques& cliques() {
  static auto* const all = new Cliques;
  return *all;
}

// Calls of this thread between ncclGroupStart and ncclGroupEnd.
thread_local int group_depth = 0;
thread_local std::vector<std::pair<std::shared_ptr<Comm>, CommPart>> group_parts;

[[noreturn]] void reject(const char* name, const std::string& reason, int code = kCommInvalidArgument) {
  complain(std::string(name) + ": " + reason);
  throw Error{code};
}

// The library restores the thread's device after these calls, and without a context that is the first device, where it
// would create a context.
void expect_context(const char* name) {
  if (!has_context()) {
    complain(std::string(name) + " is called without a current context");
  }
}

bool agree(const CommPart& a, const CommPart& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.reduction == b.reduction &&
         a.root == b.root;
}

// On the stream's thread: waits for the parts of the other members; the last one does the work of all.
void take_part(Comm& comm, std::uint64_t number, const CommPart& part) {
  Clique& clique = *comm.clique;
  std::unique_lock lock(clique.mutex);
  if (comm.is_aborted) {
    return;
  }
  CommRound& round = clique.rounds[number];
  round.parts.emplace(comm.rank, part);
  if (static_cast<int>(round.parts.size()) == clique.size) {
    const bool is_same = std::all_of(round.parts.begin(), round.parts.end(),
                                     [&](const auto& other) { return agree(other.second, part); });
    round.has_failed = !is_same;
    if (is_same) {
      run_collective(round.parts);
    } else {
      complain("the members of a group queue different collectives");
    }
    round.is_done = true;
    clique.changed.notify_all();
  }
  clique.changed.wait(lock, [&] { return round.is_done || comm.is_aborted; });
  if (!round.is_done) {
    round.parts.erase(comm.rank);
    return;
  }
  comm.fault = round.has_failed ? kCommInvalidUsage : comm.fault;
  if (++round.left == clique.size) {
    clique.rounds.erase(number);
  }
}

std::vector<Range> ranges_of(const Comm& comm, const CommPart& part) {
  const std::size_t byte_count = byte_count_of(part);
  const auto size = static_cast<std::size_t>(comm.clique->size);
  std::vector<Range> ranges = {{part.target, byte_count * (part.kind == CommKind::kAllGather ? size : 1)}};
  if (part.kind != CommKind::kBroadcast || comm.rank == part.root) {
    ranges.push_back({part.source, byte_count * (part.kind == CommKind::kReduceScatter ? size : 1)});
  }
  return ranges;
}

// Puts what was noted on the streams.
void launch_noted(const std::shared_ptr<Comm>& comm) {
  std::vector<CommPart> parts;
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(comm->clique->mutex);
    parts.swap(comm->noted);
    number = std::exchange(comm->queued, comm->queued + parts.size());
  }
  for (const CommPart& part : parts) {
    ++number;
    part.stream->push({.name = "collective",
                       .run =
                           [comm, number, part] {
                             take_part(*comm, number, part);
                             const std::scoped_lock lock(comm->clique->mutex);
                             ++comm->ended;
                           },
                       .ranges = ranges_of(*comm, part)});
  }
}

int end_group() {
  if (--group_depth > 0) {
    return kCommOk;
  }
  for (auto& [comm, part] : group_parts) {
    const std::scoped_lock lock(comm->clique->mutex);
    comm->noted.push_back(part);
  }
  const bool is_empty = group_parts.empty();
  group_parts.clear();
  return is_empty ? kCommOk : kCommInProgress;
}

int collective(const char* name, void* handle, void* stream_handle, CommPart part) {
  const int code = run(name, [&] {
    refuse_during_capture(name);
    const auto comm = comms().get(handle);
    part.stream = stream_of(stream_handle);
    if (part.stream->device != comm->device) {
      reject(name, "the stream is of another device than the communicator");
    }
    if (part.type < 0 || part.type > 9 ||
        (part.reduction != 0 && part.reduction != 2 && part.reduction != 3) || part.root < 0 ||
        part.root >= comm->clique->size) {
      reject(name, "a type, reduction or root is not modeled");
    }
    const Pins checked = memory().pin(ranges_of(*comm, part), comm->device, name);
    const std::scoped_lock lock(comm->clique->mutex);
    if (comm->fault != 0 || static_cast<int>(comm->clique->devices.size()) != comm->clique->size) {
      reject(name, "the communicator has failed or is not connected", kCommInvalidUsage);
    }
    ++group_depth;
    group_parts.emplace_back(comm, part);
  });
  return code != 0 ? code : end_group();
}

}  // namespace

int fake_comm_version(int* version) {
  return run("comm_version", [&] { *version = settings().comm_version; });
}

int fake_comm_unique_id(CommId* id) {
  return run("comm_unique_id", [&] {
    const std::scoped_lock lock(cliques().mutex);
    const std::uint64_t number = ++cliques().last;
    cliques().all[number] = std::make_shared<Clique>();
    *id = {};
    std::memcpy(id->bytes, &number, sizeof number);
  });
}

int fake_comm_init(void** handle, int size, CommId id, int rank, void* config) {
  const int code = run("comm_init", [&] {
    struct {
      std::size_t size;
      unsigned magic;
      unsigned version;
      int blocking;
    } given = {};
    std::memcpy(&given, config, sizeof given);
    if (given.size < 20 || given.magic != 0xcafebeef || given.version < 21400 || given.blocking != 0) {
      reject("comm_init", "the configuration is invalid, or asks for a blocking communicator");
    }
    auto comm = std::make_shared<Comm>();
    comm->device = current_device("comm_init");
    comm->rank = rank;
    std::uint64_t number = 0;
    std::memcpy(&number, id.bytes, sizeof number);
    {
      const std::scoped_lock lock(cliques().mutex);
      const auto found = cliques().all.find(number);
      if (found == cliques().all.end() || rank < 0 || rank >= size) {
        reject("comm_init", "an unknown id, or a rank that is not less than the size");
      }
      comm->clique = found->second;
    }
    Clique& clique = *comm->clique;
    const std::scoped_lock lock(clique.mutex);
    clique.size = clique.size == 0 ? size : clique.size;
    const bool is_known = std::any_of(clique.devices.begin(), clique.devices.end(), [&](const auto& other) {
      return other.first == rank || other.second == comm->device;
    });
    if (is_known || clique.size != size) {
      reject("comm_init", "a device or rank joins twice, or the sizes differ", kCommInvalidUsage);
    }
    if (size > settings().comm_ranks) {  // reported later, as the libraries do
      comm->fault = kCommInternal;
    }
    clique.devices[rank] = comm->device;
    clique.changed.notify_all();
    *handle = comms().add(std::move(comm));
  });
  return code != 0 ? code : kCommInProgress;
}

int fake_comm_async_error(void* handle, int* error) {
  return run("comm_async_error", [&] {
    const auto comm = comms().get(handle);
    {
      const std::scoped_lock lock(comm->clique->mutex);
      *error = comm->fault;
      if (*error == 0 && (static_cast<int>(comm->clique->devices.size()) != comm->clique->size ||
                          (!comm->noted.empty() && chance(3) == 1))) {
        *error = kCommInProgress;
      }
    }
    if (*error == 0) {
      launch_noted(comm);
    }
  });
}

int fake_comm_abort(void* handle) {
  return run("comm_abort", [&] {
    expect_context("comm_abort");
    const auto comm = comms().remove(handle);
    const std::scoped_lock lock(comm->clique->mutex);
    comm->is_aborted = true;
    comm->clique->changed.notify_all();
  });
}

int fake_comm_destroy(void* handle) {
  return run("comm_destroy", [&] {
    expect_context("comm_destroy");
    const auto comm = comms().remove(handle);
    const std::scoped_lock lock(comm->clique->mutex);
    if ((comm->ended != comm->queued || !comm->noted.empty()) && device_at(comm->device).error == 0) {
      complain("a communicator is destroyed while it has work");
    }
    comm->is_aborted = true;
  });
}

int fake_comm_group_start() {
  return run("comm_group_start", [] { ++group_depth; });
}

int fake_comm_group_end() {
  const int code = run("comm_group_end", [] {
    expect_context("comm_group_end");
    if (group_depth == 0) {
      reject("comm_group_end", "no group was started", kCommInvalidUsage);
    }
  });
  const int ended = group_depth > 0 ? end_group() : 0;
  return code != 0 ? code : ended;
}

int fake_comm_all_reduce(Address source, Address target, std::size_t count, int type, int reduction,
                         void* communicator, void* stream) {
  return collective("comm_all_reduce", communicator, stream,
                    {CommKind::kAllReduce, source, target, count, type, reduction, 0, {}});
}

int fake_comm_reduce_scatter(Address source, Address target, std::size_t count, int type, int reduction,
                             void* communicator, void* stream) {
  return collective("comm_reduce_scatter", communicator, stream,
                    {CommKind::kReduceScatter, source, target, count, type, reduction, 0, {}});
}

int fake_comm_all_gather(Address source, Address target, std::size_t count, int type, void* communicator,
                         void* stream) {
  return collective("comm_all_gather", communicator, stream,
                    {CommKind::kAllGather, source, target, count, type, 0, 0, {}});
}

int fake_comm_broadcast(Address source, Address target, std::size_t count, int type, int root,
                        void* communicator, void* stream) {
  return collective("comm_broadcast", communicator, stream,
                    {CommKind::kBroadcast, source, target, count, type, 0, root, {}});
}

}  // namespace fake_gpu
