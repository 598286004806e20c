// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/comm.h: one collective of NCCL or RCCL, and what it computes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "context.h"

namespace fake_gpu {

enum class CommKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

// What one member does in a collective.
struct CommPart {
  CommKind kind;
  Address source;
  Address target;
  std::size_t count;
  int type;
  int reduction;
  int root;
  std::shared_ptr<Stream> stream;
};

// The size of `part.count` elements.
std::size_t byte_count_of(const CommPart& part);
// Does the work of all members, by rank.
void run_collective(const std::map<int, CommPart>& parts);

}  // namespace fake_gpu
