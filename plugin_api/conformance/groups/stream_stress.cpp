// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_stress.cpp: every kind of copy on many streams, with launches between them.
#include <algorithm>
#include <array>
#include <deque>

#include "foreign.h"
#include "groups.h"
#include "modelled.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kSizes[] = {3000, 65537, 200'003, 1'500'001};

// Work on several streams, of two handles, in random order, with every kind of memory. Each buffer has the event after
// its last use; other streams wait for it.
class Storm {
 public:
  Storm(Kit& kit, Random& random)
      : plugin_(kit.plugin()), device_(kit.device()), second_(another_handle(kit)), random_(random) {
    for (const std::uint64_t size : kSizes) {
      models_.push_back(std::make_unique<Modelled>(device_, random, size));
    }
    add_other_memory();
    near_ = models_.size();
    if (const std::uint32_t count = plugin_.device_count(); count > 1) {
      far_.emplace(kit, kit.plugin(), (kit.settings().device + 1) % count);
      models_.push_back(std::make_unique<Modelled>(*far_, random, 90'001));
    }
    last_.resize(models_.size());
    for (int i = 0; i < 6; ++i) {
      streams_.push_back(std::make_unique<Stream>(i < 4 ? device_ : second_,
                                                  static_cast<std::int32_t>(random.between(-1, 1))));
    }
    if (const auto program = SmallProgram::if_any(device_)) {
      program_ = program;
      code_ = compile(device_, program->text());
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        runs_.push_back(std::make_unique<SmallRun>(device_, code_));
        inputs_.emplace_back(SmallRun::start());
      }
    }
  }

  void step() {
    const std::size_t s = random_.below(streams_.size());
    switch (random_.below(7)) {
      case 0:
        return receive(s);
      case 1:
        return between(s);
      case 2:
        return fill(s);
      case 3:
        return run(s);
      case 4:
        return renew(s);
      default:
        return send(s);
    }
  }

  void finish() {
    for (const auto& stream : streams_) {
      stream->synchronize();
    }
    for (const auto& model : models_) {
      model->check_same("after random work on several streams");
    }
    check_received();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      check(!launched_[i] || runs_[i]->y.contents() == bytes_of_floats(program_->results(inputs_[i])),
            "a launch between copies on a stream used different inputs than those queued before it");
    }
  }

 private:
  struct Received {
    std::span<std::byte> got;
    Bytes expected;
    Bytes own{};  // holds `got` unless that is pinned
  };

