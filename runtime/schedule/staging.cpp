// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/staging.cpp: copies through host memory, in chunks: one
// chunk is read while the previous one is written.
#include <yoke/runtime/stream.h>

#include <algorithm>

#include "schedule/queue_copies.h"
#include "schedule/stream_state.h"

namespace yoke::detail {

namespace {

constexpr std::uint64_t kChunkByteCount = std::uint64_t{4} << 20U;

}  // namespace

bool StreamState::reaches(const Buffer& buffer) const {
  return buffer.device()->is_same(*device) ||
         (!is_native_ && buffer.device()->backend() == device->backend());
}

StreamState::Staging& StreamState::staging_for(const BufferView& dst, const BufferView& src) {
  const std::shared_ptr<Device>& far = (reaches(*dst.buffer) ? src : dst).buffer->device();
  Staging& staging = stagings_[far.get()];
  if (staging.stream == nullptr) {
    staging.stream = Stream::create(far, name + "/staging");
  }
  const std::uint64_t wanted = std::min(kChunkByteCount, src.byte_count);
  if (staging.chunk_byte_count < wanted) {
    // Queued work may still use the smaller chunks.
    wait(last_ticket(), wait_timeout);
    staging.stream->wait();
    for (HostMemory& chunk : staging.chunks) {
      chunk = HostMemory({device, far}, wanted);
    }
    staging.chunk_byte_count = wanted;
  }
  // Joins the workers now, so that stage() cannot fail between its commands.
  ensure_worker();
  staging.stream->state().ensure_worker();
  return staging;
}

void StreamState::prepare_staging(const BufferView& dst, const BufferView& src) {
  staging_for(dst, src);
}

void StreamState::stage(const BufferView& dst, const BufferView& src) {
  const bool writes_here = reaches(*dst.buffer);
  Staging& staging = staging_for(dst, src);
  const std::uint64_t count = (src.byte_count + staging.chunk_byte_count - 1) / staging.chunk_byte_count;

  // In the hazards, the whole copy is one command of this stream: the other stream starts after its first
  // ticket and finishes before its last, also after a failure: until then it uses the memory.
  const std::array<Access, 2> accesses =
      in_order({&src.buffer->hazards(), src.offset, src.offset + src.byte_count, true, false},
               {&dst.buffer->hazards(), dst.offset, dst.offset + dst.byte_count, false, true});
  begin(accesses, count + (writes_here ? 1 : 2));
  try {
    queue_chunks(dst, src, staging);
  } catch (const Error& error) {
    retire(error);
    throw;
  }
}

void StreamState::queue_chunks(const BufferView& dst, const BufferView& src, Staging& staging) {
  const bool writes_here = reaches(*dst.buffer);
  StreamState& far = staging.stream->state();
  const std::uint64_t chunk = staging.chunk_byte_count;
  const std::uint64_t count = (src.byte_count + chunk - 1) / chunk;
  const auto nothing = [](Command& command) { command.kind = CommandKind::kWait; };
  const std::uint64_t start = emit(nothing);

  StreamState& reader = writes_here ? far : *this;
  StreamState& writer = writes_here ? *this : far;
  far.depend({shared_from_this(), start, true});
  std::array<std::uint64_t, 2> written{};  // the ticket of the last write from each chunk
  for (std::uint64_t k = 0; k < count; ++k) {
    std::byte* memory = staging.chunks[k % 2].data();
    const std::uint64_t offset = k * chunk;
    const std::uint64_t byte_count = std::min(chunk, src.byte_count - offset);
    if (k >= 2) {
      reader.depend({writer.shared_from_this(), written[k % 2], true});
    }
    const std::uint64_t read = reader.emit([&](Command& command) {
      command.kind = CommandKind::kToHost;
      command.src = src.buffer->get();
      command.src_offset = src.offset + offset;
      command.to = memory;
      command.byte_count = byte_count;
    });
    writer.depend({reader.shared_from_this(), read, true, writes_here && k + 1 == count});
    written[k % 2] = writer.emit([&](Command& command) {
      command.kind = CommandKind::kFromHost;
      command.dst = dst.buffer->get();
      command.dst_offset = dst.offset + offset;
      command.from = memory;
      command.byte_count = byte_count;
    });
  }
  if (!writes_here) {
    depend({far.shared_from_this(), far.last_ticket(), true, true});
    emit(nothing);
  }
}

}  // namespace yoke::detail
