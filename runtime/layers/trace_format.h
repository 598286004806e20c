// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_format.h: the bytes of a .yoketrace file, written and read. README.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "layers/hash.h"

namespace yoke::layers {

// The file begins with this; all numbers are little-endian.
struct TraceHeader {
  char magic[8];  // "yoketrac"
  std::uint32_t version;
  std::uint32_t flags;  // kTraceHasData
  std::uint64_t unix_ns;
  std::uint32_t process;
  std::uint32_t reserved;
};
static_assert(sizeof(TraceHeader) == 32);
inline constexpr char kTraceMagic[] = "yoketrac";
constexpr std::uint32_t kTraceVersion = 1;
constexpr std::uint32_t kTraceHasData = 1;

// Then records: byte count of what follows the check, check (the low half of XXH3 of it), type, fields.
constexpr std::size_t kRecordHead = 8;
enum class RecordType : std::uint8_t {
  kFunction = 1,
  kPlugin,
  kCall,
  kContent,
  kBlob,
  kSpan,
  kLog,
  kEnd,
  kBegin  // of a call or a span, which has the same plugin, thread and time of begin
};

// How the memory of a source or target argument stands in a call.
enum class Memory : std::uint8_t {
  kNone,  // NULL, or the call failed
  kHere,  // hash and byte count follow
  kLater  // byte count follows; the hash comes in a kContent record
};

// A record's type, then the fields that are appended. Numbers are LEB128; texts and bytes have their length
// in front.
class Encoder {
 public:
  // `to` may hold an older record, whose memory serves again.
  Encoder(std::vector<std::byte>& to, RecordType type) : to_(to) {
    to_.clear();
    byte(static_cast<std::uint8_t>(type));
  }

  void byte(std::uint8_t value) { to_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80U));
      value >>= 7U;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void bytes(const void* memory, std::size_t count) {
    number(count);
    const auto* const from = static_cast<const std::byte*>(memory);
    to_.insert(to_.end(), from, from + count);
  }
  void text(std::string_view value) { bytes(value.data(), value.size()); }
  void hash(const Hash& value) {
    fixed(value.high);
    fixed(value.low);
  }
  void fixed(std::uint64_t value) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      byte(static_cast<std::uint8_t>(value >> shift));
    }
  }

 private:
  std::vector<std::byte>& to_;
};

// Takes fields off. What is not there gives zeros and empty spans, and is_good() turns false for good.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> from) : from_(from) {}

  bool is_good() const noexcept { return good_; }
  std::size_t left() const noexcept { return from_.size(); }
  std::uint8_t byte() noexcept {
    if (from_.empty()) {
      good_ = false;
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(from_.front());
    from_ = from_.subspan(1);
    return value;
  }
  std::uint64_t number() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t part = byte();
      value |= (part & 0x7fU) << shift;
      if ((part & 0x80U) == 0) {
        return value;
      }
    }
    good_ = false;
    return 0;
  }
  std::span<const std::byte> bytes() noexcept {
    const std::uint64_t count = number();
    if (count > from_.size()) {
      good_ = false;
      from_ = {};
      return {};
    }
    const auto value = from_.first(count);
    from_ = from_.subspan(count);
    return value;
  }
  std::string_view text() noexcept {
    const auto value = bytes();
    return {reinterpret_cast<const char*>(value.data()), value.size()};
  }
  std::uint64_t fixed() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 8) {
      value |= static_cast<std::uint64_t>(byte()) << shift;
    }
    return value;
  }
  Hash hash() noexcept {
    const std::uint64_t high = fixed();
    return {high, fixed()};
  }

 private:
  std::span<const std::byte> from_;
  bool good_ = true;
};

}  // namespace yoke::layers
