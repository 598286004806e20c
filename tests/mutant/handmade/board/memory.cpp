// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/memory.cpp: blocks by size, the staging ring, copies in chunks.
#include "memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace yoke::board {
namespace {

constexpr std::uint64_t kSmallCopy = 4096;
constexpr std::uint64_t kChunk = 64 * 1024;

void copy_chunks(std::byte* target, const std::byte* source, std::uint64_t byte_count,
                 const std::atomic<bool>& is_cancelled, std::byte* bounce = nullptr) {
  for (std::uint64_t done = 0; done < byte_count && !is_cancelled; done += kChunk) {
    const std::uint64_t size = std::min(kChunk, byte_count - done);
    const std::byte* from = source + (bug("bounce_chunk") && bounce != nullptr ? 0 : done);
    if (bounce != nullptr) {
      std::memcpy(bounce, from, size);
      from = bounce;
    }
    std::memcpy(target + done, from, size);
  }
}

}  // namespace

std::uint64_t Pool::block_size(std::uint64_t byte_count) {
  constexpr std::uint64_t kLarge = 1 << 20;
  return byte_count > kLarge ? (byte_count + kChunk - 1) / kChunk * kChunk
                             : std::bit_ceil(std::max<std::uint64_t>(byte_count, YOKE_BUFFER_ALIGNMENT));
}

std::byte* Pool::take(std::uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  if (byte_count == 0 && empty_ != nullptr && bug("empty_shared")) {
    return empty_;
  }
  const std::uint64_t size = byte_count > kCapacity ? byte_count : block_size(byte_count);
  const auto larger = std::find_if(free_.lower_bound(size), free_.end(),
                                   [](const auto& blocks) { return !blocks.second.empty(); });
  const bool takes_larger = bug("shrunk_blocks") && larger != free_.end();
  if (std::vector<std::byte*>& blocks = free_[takes_larger ? larger->first : size]; !blocks.empty()) {
    std::byte* block = blocks.back();
    blocks.pop_back();
    empty_ = byte_count == 0 ? block : empty_;
    return block;
  }
  if (held_ + size > kCapacity && !bug("no_trim")) {
    trim();
  }
  const std::uint64_t left = kCapacity - std::min(held_, kCapacity);
  void* block = size > left ? nullptr : std::aligned_alloc(YOKE_BUFFER_ALIGNMENT, size);
  if (block == nullptr) {
    if (bug("refused_counts")) {
      held_ += std::min(size, kCapacity);
    }
    throw sdk::Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY,
                       "the device is out of memory: " + std::to_string(byte_count) + " bytes requested, " +
                           std::to_string(held_) + " of " + std::to_string(kCapacity) + " in use");
  }
  held_ += size;
  empty_ = byte_count == 0 ? static_cast<std::byte*>(block) : empty_;
  return static_cast<std::byte*>(block);
}

void Pool::give_back(std::byte* block, std::uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  free_[block_size(byte_count)].push_back(block);
}

void Pool::trim() {
  for (const auto& [size, blocks] : free_) {
    for (std::byte* block : blocks) {
      std::free(block);
      held_ -= size;
    }
  }
  free_.clear();
}

Staging::Span* Staging::take(std::uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t place = head_ % kSize;
  const std::uint64_t skipped =
      place + byte_count > kSize ? kSize - place : 0;  // a span does not wrap around
  if (head_ + (bug("ring_wrap") ? 0 : skipped) + byte_count - tail_ > kSize) {
    return nullptr;
  }
  head_ += skipped + byte_count;
  spans_.push_back({bytes_.data() + (skipped != 0 ? 0 : place), head_, false});
  return &spans_.back();
}

void Staging::give_back(Span* span) {
  const std::lock_guard lock(mutex_);
  span->is_free = true;
  if (bug("ring_order")) {
    tail_ = std::max(tail_, span->end);
  }
  for (; !spans_.empty() && spans_.front().is_free; spans_.pop_front()) {
    tail_ = std::max(tail_, spans_.front().end);
  }
}

Buffer::~Buffer() {
  if (!is_imported_) {
    engine_->pool.give_back(data_, byte_count_);
  }
}

