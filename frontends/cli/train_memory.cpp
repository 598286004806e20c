// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_memory.cpp: compares needs with what the host and the devices have.
#include "train_memory.h"

#include <iostream>

#include "text.h"

namespace yoke::cli {
namespace {

std::string need_text(const MemoryNeed& need) {
  return need.device + " " + byte_text(need.total()) + " (parameters " + byte_text(need.parameters) +
         ", gradients " + byte_text(need.gradients) + ", optimizer state " + byte_text(need.state) +
         ", activations " + byte_text(need.activations) + ", data " + byte_text(need.data) + ")";
}

}  // namespace

std::uint64_t MemoryCheck::total() const {
  std::uint64_t sum = 0;
  for (const MemoryNeed& need : needs_) {
    sum += need.total();
  }
  return sum;
}

std::vector<std::string> MemoryCheck::shortages() const {
  std::vector<std::string> found;
  std::uint64_t on_host = 0;
  const auto compare = [&](const std::string& where, std::uint64_t needed, std::uint64_t available) {
    if (needed > available) {
      found.push_back(byte_text(needed) + (where == "host" ? " of host memory" : " on " + where) + ", but " +
                      byte_text(available) + " are available");
    }
  };
  for (const MemoryNeed& need : needs_) {
    on_host += need.in_host_memory ? need.total() : 0;
    if (need.available != 0) {
      compare(need.device, need.total(), need.available);
    }
  }
  if (host_bytes_) {
    compare("host", on_host, *host_bytes_);
  }
  return found;
}

void MemoryCheck::operator()(std::span<const MemoryNeed> needs) {
  needs_.assign(needs.begin(), needs.end());
  const std::vector<std::string> found = shortages();
  if (found.empty()) {
    return;
  }
  std::vector<std::string> rows;
  for (const MemoryNeed& need : needs_) {
    rows.push_back(need_text(need));
  }
  const std::string text = "this run needs " + join(found, ", and ") + ". Needed: " + join(rows, ", ") +
                           ", " + byte_text(total()) + " in total";
  if (!force_) {
    throw Error(ErrorCode::kResourceExhausted,
                text + "; use fewer shards, a smaller model or a smaller batch, or --force to start anyway");
  }
  if (!warned_) {
    warned_ = true;
    std::cerr << "yoke: warning: " << text << "; starting because of --force\n";
  }
}

}  // namespace yoke::cli
