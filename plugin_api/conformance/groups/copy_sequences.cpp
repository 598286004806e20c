// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/copy_sequences.cpp: sequences of fills and copies that differ slightly.
#include <algorithm>
#include <iterator>

#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

// Pattern `number` of 2^size: each bit chooses one of two bytes.
Bytes two_valued(std::uint32_t size, std::uint64_t number, std::byte low, std::byte high) {
  Bytes pattern(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    pattern[i] = (number >> i & 1U) != 0 ? high : low;
  }
  return pattern;
}

// Sizes and patterns, ordered so that each fill differs from the one before it only in one byte or in its size.
std::vector<Bytes> similar_patterns(Random& random) {
  std::vector<Bytes> all;
  const std::byte fresh = random.bytes(1)[0] | std::byte{1};
  for (const std::byte high : {std::byte{0xff}, fresh}) {
    for (const std::uint32_t size : {8U, 4U, 2U, 1U}) {
      for (std::uint64_t i = 0; i < std::uint64_t{1} << size; ++i) {
        all.push_back(two_valued(size, i ^ (i >> 1U), std::byte{0}, high));  // in Gray code
      }
    }
  }
  // A pattern, its parts, and the pattern again.
  const Bytes whole = random.bytes(8);
  for (const std::uint32_t size : {8U, 4U, 8U, 2U, 8U, 1U, 8U, 4U, 2U, 4U, 1U, 2U}) {
    all.emplace_back(whole.begin(), whole.begin() + size);
  }
  return all;
}

void model_fill(Bytes& bytes, std::uint64_t offset, std::uint64_t byte_count, const Bytes& pattern) {
  for (std::uint64_t i = 0; i < byte_count; ++i) {
    bytes[offset + i] = pattern[i % pattern.size()];
  }
}

// Checks fills before the next one; of the largest ones, every 16th.
void fill_sequences(Kit& kit) {
  kit.plugin().need<&yoke_backend_api::fill>();
  Random random = kit.random();
  constexpr std::uint64_t kBytes = 20'000;
  Modelled model(kit.device(), random, kBytes);
  const std::optional<Stream> stream = stream_if_any(kit.device());
  const std::vector<Bytes> patterns = similar_patterns(random);
  std::uint64_t number = 0;
  for (const std::uint64_t times : {1U, 3U, 40U, 1100U}) {
    const std::uint64_t offset = random.below(50);
    for (const Bytes& pattern : patterns) {
      const std::uint64_t byte_count = times * 8 / pattern.size() * pattern.size();
      yoke_stream* const raw = number++ % 5 == 4 ? raw_of(stream) : nullptr;
      expect_ok(kit.plugin().fill(raw, model.buffer.get(), offset, byte_count, pattern.data(),
                                  static_cast<std::uint32_t>(pattern.size())),
                "a fill");
      if (raw != nullptr) {
        stream->synchronize();
      }
      model_fill(model.bytes, offset, byte_count, pattern);
      if (times < 1000 || number % 16 == 0) {
        Bytes now(byte_count + 8);
        model.buffer.read(offset, now);
        check(std::equal(now.begin(), now.end(), model.bytes.begin() + static_cast<std::ptrdiff_t>(offset)),
              "a fill of ", byte_count, " bytes with a ", pattern.size(),
              "-byte pattern has a wrong result after fills with similar patterns");
      }
    }
    model.check_same("after fills with similar patterns");
  }
}

