// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/copy_stress.cpp: copies and fills beyond 64 KiB at any offset, with a NULL stream.
#include <algorithm>

#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kSizes[] = {65537, 300'001, (1U << 20U) + 3, (5U << 20U) + 7};

// A range of any length up to all of the buffer; short and long ranges are equally likely.
Range any_range(Random& random, std::uint64_t size) {
  const std::uint64_t most = std::min<std::uint64_t>(size, std::uint64_t{1} << random.between(4, 24));
  const std::uint64_t byte_count = 1 + random.below(most);
  return {random.chance(4) ? size - byte_count : random.below(size - byte_count + 1), byte_count};
}

// Buffers of several sizes with their expected contents.
class LargeCopies {
 public:
  LargeCopies(Kit& kit, Random& random) : plugin_(kit.plugin()), random_(random) {
    for (const std::uint64_t size : kSizes) {
      models_.push_back(std::make_unique<Modelled>(kit.device(), random, size));
    }
  }

  void step() {
    Modelled& target = *models_[random_.below(models_.size())];
    const Modelled& source = *models_[random_.below(models_.size())];
    const std::uint64_t way = random_.below(4);
    const bool moves = plugin_.has<&yoke_backend_api::device_to_device>();
    if (way == 0 && moves) {
      between(target, source);
    } else if (way == 3 && moves) {
      within(target);
    } else if (way == 1) {
      receive(source);
    } else {
      send(target);
    }
  }

 private:
  void send(Modelled& model) {
    const Range range = any_range(random_, model.bytes.size());
    const Bytes sent = random_.bytes(range.byte_count);
    model.buffer.write(range.offset, sent);
    std::copy(sent.begin(), sent.end(), model.bytes.begin() + static_cast<std::ptrdiff_t>(range.offset));
    model.check_same("after from_host to " + range_text(range.offset, range.byte_count));
  }
  void receive(const Modelled& model) {
    const Range range = any_range(random_, model.bytes.size());
    const std::uint64_t shift = random_.below(9);  // of the host memory
    Bytes received(range.byte_count + shift + 64, std::byte{0xc9});
    model.buffer.read(range.offset, std::span(received).subspan(shift, range.byte_count));
    const auto begin = received.begin() + static_cast<std::ptrdiff_t>(shift);
    const auto end = begin + static_cast<std::ptrdiff_t>(range.byte_count);
    const std::string what = "to_host from " + range_text(range.offset, range.byte_count);
    check(std::equal(begin, end, model.bytes.begin() + static_cast<std::ptrdiff_t>(range.offset)), what,
          " returned different bytes");
    const auto is_mark = [](std::byte byte) { return byte == std::byte{0xc9}; };
    check(std::all_of(received.begin(), begin, is_mark) && std::all_of(end, received.end(), is_mark), what,
          " wrote outside its host memory");
  }
  void between(Modelled& target, const Modelled& source) {
    const Range range = any_range(random_, std::min(target.bytes.size(), source.bytes.size()));
    const std::uint64_t from = random_.below(source.bytes.size() - range.byte_count + 1);
    move(target, range, source, from);
  }
  // Copies to a higher or lower place of the same buffer.
  void within(Modelled& model) {
    const std::uint64_t half = model.bytes.size() / 2;
    const std::uint64_t byte_count = 1 + random_.below(half);
    Range range = {random_.below(half - byte_count + 1), byte_count};
    std::uint64_t from = random_.below(half - byte_count + 1);
    (random_.chance(2) ? from : range.offset) += half;
    move(model, range, model, from);
  }
  void move(Modelled& target, const Range& range, const Modelled& source, std::uint64_t from) {
    if (&target == &source && from < range.offset + range.byte_count &&
        range.offset < from + range.byte_count) {
      return send(target);  // the ABI does not allow overlapping ranges
    }
    expect_ok(plugin_.device_to_device(nullptr, target.buffer.get(), range.offset, source.buffer.get(), from,
                                       range.byte_count));
    std::copy_n(source.bytes.begin() + static_cast<std::ptrdiff_t>(from), range.byte_count,
                target.bytes.begin() + static_cast<std::ptrdiff_t>(range.offset));
    target.check_same(text("after device_to_device from offset ", from, " to ",
                           range_text(range.offset, range.byte_count)));
  }

