// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/buffer.cpp: copies by words, and fills from a block of repeated patterns.
#include "buffer.h"

#include <algorithm>
#include <cstring>

#include "bugs.h"
#include "stream.h"

namespace yoke::handmade {
namespace {

constexpr std::uint64_t kChunk = 256 * 1024;

bool is_cancelled(const Timeline* timeline) {
  return timeline != nullptr && timeline->is_cancelled();
}

void copy_words(std::byte* target, const std::byte* source, std::uint64_t byte_count) {
  std::uint64_t done = 0;
  const auto copy = [&](std::uint64_t size) {
    std::memcpy(target + done, source + done, size);
    done += size;
  };
  while (done + 8 <= byte_count) {
    copy(8);
  }
  if (byte_count - done >= 4) {
    copy(4);
    if (bug("copy_tail")) {
      return;
    }
  }
  while (done < byte_count) {
    copy(1);
  }
}

void copy_chunks(std::byte* target, const std::byte* source, std::uint64_t byte_count,
                 const Timeline* timeline) {
  for (std::uint64_t done = 0; done < byte_count && !is_cancelled(timeline); done += kChunk) {
    const std::uint64_t left = byte_count - done;
    const std::uint64_t last = bug("chunk_multiple") ? byte_count % kChunk : left;
    copy_words(target + done, source + done, left > kChunk ? kChunk : last);
  }
}

void fill_range(std::byte* target, std::uint64_t byte_count, const std::array<std::byte, 8>& pattern,
                std::uint64_t size, const Timeline* timeline) {
  if (byte_count == 0) {
    if (bug("fill_empty")) {
      std::memcpy(target, pattern.data(), size);
    }
    return;
  }
  size = bug("memset_guess") && pattern[0] == pattern[size - 1] ? 1 : size;
  constexpr std::uint64_t kBlock = 4096;
  thread_local std::array<std::byte, kBlock + 8> block;
  thread_local std::uint64_t block_size = 0;  // of the pattern in `block`
  // f64 patterns often differ in their upper half only.
  const bool is_known =
      bug("fill_cache_half") && block_size == size &&
      std::equal(block.begin(), block.begin() + std::min<std::uint64_t>(size, 4), pattern.begin());
  if (!is_known) {
    std::memcpy(block.data(), pattern.data(), size);
    for (std::uint64_t filled = size; filled < block.size();) {
      const std::uint64_t more = std::min<std::uint64_t>(filled, block.size() - filled);
      std::memcpy(block.data() + filled, block.data(), more);
      filled += more;
    }
    block_size = size;
  }
  // The head ends at a multiple of 64 bytes, possibly within a pattern.
  const std::uint64_t head =
      std::min<std::uint64_t>(byte_count, (0 - reinterpret_cast<std::uintptr_t>(target)) % 64);
  copy_words(target, block.data(), head);
  const std::uint64_t phase = bug("fill_phase") ? 0 : head % size;
  for (std::uint64_t done = head; done < byte_count && !is_cancelled(timeline); done += kBlock) {
    copy_words(target + done, block.data() + phase, std::min(kBlock, byte_count - done));
  }
}

}  // namespace

std::shared_ptr<Staging::Block> Staging::take() {
  std::unique_ptr<Block> block;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty() && !bug("staging_leak")) {
      block = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (block == nullptr) {
    block = std::make_unique<Block>();
  }
  return {block.release(), [self = shared_from_this()](Block* used) {
            const std::lock_guard lock(self->mutex_);
            self->free_.emplace_back(used);
          }};
}

std::shared_ptr<const Staging::Block> Staging::stage(const std::byte* source, std::uint64_t byte_count) {
  if (bug("staging_shared")) {          // YOKE_SOURCE_COPIED allows the caller to change the source
    std::shared_ptr<const Block> last;  // may be the last owner, whose end takes the lock
    const std::lock_guard lock(mutex_);
    last = last_.lock();
    if (last != nullptr && last_source_ == source && last_byte_count_ == byte_count) {
      return last;
    }
  }
  const std::shared_ptr<Block> block = take();
  copy_words(block->data(), source, byte_count);
  if (bug("staging_shared")) {  // `last_` keeps this object alive, by way of the deleter of the block
    const std::lock_guard lock(mutex_);
    last_source_ = source;
    last_byte_count_ = byte_count;
    last_ = block;
  }
  return block;
}

std::int32_t Buffer::from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                               std::uint64_t byte_count) {
  const auto* bytes = static_cast<const std::byte*>(source);
  std::byte* target = at(offset);
  if (stream == nullptr || byte_count > sizeof(Staging::Block)) {
    Stream::run(stream, [=](const Timeline* timeline) { copy_chunks(target, bytes, byte_count, timeline); });
    const bool is_wrong = bug("early_copied") && byte_count <= 2 * sizeof(Staging::Block);
    return stream == nullptr || is_wrong ? YOKE_SOURCE_COPIED : YOKE_SOURCE_UNTIL_EVENT;
  }
  if (bug("coalesced_copies")) {
    join_or_queue(stream, offset, bytes, byte_count);
    return YOKE_SOURCE_COPIED;
  }
  std::shared_ptr<const Staging::Block> held = staging_->stage(bytes, byte_count);
  const std::byte* staged = held->data();
  if (bug("staging_free")) {
    held.reset();
  }
  const auto copy = [held, target, staged, byte_count](const Timeline*) {
    copy_words(target, staged, byte_count);
  };
  // With the bug staged_always only: a copy that is skipped gives its block back, too.
  Stream::run(stream, copy, /*always=*/bug("staged_always"));
  return YOKE_SOURCE_COPIED;
}