  // Buffers of memory of other kinds, and pinned memory for copies.
  void add_other_memory() {
    yoke_buffer* raw = nullptr;
    if (plugin_.buffer_create(second_.get(), 64, YOKE_MEMORY_UNIFIED, &raw).ok()) {
      BufferHandle(plugin_, raw).reset();
      models_.push_back(std::make_unique<Modelled>(Buffer(second_, 70'001, YOKE_MEMORY_UNIFIED), random_));
    }
    if (plugin_.has_table<yoke_memory_api>()) {
      pinned_.emplace(device_, std::uint64_t{2} << 20U);
      lent_.push_back({Bytes(70'011)});
      if (plugin_.has<&yoke_memory_api::buffer_import>() &&
          import(device_, lent_[0].args(5, 70'003), &raw).ok()) {
        models_.push_back(
            std::make_unique<Modelled>(Buffer(plugin_, BufferHandle(plugin_, raw), 70'003), random_));
      }
    }
  }
  // A part of the pinned memory, at any address; null if it has too little room.
  std::byte* pinned_room(std::uint64_t byte_count) {
    const std::uint64_t begin = pinned_at_ + random_.below(8);
    if (!pinned_ || random_.chance(2) || begin + byte_count > pinned_->bytes.size()) {
      return nullptr;
    }
    pinned_at_ = begin + byte_count;
    return pinned_->bytes.data() + begin;
  }

  void use(std::size_t s, std::size_t buffer) {
    if (last_[buffer].get() != nullptr) {
      streams_[s]->wait_for(last_[buffer]);
    }
  }
  void used(std::size_t s, std::size_t buffer) { last_[buffer] = streams_[s]->record(); }
  Range range_in(std::size_t buffer) {
    const std::uint64_t size = models_[buffer]->bytes.size();
    const std::uint64_t byte_count =
        1 + random_.below(random_.chance(2) ? size : std::min<std::uint64_t>(size, 300));
    return {random_.below(size - byte_count + 1), byte_count};
  }
  auto place(std::size_t buffer, std::uint64_t offset) const {
    return models_[buffer]->bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  }

  void send(std::size_t s) {
    const std::size_t target = random_.below(near_);
    const Range range = range_in(target);
    use(s, target);
    Bytes sent = random_.bytes(range.byte_count);
    std::copy(sent.begin(), sent.end(), place(target, range.offset));
    if (std::byte* const pinned = pinned_room(range.byte_count); pinned != nullptr) {
      std::copy(sent.begin(), sent.end(), pinned);
      expect_ok(plugin_.from_host(streams_[s]->get(), models_[target]->buffer.get(), range.offset, pinned,
                                  range.byte_count, nullptr),
                "queueing a from_host from pinned memory");
    } else {
      streams_[s]->write(models_[target]->buffer, range.offset, std::move(sent));
    }
    used(s, target);
  }
  void receive(std::size_t s) {
    const std::size_t source = random_.below(near_);
    const Range range = range_in(source);
    use(s, source);
    const auto from = place(source, range.offset);
    Received& one =
        received_.emplace_back(Received{{}, {from, from + static_cast<std::ptrdiff_t>(range.byte_count)}});
    std::byte* const pinned = pinned_room(range.byte_count);
    one.own.resize(pinned == nullptr ? range.byte_count : 0);
    one.got = {pinned == nullptr ? one.own.data() : pinned, range.byte_count};
    streams_[s]->read(models_[source]->buffer, range.offset, received_.back().got);
    used(s, source);
  }
  void between(std::size_t s) {
    const std::size_t target = random_.below(models_.size());
    const std::size_t source = (target + 1 + random_.below(models_.size() - 1)) % models_.size();
    if (!plugin_.has<&yoke_backend_api::device_to_device>()) {
      return send(s);
    }
    Range range = range_in(target);
    range.byte_count = std::min<std::uint64_t>(range.byte_count, models_[source]->bytes.size());
    const std::uint64_t from = random_.below(models_[source]->bytes.size() - range.byte_count + 1);
    use(s, target);
    use(s, source);
    std::copy_n(place(source, from), range.byte_count, place(target, range.offset));
    streams_[s]->copy(models_[target]->buffer, range.offset, models_[source]->buffer, from, range.byte_count);
    used(s, target);
    used(s, source);
  }
  void fill(std::size_t s) {
    if (!plugin_.has<&yoke_backend_api::fill>()) {
      return send(s);
    }
    const std::size_t target = random_.below(near_);
    Range range = range_in(target);
    const std::uint32_t size = 1U << random_.below(4);
    range.byte_count = range.byte_count / size * size;
    Bytes pattern = random_.bytes(size);
    use(s, target);
    for (std::uint64_t i = 0; i < range.byte_count; ++i) {
      *place(target, range.offset + i) = pattern[i % size];
    }
    expect_ok(plugin_.fill(streams_[s]->get(), models_[target]->buffer.get(), range.offset, range.byte_count,
                           pattern.data(), size),
              "queueing a fill");
    std::fill(pattern.begin(), pattern.end(), std::byte{0xee});  // fill copies the pattern during the call
    used(s, target);
  }
  // New inputs, a launch and a copy of the results, on one, two or three streams.
  void run(std::size_t s) {
    if (runs_.empty()) {
      return send(s);
    }
    const std::size_t number = random_.below(runs_.size());
    const SmallRun& run = *runs_[number];
    const auto move_on = [&] {
      if (random_.chance(2)) {
        s = random_.below(streams_.size());
        streams_[s]->wait_for(after_run_[number]);
      }
    };
    for (float& value : inputs_[number]) {
      value = static_cast<float>(random_.below(900));
    }
    if (after_run_[number].get() != nullptr) {
      streams_[s]->wait_for(after_run_[number]);
    }
    streams_[s]->write(run.x, 0, bytes_of_floats(inputs_[number]));
    after_run_[number] = streams_[s]->record();
    move_on();
    expect_ok(plugin_.routine_launch(streams_[s]->get(), run.routine.get(), {}), "queueing a launch");
    launched_[number] = true;
    after_run_[number] = streams_[s]->record();
    move_on();
    Received& one = received_.emplace_back(Received{{}, bytes_of_floats(program_->results(inputs_[number]))});
    one.own.resize(one.expected.size());
    one.got = one.own;
    streams_[s]->read(run.y, 0, one.got);
    after_run_[number] = streams_[s]->record();
  }
  // Waits for a stream and, sometimes, replaces it.
  void renew(std::size_t s) {
    if (!random_.chance(6)) {
      return send(s);
    }
    streams_[s]->synchronize();
    if (random_.chance(2)) {
      streams_[s] = std::make_unique<Stream>(device_);
    }
  }
  void check_received() const {
    for (const Received& one : received_) {
      check(std::equal(one.got.begin(), one.got.end(), one.expected.begin()), "a to_host of ", one.got.size(),
            " bytes on one of several streams returned different bytes than those of the work before it");
    }
  }

  const Plugin& plugin_;
  Device& device_;
  Device second_;              // another handle
  std::optional<Device> far_;  // another device: it takes part only in copies between buffers
  Random& random_;
  std::deque<Lent> lent_;
  std::optional<Pinned> pinned_;
  std::uint64_t pinned_at_ = 0;
  std::optional<SmallProgram> program_;
  Code code_;
  std::vector<std::unique_ptr<Modelled>> models_;
  std::size_t near_ = 0;  // models of this device
  std::vector<std::unique_ptr<SmallRun>> runs_;
  std::vector<std::vector<float>> inputs_;
  std::array<bool, 6> launched_{};
  std::array<Event, 6> after_run_;
  std::deque<Received> received_;  // its elements stay in place
  std::vector<Event> last_;
  std::vector<std::unique_ptr<Stream>> streams_;  // after everything that their work uses
};

void storm(Kit& kit) {
  constexpr int kSteps = 250;
  const int storms = 5 * kit.effort();
  kit.plugin().table<yoke_stream_api>();
  Random random = kit.random();
  for (int i = 0; i < storms; ++i) {
    kit.progress(text("round ", i, " of ", storms));
    Storm one(kit, random);
    for (int step = 0; step < kSteps; ++step) {
      one.step();
    }
    one.finish();
  }
  kit.note(text(storms, " rounds of ", kSteps, " pieces of work on 6 streams"));
}

// More streams than a pool of fixed size has: each waits for the stream before it, then all for one, and one for all.
// All copies are so large that a backend may divide them among threads.
void many_streams(Kit& kit) {
  constexpr std::size_t kCount = 80;
  constexpr std::uint64_t kBytes = 1'100'003;
  constexpr std::uint64_t kPart = 64;
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  kit.plugin().need<&yoke_backend_api::device_to_device>();
  Random random = kit.random();
  const Bytes sent[] = {random.bytes(kBytes), random.bytes(kBytes)};
  Bytes received(kBytes);
  Bytes parts(kCount * kPart);
  const Buffer gathered(device, parts.size());
  std::vector<Buffer> buffers;
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < kCount; ++i) {
    buffers.emplace_back(device, kBytes);
    streams.emplace_back(device);
  }
  streams[0].write(buffers[0], 0, sent[0]);
  for (std::size_t i = 1; i < kCount; ++i) {
    streams[i].wait_for(streams[i - 1].record());
    streams[i].copy(buffers[i], 0, buffers[i - 1], 0, kBytes);
  }
  streams.back().read(buffers.back(), 0, received);
  streams.back().synchronize();
  check(received == sent[0], "bytes that were copied from stream to stream, over ", kCount,
        " streams, have changed");

  streams[0].write(buffers[0], 0, sent[1]);
  const Event first = streams[0].record();
  for (std::size_t i = 1; i < kCount; ++i) {
    streams[i].wait_for(first);
    streams[i].copy(buffers[i], 0, buffers[0], 0, kBytes);
    streams[i].copy(gathered, i * kPart, buffers[i], kBytes - kPart - i, kPart);
  }
  for (std::size_t i = 1; i < kCount; ++i) {
    streams[0].wait_for(streams[i].record());
  }
  streams[0].read(gathered, 0, parts);
  streams[0].synchronize();
  for (std::size_t i = 1; i < kCount; ++i) {
    const auto part = parts.begin() + static_cast<std::ptrdiff_t>(i * kPart);
    check(std::equal(part, part + kPart, sent[1].end() - static_cast<std::ptrdiff_t>(kPart + i)), "stream ",
          i, " of ", kCount, ", which wait for one and for which one waits, has copied wrong bytes");
  }
}

// More work than a queue of fixed length holds, without a wait, then the same again.
void long_queue(Kit& kit) {
  constexpr int kCount = 5000;
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_stream_api>();
  std::vector<std::uint32_t> numbers(kCount);
  std::vector<std::uint32_t> received(kCount);
  const Buffer buffer(device, kCount * sizeof(std::uint32_t));
  Stream stream(device);
  for (std::uint32_t round = 0; round < 2; ++round) {
    std::vector<Event> events;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      numbers[i] = i * 3 + round;
      expect_ok(plugin.from_host(stream.get(), buffer.get(), i * sizeof(std::uint32_t), &numbers[i],
                                 sizeof(std::uint32_t), nullptr),
                "queueing a from_host");
      if (i % 4 == 0) {
        events.push_back(stream.record());
      }
    }
    std::uint32_t last = 0;
    expect_ok(
        plugin.to_host(stream.get(), buffer.get(), (kCount - 1) * sizeof(std::uint32_t), &last, sizeof last));
    stream.read(buffer, 0, std::as_writable_bytes(std::span(received)));
    stream.synchronize();
    check_equal(last, numbers.back(), "the number that the last of ", kCount, " queued copies wrote");
    check(received == numbers, "after ", kCount, " copies that were queued without a wait, bytes are wrong");
    for (const Event& event : events) {
      check(event.done(), "an event is pending after its stream was waited for");
    }
  }
}

}  // namespace

std::vector<Test> stream_stress_tests() {
  return {
      {"storm",
       "random copies, fills and launches on six streams of two handles, with every kind of memory, have the "
       "results of one stream",
       {16, 18},
       storm,
       3},
      {"many",
       "80 streams work at once, each ordered after the one before it, or all after one and one after all",
       {18},
       many_streams,
       2},
      {"long-queue", "5,000 copies and events queued without a wait run in order", {18}, long_queue, 2}};
}

}  // namespace yoke::conformance
