// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/feed.cpp: stages host data and copies it to a device on a stream of its own.
#include <yoke/runtime/feed.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "device/host_memory.h"
#include "schedule/range.h"

namespace yoke {

struct FeedStream::Impl {
  struct Slot {
    detail::HostMemory memory;
    Event sent;  // the latest copy
  };
  std::uint64_t slot_byte_count = 0;
  std::vector<Slot> slots;
  std::shared_ptr<Stream> stream;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (stream != nullptr) {
      Stream::finish({&stream, 1});
    }
    for (Slot& slot : slots) {
      try {
        if (!slot.sent.is_done()) {  // leaked, because a copy may still read it
          (void)new (std::nothrow) detail::HostMemory(std::move(slot.memory));
        }
      } catch (const Error&) {  // failed, and no longer reads it
      }
    }
  }
  Slot& at(std::uint32_t slot) {
    if (slot >= slots.size()) {
      throw Error(ErrorCode::kOutOfRange, "feed: " + detail::outside_text("slot", slot, slots.size()));
    }
    return slots[slot];
  }
};

FeedStream::FeedStream(const Context& shard, std::uint32_t slots, std::uint64_t slot_byte_count)
    : impl_(std::make_unique<Impl>()) {
  if (slots == 0) {
    throw Error(ErrorCode::kInvalidArgument, "feed: the number of slots is 0; use at least 1");
  }
  const std::shared_ptr<Device>& device = shard.stream()->device();
  impl_->slot_byte_count = slot_byte_count;
  for (std::uint32_t i = 0; i < slots; ++i) {
    impl_->slots.push_back({detail::HostMemory({device}, slot_byte_count), Event()});
  }
  impl_->stream = Stream::create(device, "feed of " + shard.stream()->name());
}

FeedStream::~FeedStream() = default;
FeedStream::FeedStream(FeedStream&&) noexcept = default;
FeedStream& FeedStream::operator=(FeedStream&&) noexcept = default;

FeedStream::Impl& FeedStream::impl() const {
  if (impl_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the FeedStream is empty, because it was moved from");
  }
  return *impl_;
}

std::span<std::byte> FeedStream::stage(std::uint32_t slot, std::int64_t step) {
  Impl::Slot& used = impl().at(slot);
  used.sent.wait();
  used.sent = Event();
  impl_->stream->begin_step(step);
  return {used.memory.data(), impl_->slot_byte_count};
}

void FeedStream::send(std::uint32_t slot, std::uint64_t offset, const BufferView& dst) {
  Impl::Slot& used = impl().at(slot);
  if (offset > impl_->slot_byte_count || dst.byte_count > impl_->slot_byte_count - offset) {
    throw Error(ErrorCode::kOutOfRange, "feed: a slot of " + detail::counted(impl_->slot_byte_count, "byte") +
                                            " does not have " + detail::counted(dst.byte_count, "byte") +
                                            " from byte " + std::to_string(offset));
  }
  impl_->stream->from_host(dst, used.memory.data() + offset);
  used.sent = impl_->stream->record();
}

const std::shared_ptr<Stream>& FeedStream::stream() const {
  return impl().stream;
}

}  // namespace yoke
