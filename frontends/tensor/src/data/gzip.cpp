// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/gzip.cpp: decompression by zlib.
#include "data/gzip.h"

#include <yoke/runtime/error.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace yoke::detail {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;

class Inflater {
 public:
  explicit Inflater(std::span<const std::byte> file) : left_(file) {
    if (inflateInit2(&state_, kGzipOnly) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Inflater() { inflateEnd(&state_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Decompresses into `room` and returns zlib's result; takes what was written from the front of `room`.
  int write(std::span<std::byte>& room) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    // zlib only reads the bytes.
    state_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(left_.data()));
    state_.avail_in = static_cast<uInt>(std::min(left_.size(), kMost));
    state_.next_out = reinterpret_cast<Bytef*>(room.data());
    state_.avail_out = static_cast<uInt>(std::min(room.size(), kMost));
    const int result = inflate(&state_, Z_NO_FLUSH);
    left_ = left_.last(left_.size() - static_cast<std::size_t>(state_.next_in -
                                                               reinterpret_cast<const Bytef*>(left_.data())));
    room = room.last(
        static_cast<std::size_t>(reinterpret_cast<Bytef*>(room.data() + room.size()) - state_.next_out));
    return result;
  }
  void next_member() { inflateReset(&state_); }
  std::size_t left() const { return left_.size(); }
  const char* message() const { return state_.msg != nullptr ? state_.msg : "it ends too early"; }

 private:
  std::span<const std::byte> left_;
  z_stream state_{};
};

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(std::span<const std::byte> file, const std::string& what) {
  Inflater inflater(file);
  std::vector<std::byte> bytes(4 * file.size());
  std::span<std::byte> room = bytes;
  bool in_member = true;
  while (in_member || inflater.left() > 0) {
    const int result = inflater.write(room);
    in_member = result != Z_STREAM_END;
    if (!in_member) {
      inflater.next_member();
    } else if (room.empty() && (result == Z_OK || result == Z_BUF_ERROR)) {
      const std::size_t done = bytes.size();  // deflate compresses at most 1032 to 1, so this ends
      bytes.resize(2 * done);
      room = std::span(bytes).subspan(done);
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK || inflater.left() == 0) {
      throw Error(ErrorCode::kDataLoss, what + ": invalid gzip data at byte " +
                                            std::to_string(file.size() - inflater.left()) + " (" +
                                            inflater.message() + "); the file is damaged: download it again");
    }
  }
  bytes.resize(bytes.size() - room.size());
  return bytes;
}

}  // namespace yoke::detail
