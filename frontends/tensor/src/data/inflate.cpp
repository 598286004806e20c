// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/inflate.cpp: decompression by Boost.Beast, which is header-only, so that yoke
// does not depend on zlib.
#include "data/inflate.h"

#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <boost/beast/zlib/inflate_stream.hpp>

#include "data/files.h"

namespace yoke::detail {
namespace {

Error broken(const std::string& what, std::size_t offset, const std::string& why) {
  return {ErrorCode::kDataLoss,
          what + ": " + why + " at byte " + std::to_string(offset) + "; the file is damaged: fetch it again"};
}

constexpr std::size_t kSmallestMember = 18;  // header and trailer

// Returns the offset after the header of the gzip member that starts at `start`.
std::size_t gzip_header_end(std::span<const std::byte> file, std::size_t start, const std::string& what) {
  const auto need = [&](std::size_t end) {
    if (end > file.size()) {
      throw broken(what, file.size(), "the gzip header is truncated");
    }
  };
  need(start + kSmallestMember);
  if (!is_gzip(file.subspan(start)) || file[start + 2] != std::byte{8}) {
    throw broken(what, start, "there is no gzip header with the deflate method");
  }
  const auto flags = std::to_integer<unsigned>(file[start + 3]);
  std::size_t at = start + 10;
  if ((flags & 4U) != 0) {  // extra field
    at += 2 + read_u16(file, at);
    need(at);
  }
  for (const unsigned text : {8U, 16U}) {  // the original name, a comment: each ends with a zero byte
    if ((flags & text) != 0) {
      const auto end = std::find(file.begin() + static_cast<std::ptrdiff_t>(at), file.end(), std::byte{0});
      at = static_cast<std::size_t>(end - file.begin()) + 1;
      need(at);
    }
  }
  if ((flags & 2U) != 0) {  // checksum of the header
    at += 2;
  }
  need(at);
  return at;
}

}  // namespace

std::vector<std::byte> inflate(std::span<const std::byte> packed, std::uint64_t limit,
                               const std::string& what, std::size_t& out_taken) {
  namespace zlib = boost::beast::zlib;
  zlib::inflate_stream stream;
  zlib::z_params z{};
  z.next_in = packed.data();
  z.avail_in = packed.size();
  // One byte more than the limit, to detect streams that exceed it.
  std::vector<std::byte> bytes(static_cast<std::size_t>(
      std::min<std::uint64_t>(limit, std::max<std::uint64_t>(4 * packed.size(), 4096)) + 1));
  // Beast reads enough bits for the longest code before it decodes a shorter
  // one, so it may need bytes after the last code.
  constexpr std::array<std::byte, 4> kPadding{};
  bool padded = false;
  boost::system::error_code error;
  while (true) {
    z.next_out = bytes.data() + z.total_out;
    z.avail_out = bytes.size() - z.total_out;
    stream.write(z, zlib::Flush::sync, error);
    if (z.total_out > limit) {
      throw Error(ErrorCode::kDataLoss, what + ": inflates to more than " + std::to_string(limit) +
                                            " bytes; the file is damaged: fetch it again");
    }
    if (error == zlib::error::end_of_stream) {
      break;
    }
    if (error && error != zlib::error::need_buffers) {
      throw broken(what, z.total_in, "invalid deflate data (" + error.message() + ")");
    }
    error.clear();
    if (z.avail_out != 0) {  // all input is consumed, but the stream has not ended
      if (padded) {
        throw broken(what, packed.size(), "the deflate data is truncated");
      }
      padded = true;
      z.next_in = kPadding.data();
      z.avail_in = kPadding.size();
      continue;
    }
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limit + 1, 2 * bytes.size())));
  }
  // Beast may have read too far. The low bits of data_type are the number of unused bits.
  constexpr unsigned kUnusedBits = 63;
  out_taken = z.total_in - (static_cast<unsigned>(z.data_type) & kUnusedBits) / 8;
  if (out_taken > packed.size()) {
    throw broken(what, packed.size(), "the deflate data is truncated");
  }
  bytes.resize(z.total_out);
  return bytes;
}

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::vector<std::byte> gunzip(std::span<const std::byte> file, const std::string& what) {
  std::vector<std::byte> whole;
  std::size_t at = 0;
  while (at < file.size()) {
    const std::size_t data = gzip_header_end(file, at, what);
    // Deflate compresses at most 1032 to 1, so the size of the input bounds the output.
    const std::uint64_t limit = 1032 * static_cast<std::uint64_t>(file.size() - data) + 64;
    std::size_t taken = 0;
    std::vector<std::byte> member = inflate(file.subspan(data), limit, what, taken);
    const std::size_t trailer = data + taken;
    if (trailer + 8 > file.size()) {
      throw broken(what, file.size(), "the gzip trailer is truncated");
    }
    if (read_u32(file, trailer) != crc32(member)) {
      throw broken(what, trailer, "the gzip checksum does not match the data");
    }
    if (read_u32(file, trailer + 4) != (member.size() & 0xffffffffU)) {
      throw broken(what, trailer + 4, "the gzip size does not match the data");
    }
    if (whole.empty()) {
      whole = std::move(member);
    } else {
      whole.insert(whole.end(), member.begin(), member.end());
    }
    at = trailer + 8;
  }
  return whole;
}

}  // namespace yoke::detail
