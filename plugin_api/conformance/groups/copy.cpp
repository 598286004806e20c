// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/copy.cpp: the three copies and fill with a NULL
// stream, compared with a model in host memory.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

template <class Offset>
auto at(Bytes& bytes, Offset offset) {
  return bytes.begin() + static_cast<std::ptrdiff_t>(offset);
}

void round_trip(Kit& kit) {
  Bytes sent = kit.random().bytes(1000);
  const Buffer buffer(kit.device(), sent.size());
  for (int pass = 0; pass < 2; ++pass) {
    buffer.write(0, sent);
    check(buffer.contents() == sent, "to_host returned different bytes than from_host had written");
    for (std::byte& byte : sent) {
      byte = ~byte;  // a byte that equals what was there before by chance differs in the second pass
    }
  }
}

// Host memory at any alignment, with guard bytes on both sides.
class Guarded {
 public:
  Guarded(std::uint64_t byte_count, std::uint64_t shift)
      : bytes_(byte_count + 2 * kGuard + shift, kMark), begin_(kGuard + shift), byte_count_(byte_count) {}
  std::span<std::byte> inside() { return std::span(bytes_).subspan(begin_, byte_count_); }
  void check_guards(const std::string& after) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool guard = i < begin_ || i >= begin_ + byte_count_;
      check(!guard || bytes_[i] == kMark, after, " wrote ", i < begin_ ? "before" : "past the end of",
            " its host memory");
    }
  }

 private:
  static constexpr std::uint64_t kGuard = 64;
  static constexpr std::byte kMark{0xc9};
  Bytes bytes_;
  std::uint64_t begin_;
  std::uint64_t byte_count_;
};

// Copies at every offset near both ends, with small and large counts.
void edges(Kit& kit) {
  Random random = kit.random();
  for (const std::uint64_t size : {1U, 2U, 7U, 64U, 129U, 4096U}) {
    Modelled model(kit.device(), random, size);
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i <= std::min<std::uint64_t>(size, 5); ++i) {
      offsets.push_back(i);
      offsets.push_back(size - i);
    }
    for (const std::uint64_t offset : offsets) {
      for (const std::uint64_t count :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{63}, size - offset}) {
        if (count > size - offset) {
          continue;
        }
        const Bytes sent = random.bytes(count);
        model.buffer.write(offset, sent);
        std::copy(sent.begin(), sent.end(), at(model.bytes, offset));
        model.check_same("after from_host to " + range_text(offset, count));
        Guarded target(count, offset % 3);
        model.buffer.read(offset, target.inside());
        const std::string what = "to_host from " + range_text(offset, count);
        check(std::equal(sent.begin(), sent.end(), target.inside().begin()), what,
              " returned different bytes");
        target.check_guards(what);
      }
    }
  }
}

Range random_range(Random& random, std::uint64_t size) {
  const std::uint64_t offset = random.below(size + 1);
  const std::uint64_t most = size - offset;
  return {offset, random.chance(4) ? most : random.below(most + 1)};
}

class RandomCopies {
 public:
  RandomCopies(Kit& kit, Random& random) : plugin_(kit.plugin()), random_(random) {
    for (const std::uint64_t size : {1U, 64U, 1000U, 4099U, 65536U}) {
      models_.push_back(std::make_unique<Modelled>(kit.device(), random, size));
    }
  }

  void step() {
    switch (random_.below(4)) {
      case 0:
        return send();
      case 1:
        return receive();
      case 2:
        return between();
      default:
        return fill();
    }
  }
  void check_all() const {
    for (const auto& model : models_) {
      model->check_same("after " + last_);
    }
  }

 private:
  Modelled& any() { return *models_[random_.below(models_.size())]; }

