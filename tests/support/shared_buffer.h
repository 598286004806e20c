// SPDX-License-Identifier: Apache-2.0
// tests/support/shared_buffer.h: the arguments of a program as ranges of one buffer, with guard bytes between them.
#pragma once

#include <yoke/program/program.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace yoke::test {

// Ranges start at multiples of their element sizes, the only alignment that the program format promises; those that
// overlap no other start at odd multiples. A range that the program writes overlaps no other; ranges of inputs of one
// type often do, as the ABI allows.
class SharedBuffer {
 public:
  using Bytes = std::vector<std::byte>;

  // The ranges depend on the seed. `arena_byte_count` bytes for temporaries follow them.
  SharedBuffer(const program::Program& program, std::uint64_t seed, std::uint64_t arena_byte_count = 0) {
    std::mt19937_64 random(seed);
    for (const std::uint32_t number : program.arguments()) {
      add(program.tensors[number], random);
    }
    arena_ = {"the temporaries", program::Type::kU8, (end_ + kStart - 1) / kStart * kStart, arena_byte_count,
              true};
    memory_.resize(arena_.end() + kGuard + kBaseAlignment);
    const auto misalignment = reinterpret_cast<std::uintptr_t>(memory_.data()) % kBaseAlignment;
    base_ = memory_.data() + (misalignment == 0 ? 0 : kBaseAlignment - misalignment);
  }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  // Fills the guards and the arguments, and the arena with 0xFF, which makes every float NaN. Where inputs overlap, the
  // later one wins.
  void fill(const std::vector<Bytes>& arguments) {
    std::fill(memory_.begin(), memory_.end(), kGuardByte);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      std::copy(arguments.at(i).begin(), arguments.at(i).end(), base_ + places_[i].offset);
    }
    std::fill_n(arena(), arena_.byte_count, std::byte{0xFF});
    filled_ = memory_;
  }

  std::vector<std::byte*> addresses() const {
    std::vector<std::byte*> addresses;
    for (const Place& place : places_) {
      addresses.push_back(base_ + place.offset);
    }
    return addresses;
  }
  std::byte* arena() const { return base_ + arena_.offset; }

  std::vector<Bytes> contents() const {
    std::vector<Bytes> contents;
    for (const Place& place : places_) {
      contents.emplace_back(base_ + place.offset, base_ + place.end());
    }
    return contents;
  }

  // The first byte outside of the written arguments and the arena that has changed since fill(); empty if none has.
  std::string changed() const {
    std::vector<bool> may_change(memory_.size());
    for (const Place& place : places_) {
      mark(place, may_change);
    }
    mark(arena_, may_change);
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (memory_[i] != filled_[i] && !may_change[i]) {
        return described(static_cast<std::int64_t>(i) - (base_ - memory_.data()));
      }
    }
    return {};
  }
  // The number of inputs that overlap an earlier one.
  std::uint64_t overlap_count() const { return overlap_count_; }

 private:
  static constexpr std::uint64_t kBaseAlignment = 256;  // YOKE_BUFFER_ALIGNMENT
  static constexpr std::uint64_t kStart = 64;           // of a range, before the odd offset; and of the arena
  static constexpr std::uint64_t kGuard = 192;          // at least these bytes between ranges
  static constexpr std::byte kGuardByte{0xA5};

  struct Place {
    std::string name;
    program::Type type = program::Type::kF32;
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
    bool is_written = false;
    std::uint64_t end() const { return offset + byte_count; }
  };

  void add(const program::Tensor& tensor, std::mt19937_64& random) {
    const std::uint64_t unit = program::byte_size(tensor.type);
    Place place{tensor.name, tensor.type, 0, tensor.byte_count(), tensor.role != program::Role::kIn};
    if (place.is_written || random() % 2 == 0 || !overlap(place, unit, random)) {
      place.offset = (end_ + kStart - 1) / kStart * kStart + unit * (2 * (random() % 16) + 1);
    }
    end_ = std::max(end_, place.end() + kGuard);
    places_.push_back(std::move(place));
  }

  // Places an input in the range of an earlier one, or from there on if that range is the last one.
  bool overlap(Place& place, std::uint64_t unit, std::mt19937_64& random) {
    std::vector<const Place*> hosts;
    for (const Place& host : places_) {
      const bool is_last = host.end() + kGuard == end_;
      if (!host.is_written && host.type == place.type && (is_last || host.byte_count >= place.byte_count)) {
        hosts.push_back(&host);
      }
    }
    if (hosts.empty()) {
      return false;
    }
    const Place& host = *hosts[random() % hosts.size()];
    const std::uint64_t room =
        host.end() + kGuard == end_ ? host.byte_count - unit : host.byte_count - place.byte_count;
    place.offset = host.offset + unit * (random() % 3 == 0 ? 0 : random() % (room / unit + 1));
    ++overlap_count_;
    return true;
  }

  void mark(const Place& place, std::vector<bool>& may_change) const {
    const auto begin =
        may_change.begin() + (base_ - memory_.data()) + static_cast<std::ptrdiff_t>(place.offset);
    if (place.is_written) {
      std::fill_n(begin, place.byte_count, true);
    }
  }

  // `at` is relative to the base.
  std::string described(std::int64_t at) const {
    const Place* nearest = &arena_;
    const auto distance = [&](const Place& place) {
      const auto begin = static_cast<std::int64_t>(place.offset);
      const auto end = static_cast<std::int64_t>(place.end());
      return at < begin ? begin - at : at < end ? 0 : at - end + 1;
    };
    for (const Place& place : places_) {
      nearest = distance(place) < distance(*nearest) ? &place : nearest;
    }
    return "byte " + std::to_string(at - static_cast<std::int64_t>(nearest->offset)) + " of " +
           nearest->name + ", which has " + std::to_string(nearest->byte_count) + " bytes, was overwritten";
  }

  std::vector<Place> places_;  // of the arguments
  Place arena_;
  std::uint64_t end_ = kGuard;
  std::uint64_t overlap_count_ = 0;
  Bytes memory_;
  Bytes filled_;  // memory_ after fill()
  std::byte* base_ = nullptr;
};

}  // namespace yoke::test