  const Plugin& plugin_;
  Random& random_;
  std::vector<std::unique_ptr<Modelled>> models_;
};

void large_ranges(Kit& kit) {
  const int steps = 150 * kit.effort();
  Random random = kit.random();
  LargeCopies copies(kit, random);
  for (int i = 0; i < steps; ++i) {
    kit.progress(text("copy ", i, " of ", steps));
    copies.step();
  }
  kit.note(text(steps, " copies in buffers of up to ", kSizes[3], " bytes"));
}

// Copies a range in every direction, from and to host memory at any address, and checks the bytes beside it.
class BorderCopies {
 public:
  BorderCopies(Kit& kit, Random& random)
      : plugin_(kit.plugin()),
        random_(random),
        a_(kit.device(), random, kRoom),
        b_(kit.device(), random, kRoom) {}

  void copy(std::uint64_t byte_count, const Stream* stream) {
    yoke_stream* const raw = stream == nullptr ? nullptr : stream->get();
    const std::uint64_t shift = random_.below(8);
    const std::uint64_t first = random_.below(kRoom - byte_count + 1);
    const std::uint64_t second = random_.chance(2) ? first : random_.below(kRoom - byte_count + 1);
    const Bytes source = random_.bytes(byte_count + shift);
    Bytes received(byte_count + shift + 8, kMark);
    const auto place = [](Modelled& model, std::uint64_t at) {
      return model.bytes.begin() + static_cast<std::ptrdiff_t>(at);
    };
    const char* const where = stream == nullptr ? "" : " on a stream";
    const std::string sent = text("from_host to ", range_text(first, byte_count), where);
    const std::string moved =
        text("device_to_device from offset ", first, " to ", range_text(second, byte_count), where);
    std::copy(source.begin() + static_cast<std::ptrdiff_t>(shift), source.end(), place(a_, first));
    expect_ok(plugin_.from_host(raw, a_.buffer.get(), first, source.data() + shift, byte_count, nullptr),
              sent);
    const bool moves = plugin_.has<&yoke_backend_api::device_to_device>();
    if (moves) {
      std::copy_n(place(a_, first), byte_count, place(b_, second));
      expect_ok(plugin_.device_to_device(raw, b_.buffer.get(), second, a_.buffer.get(), first, byte_count),
                moved);
    }
    Modelled& last = moves ? b_ : a_;
    const std::uint64_t at = moves ? second : first;
    const std::string fetched = text("to_host from ", range_text(at, byte_count), where);
    expect_ok(plugin_.to_host(raw, last.buffer.get(), at, received.data() + shift, byte_count), fetched);
    if (stream != nullptr) {
      stream->synchronize();
    }
    // In the order of the copies, so that the message names the first one that is wrong.
    check_around(a_, first, byte_count, sent);
    if (moves) {
      check_around(b_, second, byte_count, moved);
    }
    const auto begin = received.begin() + static_cast<std::ptrdiff_t>(shift);
    check(std::equal(begin, received.end() - 8, source.begin() + static_cast<std::ptrdiff_t>(shift)), fetched,
          " returned other bytes");
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    check(std::all_of(received.begin(), begin, is_mark) &&
              std::all_of(received.end() - 8, received.end(), is_mark),
          fetched, " wrote outside the host memory");
  }

  static constexpr std::uint64_t kRoom = (5U << 20U) + 77;