  void send() {
    Modelled& model = any();
    const Range range = random_range(random_, model.bytes.size());
    const Bytes sent = random_.bytes(range.byte_count);
    last_ = "from_host to " + range_text(range.offset, range.byte_count);
    model.buffer.write(range.offset, sent);
    std::copy(sent.begin(), sent.end(), at(model.bytes, range.offset));
  }
  void receive() {
    Modelled& model = any();
    const Range range = random_range(random_, model.bytes.size());
    Guarded target(range.byte_count, random_.below(8));
    last_ = "to_host from " + range_text(range.offset, range.byte_count);
    model.buffer.read(range.offset, target.inside());
    check(std::equal(target.inside().begin(), target.inside().end(), at(model.bytes, range.offset)), last_,
          " returned different bytes");
    target.check_guards(last_);
  }
  void between() {
    if (!plugin_.has<&yoke_backend_api::device_to_device>()) {
      return send();
    }
    Modelled& target = any();
    Modelled& source = any();
    Range range = random_range(random_, target.bytes.size());
    range.byte_count = std::min<std::uint64_t>(range.byte_count, source.bytes.size());
    const std::uint64_t from = random_.below(source.bytes.size() - range.byte_count + 1);
    if (&target == &source && from < range.offset + range.byte_count &&
        range.offset < from + range.byte_count) {
      return;  // the ABI does not allow overlapping ranges
    }
    last_ = "device_to_device to " + range_text(range.offset, range.byte_count) +
            text(" from offset ", from, &target == &source ? " of the same buffer" : "");
    expect_ok(plugin_.device_to_device(nullptr, target.buffer.get(), range.offset, source.buffer.get(), from,
                                       range.byte_count),
              last_);
    const Bytes moved(at(source.bytes, from), at(source.bytes, from + range.byte_count));
    std::copy(moved.begin(), moved.end(), at(target.bytes, range.offset));
  }
  void fill() {
    if (!plugin_.has<&yoke_backend_api::fill>()) {
      return send();
    }
    Modelled& model = any();
    Range range = random_range(random_, model.bytes.size());
    const std::uint32_t size = 1U << random_.below(4);
    range.byte_count -= range.byte_count % size;
    const Bytes pattern = random_.bytes(size);
    last_ = "fill of " + range_text(range.offset, range.byte_count) + text(" with a ", size, "-byte pattern");
    expect_ok(plugin_.fill(nullptr, model.buffer.get(), range.offset, range.byte_count, pattern.data(), size),
              last_);
    for (std::uint64_t i = 0; i < range.byte_count; ++i) {
      model.bytes[range.offset + i] = pattern[i % size];
    }
  }

  const Plugin& plugin_;
  Random& random_;
  std::vector<std::unique_ptr<Modelled>> models_;
  std::string last_;
};

void random_ranges(Kit& kit) {
  constexpr int kSteps = 2000;
  Random random = kit.random();
  RandomCopies copies(kit, random);
  for (int i = 0; i < kSteps; ++i) {
    copies.step();
    if (i % 4 == 0 || i + 1 == kSteps) {
      copies.check_all();
    }
    if (i % 200 == 0) {
      kit.progress(text("copy ", i, " of ", kSteps));
    }
  }
  kit.note(text(kSteps, " random copies"));
}

void zero_bytes(Kit& kit) {
  Random random = kit.random();
  const Plugin& plugin = kit.plugin();
  const Modelled model(kit.device(), random, 50);
  const Modelled other(kit.device(), random, 50);
  const Buffer empty(kit.device(), 0);
  Bytes host = random.bytes(8);
  const Bytes before = host;
  for (const std::uint64_t offset : {0U, 25U, 50U}) {
    for (const Buffer* buffer : {&model.buffer, &empty}) {
      if (offset > buffer->byte_count()) {
        continue;
      }
      const std::string what =
          text("copying 0 bytes at offset ", offset, " of a ", buffer->byte_count(), "-byte buffer");
      expect_ok(plugin.from_host(nullptr, buffer->get(), offset, host.data(), 0, nullptr), what);
      expect_ok(plugin.to_host(nullptr, buffer->get(), offset, host.data(), 0), what);
      if (plugin.has<&yoke_backend_api::device_to_device>()) {
        expect_ok(plugin.device_to_device(nullptr, buffer->get(), offset, other.buffer.get(), 50, 0), what);
      }
      if (plugin.has<&yoke_backend_api::fill>()) {
        expect_ok(plugin.fill(nullptr, buffer->get(), offset, 0, host.data(), 4), what);
      }
    }
  }
  model.check_same("after copies of 0 bytes");
  check(host == before, "a to_host of 0 bytes wrote host memory");
}

