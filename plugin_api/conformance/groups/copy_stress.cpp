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
    const std::uint64_t way = random_.below(3);
    if (way == 0 && plugin_.has<&yoke_backend_api::device_to_device>()) {
      between(target, source);
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
          {"large-fills",
           "fills beyond 64 KiB repeat every kind of pattern at any offset, and change only their own range",
           {16},
           large_fills,
           2}};
}

}  // namespace yoke::conformance