 private:
  static constexpr std::byte kMark{0xc9};
  static void check_around(const Modelled& model, std::uint64_t offset, std::uint64_t byte_count,
                           const std::string& what) {
    const std::uint64_t begin = offset - std::min<std::uint64_t>(offset, 64);
    const std::uint64_t end = std::min(offset + byte_count + 64, kRoom);
    Bytes now(end - begin);
    model.buffer.read(begin, now);
    check(std::equal(now.begin(), now.end(), model.bytes.begin() + static_cast<std::ptrdiff_t>(begin)), what,
          " wrote wrong bytes, in or beside its range, or to_host reads them wrongly");
  }

  const Plugin& plugin_;
  Random& random_;
  Modelled a_;
  Modelled b_;
};

// Sizes at and beside powers of two, where chunks, packets and shortcuts begin.
void border_sizes(Kit& kit) {
  Random random = kit.random();
  BorderCopies copies(kit, random);
  const std::optional<Stream> stream = stream_if_any(kit.device());
  for (std::uint64_t power = 1; power <= 1U << 22U; power *= 2) {
    kit.progress(text("sizes about ", power));
    for (const std::uint64_t byte_count : {power - 1, power, power + 1, power / 4 * 5, power / 2 * 3 - 1}) {
      if (byte_count == 0 || byte_count > BorderCopies::kRoom) {
        continue;
      }
      copies.copy(byte_count, nullptr);
      if (stream) {
        copies.copy(byte_count, &*stream);
      }
    }
  }
}

// Patterns that shortcuts confuse: equal bytes, equal halves, one byte that differs.
std::vector<Bytes> patterns_of(Random& random, std::uint32_t size) {
  const auto all = [&](int value) { return Bytes(size, static_cast<std::byte>(value)); };
  std::vector<Bytes> made = {all(0), all(0xff), all(0x3c), random.bytes(size), all(0), all(0x7f), all(0)};
  made[4].front() = std::byte{1};
  made[5].back() = std::byte{0x80};
  made[6][size / 2] = std::byte{0x40};
  Bytes halves = random.bytes(size);
  std::copy_n(halves.begin(), size / 2, halves.begin() + size / 2);
  made.push_back(std::move(halves));
  return made;
}

void large_fills(Kit& kit) {
  kit.plugin().need<&yoke_backend_api::fill>();
  Random random = kit.random();
  Modelled model(kit.device(), random, (1U << 20U) + 4099);
  std::uint64_t fills = 0;
  for (int repetition = 0; repetition < kit.effort(); ++repetition) {
    for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
      for (const Bytes& pattern : patterns_of(random, size)) {
        for (const std::uint64_t about : {65536 - std::uint64_t{2} * size, std::uint64_t{65536},
                                          65536 + random.below(200'000), 500'000 + random.below(500'000)}) {
          const std::uint64_t byte_count = about / size * size;
          const std::uint64_t offset = random.below(model.bytes.size() - byte_count + 1);
          const std::string what =
              "fill of " + range_text(offset, byte_count) + text(" with a ", size, "-byte pattern");
          expect_ok(kit.plugin().fill(nullptr, model.buffer.get(), offset, byte_count, pattern.data(), size),
                    what);
          for (std::uint64_t i = 0; i < byte_count; i += size) {
            std::copy(pattern.begin(), pattern.end(),
                      model.bytes.begin() + static_cast<std::ptrdiff_t>(offset + i));
          }
          model.check_same("after " + what);
          ++fills;
        }
      }
    }
  }
  kit.note(text(fills, " fills"));
}

}  // namespace

std::vector<Test> copy_stress_tests() {
  return {{"large-ranges",
           "random copies beyond 64 KiB, at any offset and host address, change only their own range",
           {16},
           large_ranges,
           2},
          {"border-sizes",
           "copies at and beside every power of two bytes, at any host address, copy all bytes and no others",
           {16},
           border_sizes},
          {"large-fills",
           "fills beyond 64 KiB repeat every kind of pattern at any offset, and change only their own range",
           {16},
           large_fills,
           2}};
}

}  // namespace yoke::conformance