// Queues all fills on streams, then checks them together.
void queued_fills(Kit& kit) {
  kit.plugin().need<&yoke_backend_api::fill>();
  kit.plugin().table<yoke_stream_api>();
  Random random = kit.random();
  const std::vector<Bytes> patterns = similar_patterns(random);
  for (const std::uint64_t slot : {8U, 72U, 520U}) {
    Modelled model(kit.device(), random, slot * patterns.size());
    const Stream streams[] = {Stream(kit.device()), Stream(kit.device())};
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const Bytes& pattern = patterns[i];
      const std::uint64_t byte_count = slot - (slot > 8 ? 8 : 0);
      expect_ok(kit.plugin().fill(streams[i % 2].get(), model.buffer.get(), i * slot, byte_count,
                                  pattern.data(), static_cast<std::uint32_t>(pattern.size())),
                "queueing a fill");
      model_fill(model.bytes, i * slot, byte_count, pattern);
    }
    for (const Stream& stream : streams) {
      stream.synchronize();
    }
    model.check_same("after queued fills with similar patterns");
  }
}

// Copies between the same buffers that differ in one offset, the size or the direction. Checks each before the next.
void copy_sequences(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  Random random = kit.random();
  constexpr std::uint64_t kBytes = 3000;
  Modelled models[] = {{kit.device(), random, kBytes}, {kit.device(), random, kBytes}};
  const std::optional<Stream> stream = stream_if_any(kit.device());
  std::uint64_t from = 8;
  std::uint64_t to = 16;
  std::uint64_t byte_count = 64;
  std::size_t source = 0;
  std::size_t target = 1;
  for (int step = 0; step < 600; ++step) {
    std::uint64_t* const changed[] = {&from, &to, &byte_count};
    constexpr std::int64_t kSteps[] = {1, -1, 4, -4, 8, -8, 256, -256};
    if (random.chance(6)) {
      (random.chance(2) ? source : target) ^= 1U;
    } else {
      std::uint64_t& one = *changed[random.below(3)];
      one = (one + static_cast<std::uint64_t>(kSteps[random.below(8)]) + 1000) % 1000;
    }
    Bytes host = random.bytes(kBytes);
    Modelled& there = models[target];
    const Modelled& here = models[source];
    yoke_stream* const raw = step % 3 == 0 ? raw_of(stream) : nullptr;
    const auto at = [](std::uint64_t offset) { return static_cast<std::ptrdiff_t>(offset); };
    const std::uint64_t draw = random.below(3);
    if (draw == 0 && plugin.has<&yoke_backend_api::device_to_device>()) {
      if (source == target && from < to + byte_count && to < from + byte_count) {
        continue;  // another test covers overlapping ranges
      }
      expect_ok(plugin.device_to_device(raw, there.buffer.get(), to, here.buffer.get(), from, byte_count));
      const Bytes moved(here.bytes.begin() + at(from), here.bytes.begin() + at(from + byte_count));
      std::copy(moved.begin(), moved.end(), there.bytes.begin() + at(to));
    } else if (draw == 1) {
      const Bytes before = host;
      expect_ok(plugin.to_host(raw, here.buffer.get(), from, host.data() + to, byte_count));
      if (raw != nullptr) {
        stream->synchronize();
      }
      Bytes expected = before;
      std::copy_n(here.bytes.begin() + at(from), byte_count, expected.begin() + at(to));
      check(host == expected, "a to_host of ", byte_count, " bytes after similar copies has a wrong result");
    } else {
      expect_ok(plugin.from_host(raw, there.buffer.get(), to, host.data() + from, byte_count, nullptr));
      std::copy_n(host.begin() + at(from), byte_count, there.bytes.begin() + at(to));
    }
    if (raw != nullptr) {
      stream->synchronize();
    }
    there.check_same(
        text("after a copy of ", byte_count, " bytes from ", from, " to ", to, " after similar copies"));
  }
}

}  // namespace

std::vector<Test> copy_sequence_tests() {
  return {{"fill-sequences",
           "a fill is right after fills whose patterns differ in one byte, one half or the size",
           {16},
           fill_sequences},
          {"queued-fills",
           "queued fills are right among fills whose patterns differ in one byte, one half or the size",
           {16, 18},
           queued_fills},
          {"sequences",
           "a copy is right after copies that differ in one offset, the size, a buffer or the direction",
           {16, 17},
           copy_sequences}};
}

}  // namespace yoke::conformance
