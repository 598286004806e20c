// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/readback.cpp: small copies to the host by way of a block; with bugs.
#include <algorithm>
#include <cstring>
#include <utility>

#include "queue.h"

namespace yoke::board {

void Stream::read_by_block(sdk::Stream* stream, const Queue::Read& read) {
  Queue* queue = static_cast<Stream*>(stream)->queue_.get();
  {
    const std::lock_guard lock(queue->hub.mutex);
    if (!queue->commands.empty() && queue->commands.back().reads != nullptr) {
      queue->commands.back().reads->push_back(read);
      return;
    }
  }
  const auto reads = std::make_shared<std::vector<Queue::Read>>(1, read);
  const auto run = [reads] {
    std::vector<std::byte> block(4096);
    for (const Queue::Read& one : *reads) {
      std::copy_n(one.source, one.byte_count, block.data());
    }
    for (const Queue::Read& one : *reads) {
      std::copy_n(block.data(), one.byte_count, static_cast<std::byte*>(one.target));
    }
  };
  queue->post({.run = run, .reads = reads});
}

void Stream::read_back(sdk::Stream* stream, const std::byte* source, void* target, std::uint64_t byte_count) {
  Queue* queue = static_cast<Stream*>(stream)->queue_.get();
  queue->post({.run = [=] {
    std::vector<std::byte> bytes(source, source + byte_count);
    const std::lock_guard lock(queue->hub.mutex);
    queue->landings.emplace_back([target, bytes = std::move(bytes)] {
      if (!bytes.empty()) {
        std::memcpy(target, bytes.data(), bytes.size());
      }
    });
  }});
}

}  // namespace yoke::board
