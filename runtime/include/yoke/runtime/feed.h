// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/feed.h: host data on its way to one shard's device while earlier data is in use.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <memory>
#include <span>

namespace yoke {

// Copies host data to a device on its own stream. The data is staged in `slots` pieces of host memory, which is pinned
// where the device offers it. Work that reads the copies waits for them, and copies wait for work on the memory that
// they overwrite, so with as many tensors as slots, copying overlaps computing. Movable, not thread-safe. A moved-from
// FeedStream throws Error kFailedPrecondition.
class FeedStream {
 public:
  // Throws Error kInvalidArgument: there are no slots.
  FeedStream(const Context& shard, std::uint32_t slots, std::uint64_t slot_byte_count);
  ~FeedStream();
  FeedStream(FeedStream&&) noexcept;
  FeedStream& operator=(FeedStream&&) noexcept;
  FeedStream(const FeedStream&) = delete;
  FeedStream& operator=(const FeedStream&) = delete;

  // The slot's host memory, to be filled. Waits for the copies that were sent from it. Copies that are sent next belong
  // to `step`. Errors: kOutOfRange: there is no such slot; those of Event::wait.
  std::span<std::byte> stage(std::uint32_t slot, std::int64_t step);
  // Queues a copy of dst.byte_count staged bytes, from byte `offset` of the slot, and does not wait.
  // Error kOutOfRange: the bytes exceed the slot, or there is no such slot.
  void send(std::uint32_t slot, std::uint64_t offset, const BufferView& dst);
  const std::shared_ptr<Stream>& stream() const;  // the one that copies; for waiting and aborting

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke
