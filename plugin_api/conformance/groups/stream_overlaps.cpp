// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_overlaps.cpp: short sequences of work on ranges that are equal,
// overlap or touch, so that work that is merged, left out or reordered changes the results; large copies on
// all devices at once.
#include <algorithm>
#include <deque>
#include <optional>

#include "groups.h"
#include "held.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// Two buffers of whole numbers, x and y, which a program may link, and their expected contents.
class Sequence {
 public:
  Sequence(Device& device, Random& random)
      : device_(device), plugin_(device.plugin()), random_(random), small_(device) {
    for (int i = 0; i < 2; ++i) {
      streams_.emplace_back(device);
    }
    if (small_.run) {
      if (small_.program->name() != "square") {  // whose results would grow
        const yoke_binding bindings[] = {binding(small_.run->y), binding(small_.run->x)};
        back_ = link(plugin_, small_.code, 0, bindings, binding(small_.run->workspace));
      }
    } else {
      own_[0] = Buffer(device, kSmallCount * sizeof(float));
      own_[1] = Buffer(device, kSmallCount * sizeof(float));
    }
  }

  // With `is_held`, nothing runs before everything is queued.
  void play(int length, bool is_held) {
    start();
    std::optional<Held> held;
    if (is_held) {
      held.emplace(device_, Held::Others::kCopy);
      for (const Stream& stream : streams_) {
        held->hold(stream);
      }
    }
    for (int i = 0; i < length; ++i) {
      if (random_.chance(6)) {  // on the other stream, after the work so far
        const Event event = streams_[now_].record();
        now_ = 1 - now_;
        streams_[now_].wait_for(event);
      }
      step();
    }
    held.reset();
    for (const Stream& stream : streams_) {
      expect_ok(stream.wait(), "waiting for a stream");
    }
    for (const Received& one : received_) {
      check(one.got == one.expected, "a to_host returned other numbers than the work before it had written;",
            history_);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      check(buffer(i).contents() == bytes_of_floats(values_[i]), "buffer ", i, " has wrong contents after",
            history_);
    }
  }

 private:
  struct Received {
    std::vector<float> got;
    std::vector<float> expected;
  };
  struct Part {
    std::size_t first;
    std::size_t count;
  };

  const Buffer& buffer(std::size_t i) const {
    return small_.run ? (i == 0 ? small_.run->x : small_.run->y) : own_[i];
  }
  void start() {
    received_.clear();
    sources_.clear();
    history_.clear();
    for (std::size_t i = 0; i < 2; ++i) {
      values_[i] = numbers(kSmallCount);
      buffer(i).write(0, bytes_of_floats(values_[i]));
    }
  }
  std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    for (float& value : made) {
      value = static_cast<float>(random_.below(900));
    }
    return made;
  }
  // A range near the previous one: the same, next to it, a part of it, or any.
  Part part() {
    Part next{random_.below(kSmallCount), 1 + random_.below(random_.chance(2) ? 8 : kSmallCount)};
    switch (random_.below(6)) {
      case 0:
        next = last_;
        break;
      case 1:
        next.first = last_.first + last_.count;
        break;
      case 2:
        next.first = last_.first >= next.count ? last_.first - next.count : last_.first;
        break;
      case 3:
        next = {last_.first, std::max<std::size_t>(1, last_.count / 2)};
        break;
      default:
        break;
    }
    next.first = std::min<std::size_t>(next.first, kSmallCount - 1);
    next.count = std::min<std::size_t>(next.count, kSmallCount - next.first);
    last_ = next;
    return next;
  }
  void note(const char* what, std::size_t i, const Part& where) {
    history_ += text(" ", what, " ", i, "[", where.first, "..", where.first + where.count, ")");
  }
  auto at(std::size_t i, std::size_t first) {
    return values_[i].begin() + static_cast<std::ptrdiff_t>(first);
  }

  void step() {
    const std::size_t i = random_.below(2);
    const std::uint64_t kind = was_copy_ && random_.chance(2) ? 5 : random_.below(10);
    was_copy_ = false;
    switch (kind) {
      case 0:
      case 1:
        return receive(i, part());
      case 2:
      case 3:
        return fill(i, part());
      case 4:
        return between(i, part(), random_.below(2), std::nullopt);
      case 5:  // goes on where the last copy ended, and may read what that one wrote
        return between(last_target_, {last_.first + last_.count, last_.count}, last_source_,
                       last_from_ + last_.count);
      case 6:
        return run();
      default:
        return send(i, part());
    }
  }
  void send(std::size_t i, const Part& where) {
    note("send", i, where);
    sources_.push_back(numbers(where.count));
    std::copy(sources_.back().begin(), sources_.back().end(), at(i, where.first));
    expect_ok(plugin_.from_host(streams_[now_].get(), buffer(i).get(), where.first * sizeof(float),
                                sources_.back().data(), where.count * sizeof(float), nullptr),
              "queueing a from_host");
  }
  void receive(std::size_t i, const Part& where) {
    note("receive", i, where);
    const auto from = at(i, where.first);
    received_.push_back(
        {std::vector<float>(where.count), {from, from + static_cast<std::ptrdiff_t>(where.count)}});
    streams_[now_].read(buffer(i), where.first * sizeof(float),
                        std::as_writable_bytes(std::span(received_.back().got)));
  }
  void fill(std::size_t i, const Part& where) {
    if (!plugin_.has<&yoke_backend_api::fill>()) {
      return send(i, where);
    }
    note("fill", i, where);
    const auto value = static_cast<float>(random_.below(900));
    std::fill_n(at(i, where.first), where.count, value);
    expect_ok(plugin_.fill(streams_[now_].get(), buffer(i).get(), where.first * sizeof(float),
                           where.count * sizeof(float), &value, sizeof value),
              "queueing a fill");
  }
  // Copies to `where` of buffer `i`, from the place `from` of buffer `source`, or from any place.
  void between(std::size_t i, Part where, std::size_t source, std::optional<std::size_t> place) {
    // The squares of a product would grow.
    source = small_.program && small_.program->name() == "square" ? 0 : source;
    where.first = std::min<std::size_t>(where.first, kSmallCount - 1);
    where.count = std::min<std::size_t>(where.count, kSmallCount - where.first);
    const std::size_t highest = kSmallCount - where.count;
    const std::size_t from = std::min(place ? *place : random_.below(highest + 1), highest);
    const bool overlap = source == i && from < where.first + where.count && where.first < from + where.count;
    if (overlap || !plugin_.has<&yoke_backend_api::device_to_device>()) {
      return send(i, where);
    }
    was_copy_ = true;
    last_ = where;
    last_target_ = i;
    last_source_ = source;
    last_from_ = from;
    note(text("copy from ", source, "[", from, "] to").c_str(), i, where);
    std::copy_n(at(source, from), where.count, at(i, where.first));
    streams_[now_].copy(buffer(i), where.first * sizeof(float), buffer(source), from * sizeof(float),
                        where.count * sizeof(float));
  }
  void run() {
    if (!small_.run) {
      return;
    }
    const bool is_back = back_.get() != nullptr && random_.chance(2);  // from y to x
    history_ += is_back ? " launch back" : " launch";
    values_[is_back ? 0 : 1] = small_.program->results(values_[is_back ? 1 : 0]);
    expect_ok(plugin_.routine_launch(streams_[now_].get(), (is_back ? back_ : small_.run->routine).get(), {}),
              "queueing a launch");
  }

  Device& device_;
  const Plugin& plugin_;
  Random& random_;
  SmallRunIfAny small_;
  Routine back_;
  Buffer own_[2];
  std::vector<float> values_[2];
  Part last_{0, 1};
  // Of the last copy between the buffers.
  bool was_copy_ = false;  // the last step
  std::size_t last_target_ = 0;
  std::size_t last_source_ = 0;
  std::size_t last_from_ = 0;
  std::string history_;
  std::deque<Received> received_;  // its elements stay in place
  std::deque<std::vector<float>> sources_;
  std::size_t now_ = 0;
  std::vector<Stream> streams_;
};

void overlaps(Kit& kit) {
  const int count = 1500 * kit.effort();
  kit.plugin().table<yoke_stream_api>();
  Random random = kit.random();
  Sequence sequence(kit.device(), random);
  for (int i = 0; i < count; ++i) {
    if (i % 50 == 0) {
      kit.progress(text("sequence ", i, " of ", count));
    }
    sequence.play(2 + static_cast<int>(random.below(12)), i % 4 == 0);
  }
  kit.note(text(count, " sequences"));
}

// One chain of copies through two devices or handles.
struct Chain {
  Chain(Device& first, Device& second, Random& random, std::uint64_t byte_count)
      : a(first, byte_count),
        b(second, byte_count),
        c(first, byte_count),
        sent(random.bytes(byte_count)),
        received(byte_count),
        stream(first) {}

  void queue(const Plugin& plugin, yoke_stream* on) {
    std::fill(received.begin(), received.end(), std::byte{0});
    const bool copies = plugin.has<&yoke_backend_api::device_to_device>();
    expect_ok(plugin.from_host(on, a.get(), 0, sent.data(), sent.size(), nullptr), "queueing a from_host");
    if (copies) {
      expect_ok(plugin.device_to_device(on, b.get(), 0, a.get(), 0, sent.size()),
                "queueing a device_to_device");
      expect_ok(plugin.device_to_device(on, c.get(), 0, b.get(), 0, sent.size()),
                "queueing a device_to_device");
    }
    expect_ok(plugin.to_host(on, copies ? c.get() : a.get(), 0, received.data(), received.size()),
              "queueing a to_host");
  }
  void check_same(const char* what) const {
    const auto wrong = std::mismatch(sent.begin(), sent.end(), received.begin()).first;
    check(wrong == sent.end(), what, ": byte ", wrong - sent.begin(), " of ", sent.size(),
          " is wrong after copies to a device, to another and back");
  }

  Buffer a;
  Buffer b;
  Buffer c;
  Bytes sent;
  Bytes received;
  Stream stream;
};

void large_at_once(Kit& kit) {
  constexpr std::uint64_t kBytes = (4U << 20U) + 12345;
  Device& device = kit.device();
  Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  Random random = kit.random();
  std::deque<Device> devices;
  for (std::uint32_t ordinal = 0; ordinal < std::min(plugin.device_count(), 3U); ++ordinal) {
    devices.emplace_back(
        kit, plugin, ordinal,
        ordinal == kit.settings().device ? kit.device_options() : std::vector<yoke_option>());
  }
  std::deque<Chain> chains;
  for (Device& other : devices) {
    chains.emplace_back(device, other, random, kBytes + chains.size() * 4096);
    chains.emplace_back(other, device, random, kBytes - chains.size() * 4096);
  }
  for (int round = 0; round < 3 * kit.effort(); ++round) {
    kit.progress(text("round ", round));
    for (Chain& chain : chains) {
      chain.queue(plugin, chain.stream.get());
    }
    for (Chain& chain : chains) {
      chain.stream.synchronize();
    }
    for (const Chain& chain : chains) {
      chain.check_same("several streams at once");
    }
    run_threads(static_cast<unsigned>(chains.size()), [&](unsigned i) { chains[i].queue(plugin, nullptr); });
    for (const Chain& chain : chains) {
      chain.check_same("several threads at once, without streams");
    }
  }
}

}  // namespace

std::vector<Test> stream_overlap_tests() {
  return {
      {"overlaps",
       "short sequences of copies, fills and launches on ranges that overlap or touch have the results of "
       "their order",
       {16, 18, 26},
       overlaps,
       3},
      {"large-at-once",
       "large copies between all devices, on several streams and threads at once, copy the right bytes",
       {16, 18, 20, 53},
       large_at_once,
       2},
  };
}

}  // namespace yoke::conformance