void patterns(Kit& kit) {
  Random random = kit.random();
  for (const std::uint32_t size : {1U, 2U, 4U, 8U}) {
    for (std::uint64_t offset = 0; offset < 10; ++offset) {
      for (const std::uint64_t times : {1U, 2U, 3U, 17U, 1000U}) {
        Modelled model(kit.device(), random, 8100);
        Bytes pattern = random.bytes(size);
        const Bytes meant = pattern;
        const std::uint64_t byte_count = times * size;
        const std::string what =
            "fill of " + range_text(offset, byte_count) + text(" with a ", size, "-byte pattern");
        expect_ok(kit.plugin().fill(nullptr, model.buffer.get(), offset, byte_count, pattern.data(), size),
                  what);
        std::fill(pattern.begin(), pattern.end(), std::byte{0xff});
        for (std::uint64_t i = 0; i < byte_count; ++i) {
          model.bytes[offset + i] = meant[i % size];
        }
        model.check_same("after " + what);
      }
    }
  }
}

// With a NULL stream the caller may change the source as soon as the call returns.
void source_reuse(Kit& kit) {
  Random random = kit.random();
  for (const std::uint64_t byte_count : {1U, 100U, 4096U, 1U << 20U, 16U << 20U}) {
    const Buffer buffer(kit.device(), byte_count);
    Bytes sent = random.bytes(byte_count);
    const Bytes meant = sent;
    std::int32_t source = -1;
    expect_ok(kit.plugin().from_host(nullptr, buffer.get(), 0, sent.data(), byte_count, &source));
    check_equal(source, YOKE_SOURCE_COPIED, "*out_source of from_host with a NULL stream");
    std::fill(sent.begin(), sent.end(), std::byte{0xdd});
    check(buffer.contents() == meant,
          "from_host returned YOKE_SOURCE_COPIED, but copied bytes that were written to the source after the "
          "call");
    expect_ok(kit.plugin().from_host(nullptr, buffer.get(), 0, sent.data(), byte_count, nullptr),
              "from_host with a NULL out_source");
  }
}

void across_handles(Kit& kit) {
  Random random = kit.random();
  Plugin& plugin = kit.plugin();
  plugin.need<&yoke_backend_api::device_to_device>();
  const Modelled first(kit.device(), random, 5000);
  const std::uint32_t count = plugin.device_count();
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    Device other(kit, plugin, ordinal, kit.device_options());
    {
      Modelled second(other, random, 4000);
      expect_ok(
          plugin.device_to_device(nullptr, second.buffer.get(), 1, first.buffer.get(), 7, 3001),
          text("copying from device ", kit.settings().device, " to another handle of device ", ordinal));
      std::copy_n(first.bytes.begin() + 7, 3001, second.bytes.begin() + 1);
      second.check_same(text("after a copy to device ", ordinal));
      first.check_same(text("after a copy to device ", ordinal));
    }
    other.close();
  }
  kit.note(text(count, " devices"));
}

void large(Kit& kit) {
  constexpr std::uint64_t kBytes = (std::uint64_t{96} << 20U) + 3;
  const Bytes sent = kit.random().bytes(kBytes);
  const Buffer a(kit.device(), kBytes);
  a.write(0, sent);
  if (!kit.plugin().has<&yoke_backend_api::device_to_device>()) {
    check(a.contents() == sent, "96 MiB of data changed in from_host and to_host");
    return;
  }
  const Buffer b(kit.device(), kBytes);
  expect_ok(kit.plugin().device_to_device(nullptr, b.get(), 0, a.get(), 0, kBytes), "copying 96 MiB");
  check(b.contents() == sent, "96 MiB of data changed in from_host, device_to_device and to_host");
}

}  // namespace

std::vector<Test> copy_tests() {
  return {
      {"round-trip", "to_host returns what from_host wrote", {16}, round_trip},
      {"edges", "copies near both ends of a buffer change only their own range", {16}, edges},
      {"random-ranges",
       "thousands of random copies and fills match a model in host memory",
       {16, 17},
       random_ranges},
      {"zero-bytes", "a copy of 0 bytes at a valid offset returns OK and does nothing", {16}, zero_bytes},
      {"fill-patterns",
       "fill repeats patterns of 1, 2, 4 and 8 bytes at any offset, and copies the pattern during the call",
       {16},
       patterns},
      {"source-reuse",
       "with a NULL stream from_host has copied its source when it returns",
       {16},
       source_reuse},
      {"across-handles",
       "device_to_device works between all devices and handles of the backend",
       {17},
       across_handles},
      {"large", "96 MiB are copied without error", {16}, large},
  };
}

}  // namespace yoke::conformance