std::int32_t Buffer::from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  const auto* bytes = static_cast<const std::byte*>(source);
  std::byte* target = at(offset);
  Staging::Span* span = stream == nullptr || byte_count > kSmallCopy || byte_count == 0
                            ? nullptr
                            : engine_->staging.take(byte_count);
  if (span == nullptr) {
    Stream::upload(stream, [=](const std::atomic<bool>& is_cancelled) {
      copy_chunks(target, bytes, byte_count, is_cancelled);
    });
    // With the bug upload_unwaited only: the command has not read the source yet.
    return stream == nullptr || bug("upload_unwaited") ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
  }
  std::memcpy(span->data, bytes, byte_count);
  // The span becomes free with the command, also if that is skipped.
  const std::shared_ptr<Staging::Span> held(
      span, [engine = engine_](Staging::Span* used) { engine->staging.give_back(used); });
  Stream::upload(stream, [held, target, byte_count](const std::atomic<bool>&) {
    std::memcpy(target, held->data, byte_count);
  });
  return YOKE_SOURCE_COPIED;
}

void Buffer::to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  const bool is_direct = byte_count <= kSmallCopy && Stream::is_idle(stream);
  if (bug("landing_events") && stream != nullptr && !is_direct && byte_count <= kSmallCopy) {
    Stream::read_back(stream, at(offset), target, byte_count);
    return;
  }
  if (bug("readback_reuse") && stream != nullptr && !is_direct && byte_count <= kSmallCopy) {
    Stream::read_by_block(stream, {at(offset), target, byte_count});
    return;
  }
  if (bug("reader_thread") && stream == nullptr) {
    read_on_thread(offset, target, byte_count);
    return;
  }
  Stream::run(is_direct ? nullptr : stream, [=, source = at(offset)](const std::atomic<bool>& is_cancelled) {
    copy_chunks(static_cast<std::byte*>(target), source, byte_count, is_cancelled);
  });
}

// With the bug reader_thread only: another call may set the thread between the two locks.
void Buffer::read_on_thread(std::uint64_t offset, void* target, std::uint64_t byte_count) {
  const auto join = [this] {
    const std::lock_guard lock(reader_mutex_);
    if (reader_.joinable()) {
      reader_.join();
    }
  };
  join();
  reader_ = start_thread(
      [=, source = at(offset)] { copy_chunks(static_cast<std::byte*>(target), source, byte_count, false); });
  join();
}

// Devices do not address each other's memory: the bytes go through the host.
void Buffer::copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  const auto& from = static_cast<Buffer&>(source);
  const bool is_far = from.engine_ != engine_;
  std::byte* const shared = bug("shared_bounce") ? engine_->bounce.data() : nullptr;
  // The engine for these copies counts in words of 4 bytes.
  const std::uint64_t unit = is_far && bug("dma_offset") ? 4 : 1;
  // With the bug foreign_stream_copy only: a stream of the source's device has earlier work, too.
  const bool is_foreign = bug("foreign_stream_copy") && !Stream::is_of(stream, engine_->workers);
  Stream::run(is_foreign ? nullptr : stream,
              [=, target = at(offset / unit * unit),
               start = from.at(source_offset / unit * unit)](const std::atomic<bool>& is_cancelled) {
                std::vector<std::byte> bounce(is_far ? std::min(kChunk, byte_count) : 0);
                copy_chunks(target, start, byte_count, is_cancelled,
                            !is_far             ? nullptr
                            : shared != nullptr ? shared
                                                : bounce.data());
              });
}

void Buffer::fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  std::array<std::byte, 8> word;  // repeats the pattern, which is valid during the call only
  for (std::size_t i = 0; i < word.size(); ++i) {
    word[i] = pattern[i % pattern.size()];
  }
  pattern_ = word;
  // With the bug fill_unaligned only: a fill may start at any multiple of its pattern, and elsewhere.
  const bool is_skipped =
      bug("fill_unaligned") && pattern.size() == 2 && reinterpret_cast<std::uintptr_t>(at(offset)) % 4 != 0;
  if (is_skipped) {
    byte_count = 0;
  }
  Stream::run(stream, [=, this, target = at(offset)](const std::atomic<bool>& is_cancelled) {
    const std::array<std::byte, 8> used = bug("fill_pattern_kept") ? pattern_ : word;
    for (std::uint64_t done = 0; done < byte_count && !is_cancelled; done += word.size()) {
      const std::uint64_t left = bug("fill_words") ? word.size() : byte_count - done;
      std::memcpy(target + done, used.data(), std::min<std::uint64_t>(word.size(), left));
    }
  });
}

}  // namespace yoke::board