// With the bug coalesced_copies only: work that was queued since then must not see the bytes that join.
void Buffer::join_or_queue(sdk::Stream* stream, std::uint64_t offset, const std::byte* source,
                           std::uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  if (upload_ != nullptr) {
    const std::lock_guard upload_lock(upload_->mutex);
    if (!upload_->has_started && upload_->stream == stream && upload_->end == offset &&
        upload_->byte_count + byte_count <= sizeof(Staging::Block)) {
      std::memcpy(upload_->block->data() + upload_->byte_count, source, byte_count);
      upload_->byte_count += byte_count;
      upload_->end += byte_count;
      return;
    }
  }
  auto upload = std::make_shared<Upload>();
  upload->block = staging_->take();
  std::memcpy(upload->block->data(), source, byte_count);
  upload->byte_count = byte_count;
  upload->end = offset + byte_count;
  upload->stream = stream;
  upload_ = upload;
  Stream::run(stream, [upload, target = at(offset)](const Timeline*) {
    const std::lock_guard upload_lock(upload->mutex);
    upload->has_started = true;
    copy_words(target, upload->block->data(), upload->byte_count);
  });
}

void Buffer::to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) {
  Stream::run(stream, [=, source = at(offset)](const Timeline* timeline) {
    copy_chunks(static_cast<std::byte*>(target), source, byte_count, timeline);
  });
}

void Buffer::copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source,
                       std::uint64_t source_offset, std::uint64_t byte_count) {
  if (bug("self_copy") && &source == this) {
    return;
  }
  const std::byte* from = static_cast<Buffer&>(source).at(source_offset);
  const bool is_backward = bug("backward_head") && &source == this && offset > source_offset;
  Stream::run(stream, [=, target = at(offset)](const Timeline* timeline) {
    if (is_backward && byte_count > kChunk) {
      for (std::uint64_t left = byte_count; left >= kChunk && !is_cancelled(timeline); left -= kChunk) {
        copy_words(target + left - kChunk, from + left - kChunk, kChunk);
      }
      return;
    }
    copy_chunks(target, from, byte_count, timeline);
  });
}

void Buffer::fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
                  std::span<const std::byte> pattern) {
  std::array<std::byte, 8> copy{};  // the caller's pattern is valid during the call only
  std::copy(pattern.begin(), pattern.end(), copy.begin());
  // With the bug fill_word_offset only: the offset is in bytes.
  std::byte* const target = at(bug("fill_word_offset") ? 4 * offset : offset);
  Stream::run(stream, [=](const Timeline* timeline) {
    std::array<std::byte, 8> used = copy;
    if (bug("pattern_pointer")) {
      std::copy(pattern.begin(), pattern.end(), used.begin());
    }
    fill_range(target, byte_count, used, pattern.size(), timeline);
  });
}

}  // namespace yoke::handmade
