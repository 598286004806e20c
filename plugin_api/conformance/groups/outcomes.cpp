// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/outcomes.cpp: queues the work of a round, and derives what it must leave.
#include "outcomes.h"

#include <algorithm>

#include "held.h"

namespace yoke::conformance {

Home::Home(Device& of) : device(of), program(SmallProgram::if_any(of)) {
  if (program) {
    code = compile(device, program->text());
  }
}

Lane::Lane(Home& of) : home(&of), buffer(of.device, kBytes), expected(kBytes), known(kBytes, true) {
  buffer.write(0, expected);
  if (of.program) {
    run.emplace(of.device, of.code);
  }
  clear_output();
  renew();
}

void Lane::clear_output() {
  if (run && !home->is_aborted) {
    run->y.write(0, Bytes(run->y.byte_count()));
    output = Output::kClear;
  }
}

void Lane::renew() {
  stream = std::make_unique<Stream>(home->device);
  code = home->is_aborted ? YOKE_STATUS_ABORTED : YOKE_STATUS_OK;
}

Outcomes::Outcomes(Kit& kit, Random& random)
    : kit_(kit),
      plugin_(kit.plugin()),
      random_(random),
      has_faults_(plugin_.has<&yoke_fault_api::fault_arm>()),
      has_aborts_(plugin_.has<&yoke_stream_api::stream_abort>()),
      has_calls_(plugin_.has<&yoke_stream_api::stream_host_callback>()),
      blocks_copies_(Held::blocks_copies(kit.device())) {
  homes_.emplace_back(kit.device());
  const std::uint32_t count = plugin_.device_count();
  for (std::uint32_t i = 0; i < 3;
       ++i) {  // another handle, another device if there is one, a handle to abort
    const std::uint32_t ordinal = (kit.settings().device + i % 2 * (count > 1 ? 1 : 0)) % count;
    devices_.emplace_back(
        kit, kit.plugin(), ordinal,
        ordinal == kit.settings().device ? kit.device_options() : std::vector<yoke_option>());
    homes_.emplace_back(devices_.back());
  }
  for (const std::size_t home : {0U, 0U, 0U, 1U, 2U, 2U, 3U}) {
    lanes_.push_back(std::make_unique<Lane>(homes_[home]));
  }
}

void Outcomes::play(int pieces, bool is_calm) {
  is_long_ = pieces > 1000;
  may_fault_ = !is_calm && random_.chance(2);
  may_abort_ = !is_calm && !may_fault_;  // never both: a backend may know of a fault before the work runs
  for (const auto& lane : lanes_) {
    if (is_calm && lane->code != YOKE_STATUS_OK) {
      lane->renew();
      lane->now = lane->code;
    }
  }
  begin_ = Clock::now();
  {
    const Held held(kit_.device());
    for (const auto& lane : lanes_) {
      held.hold(*lane->stream);
    }
    for (int i = 0; i < pieces; ++i) {
      if (random_.chance(40)) {
        pass_by();
        held.hold(
            others_.emplace_back(homes_[random_.below(3)].device));  // maybe in the memory of the last one
        others_.back().record();
      } else if (random_.chance(12)) {
        run_threads(1, [&](unsigned) { queue_any(); });  // the thread ends before the work
      } else {
        queue_any();
      }
    }
    if (held.is_closed()) {
      check_pending();
      check(held.is_closed(), "a call that queues work, or a query, waited until the streams could run");
      abort_some();
    }
  }
  settle();
  check_waits();
  check_times();
  check_memory();
  next_round();
}

void Outcomes::queue_any() {
  using Kind = Piece::Kind;
  constexpr Kind kKinds[] = {Kind::kSend, Kind::kSend,    Kind::kSend,   Kind::kPull,
                             Kind::kPull, Kind::kReceive, Kind::kRecord, Kind::kRecord,
                             Kind::kWait, Kind::kCall,    Kind::kLaunch};
  queue(kKinds[random_.below(std::size(kKinds))], some_lane());
}

void Outcomes::queue(Piece::Kind kind, Lane& lane) {
  Piece& piece = pieces_.emplace_back();
  piece.kind = kind;
  piece.lane = &lane;
  switch (kind) {
    case Piece::Kind::kSend:
      return send(piece);
    case Piece::Kind::kPull:
      return pull(piece);
    case Piece::Kind::kReceive:
      piece.bytes.assign(1 + random_.below(5000), kUnread);
      piece.offset = random_.below(Lane::kBytes - piece.bytes.size());
      return lane.stream->read(lane.buffer, piece.offset, piece.bytes);
    case Piece::Kind::kRecord:
      return record(piece);
    case Piece::Kind::kWait: {
      const std::shared_ptr<Point> point = some_point();
      return point == nullptr ? record(piece) : wait(piece, point);
    }
    case Piece::Kind::kCall:
      if (!has_calls_) {
        return record(piece);
      }
      try {
        piece.call = std::make_unique<HostCallback>(*lane.stream);
      } catch (const Unsupported&) {
        has_calls_ = false;
        record(piece);
      }
      return;
    case Piece::Kind::kLaunch:
      if (!lane.run) {
        return record(piece);
      }
      piece.fails = arm(lane, YOKE_FAULT_LAUNCH);
      expect_ok(plugin_.routine_launch(lane.stream->get(), lane.run->routine.get(), {}), "queueing a launch");
      lane.now = piece.fails ? kFault : lane.now;
      return;
  }
}

// An event of this round, or of an earlier one, mostly without an error, which would soon be everywhere.
std::shared_ptr<Point> Outcomes::some_point() {
  if (points_.empty()) {
    return nullptr;
  }
  const auto& point = points_[points_.size() - 1 - random_.below(std::min<std::size_t>(points_.size(), 12))];
  return point->code == YOKE_STATUS_OK || ((may_fault_ || may_abort_) && random_.chance(3)) ? point : nullptr;
}

// A from_host or a fill, after what the lane has written in this round, or over what no other lane reads.
void Outcomes::send(Piece& piece) {
  Lane& lane = *piece.lane;
  piece.kind = Piece::Kind::kSend;
  piece.offset = lane.at;
  if (lane.at > lane.frozen && random_.chance(2)) {
    piece.offset = lane.last >= lane.frozen && random_.chance(2)
                       ? lane.last
                       : lane.frozen + random_.below(lane.at - lane.frozen);
  }
  const std::uint64_t words = random_.chance(4) ? 8
                                                : 1 + random_.below(is_long_             ? 30
                                                                    : random_.chance(20) ? 2500
                                                                                         : 300);
  piece.bytes = random_.bytes(std::min((Lane::kBytes - piece.offset) / 8, words) * 8);
  lane.at = std::max(lane.at, piece.offset + piece.bytes.size());
  lane.last = piece.offset;
  const std::uint64_t pattern = random_.next();
  piece.is_filled = plugin_.has<&yoke_backend_api::fill>() && random_.chance(4);
  for (std::size_t i = 0; piece.is_filled && i < piece.bytes.size(); ++i) {
    piece.bytes[i] = static_cast<std::byte>(pattern >> (i % 8 * 8));
  }
  piece.fails = !piece.bytes.empty() && arm(lane, YOKE_FAULT_COPY);
  if (piece.is_filled) {
    expect_ok(plugin_.fill(lane.stream->get(), lane.buffer.get(), piece.offset, piece.bytes.size(), &pattern,
                           sizeof pattern),
              "queueing a fill");
  } else {
    queue_source(piece);
  }
  lane.now = piece.fails ? kFault : lane.now;
}

// Overwrites the source, and uses its memory again, as early as the ABI allows.
void Outcomes::queue_source(const Piece& piece) {
  const Lane& lane = *piece.lane;
  constexpr std::size_t kMost = 20'000;
  if (scratch_.empty()) {
    scratch_.emplace_back(kMost);
  }
  Bytes& source = scratch_.back();
  std::copy(piece.bytes.begin(), piece.bytes.end(), source.begin());
  std::int32_t state = YOKE_SOURCE_UNTIL_EVENT;
  expect_ok(plugin_.from_host(lane.stream->get(), lane.buffer.get(), piece.offset, source.data(),
                              piece.bytes.size(), &state),
            "queueing a from_host");
  if (state == YOKE_SOURCE_COPIED) {
    std::fill_n(source.begin(), piece.bytes.size(), std::byte{0xdd});
  } else {
    scratch_.emplace_back(kMost);
  }
}

// A copy of what a lane, maybe the same one, has written in this round, after an event of that lane.
void Outcomes::pull(Piece& piece) {
  Lane& lane = *piece.lane;
  Lane& source = some_lane();
  if (source.at == 0 || !plugin_.has<&yoke_backend_api::device_to_device>() || lane.home->is_aborted ||
      source.home->is_aborted) {
    return send(piece);
  }
  const std::uint64_t byte_count =
      std::min(source.at, std::min(Lane::kBytes - lane.at, 1 + random_.below(is_long_ ? 200 : 3000)));
  source.frozen = source.at;
  piece.source = &source;
  piece.from = random_.below(source.at - byte_count + 1);
  piece.offset = lane.at;
  piece.bytes.resize(byte_count);
  lane.at += byte_count;
  lane.last = piece.offset;
  {
    Event event = source.stream->record();
    lane.stream->wait_for(event);  // and the event is destroyed
  }
  lane.stream->copy(lane.buffer, piece.offset, source.buffer, piece.from, byte_count);
  lane.now = lane.now == YOKE_STATUS_OK ? source.now : lane.now;
}

void Outcomes::wait(Piece& piece, const std::shared_ptr<Point>& point) {
  piece.kind = Piece::Kind::kWait;
  piece.point = point;
  piece.lane->stream->wait_for(point->event);
  piece.lane->now = piece.lane->now == YOKE_STATUS_OK ? point->code : piece.lane->now;
}

void Outcomes::record(Piece& piece) {
  piece.kind = Piece::Kind::kRecord;
  piece.point = std::make_shared<Point>(Point{piece.lane->stream->record(), piece.lane->now});
  points_.push_back(piece.point);
}

// Whether the next call of this kind on the lane fails.
bool Outcomes::arm(const Lane& lane, std::int32_t kind) {
  if (!has_faults_ || !may_fault_ || lane.now != YOKE_STATUS_OK || !random_.chance(40)) {
    return false;
  }
  try {
    arm_fault(plugin_, lane.home->device.get(), kind, 1);
  } catch (const Unsupported&) {
    has_faults_ = false;
  }
  return has_faults_;
}

// A stream that is not held back works or fails, and is destroyed. Held streams wait for its event afterwards.
void Outcomes::pass_by() {
  Home& home = homes_[random_.below(3)];
  const Buffer buffer(home.device, 64);
  Stream stream(home.device);
  const bool may_abort = has_aborts_ && may_abort_ && random_.chance(4);
  if (!blocks_copies_) {
    stream.write(buffer, 0, Bytes(64));
  }
  const bool is_aborted = may_abort && abort_stream(stream);
  auto point =
      std::make_shared<Point>(Point{stream.record(), is_aborted ? YOKE_STATUS_ABORTED : YOKE_STATUS_OK});
  Lane& lane = some_lane();
  Piece& piece = pieces_.emplace_back();
  piece.lane = &lane;
  wait(piece, point);
  points_.push_back(point);
  point->check_outcome(random_.chance(2), " of a stream while others wait for an event");
}

void Outcomes::check_pending() {
  for (const Piece& piece : pieces_) {
    if (piece.lane->code != YOKE_STATUS_OK) {
      continue;  // its work may be skipped at once
    }
    if (piece.kind == Piece::Kind::kRecord) {
      check_equal(piece.point->event.state(), YOKE_STATE_PENDING,
                  "the state of an event on a stream that cannot run");
    }
    check(piece.call == nullptr || piece.call->calls() == 0,
          "a host callback was called on a stream that cannot run");
  }
  for (const auto& lane : lanes_) {
    if (lane->code == YOKE_STATUS_OK) {
      check_equal(lane->stream->state(), YOKE_STATE_PENDING, "the state of a stream that cannot run");
      expect_code(lane->stream->wait(random_.below(kMillisecond / 10)), YOKE_STATUS_DEADLINE_EXCEEDED,
                  "waiting for a stream that cannot run");
    }
  }
}

// False if the backend cannot abort streams.
bool Outcomes::abort_stream(const Stream& stream) {
  const Answer answer = plugin_.call<&yoke_stream_api::stream_abort>(stream.get());
  has_aborts_ = answer.code != YOKE_STATUS_UNIMPLEMENTED;
  if (has_aborts_) {
    expect_ok(answer, "aborting a stream");
  }
  return has_aborts_;
}

void Outcomes::abort_some() {
  for (int i = 0; has_aborts_ && may_abort_ && i < 2; ++i) {
    Lane& lane = some_lane();
    if (lane.now == YOKE_STATUS_OK && random_.chance(3) && abort_stream(*lane.stream)) {
      lane.is_aborted = true;
      check(lane.stream->state() != YOKE_STATE_DONE,
            "stream_query reports that a stream is done after it was aborted");
    }
  }
}

void Outcomes::next_round() {
  pieces_.clear();
  others_.clear();
  scratch_.clear();
  for (const auto& lane : lanes_) {
    lane->code = lane->now;
    lane->at = lane->frozen = lane->last = 0;
    lane->is_aborted = false;
    lane->clear_output();
    if (has_aborts_ && random_.chance(12) && abort_stream(*lane->stream)) {  // without work
      lane->code = lane->code == YOKE_STATUS_OK ? YOKE_STATUS_ABORTED : lane->code;
    }
    if (random_.chance(lane->code == YOKE_STATUS_OK ? 8 : 2)) {
      lane->renew();
    }
    lane->now = lane->code;
  }
  while (points_.size() > 60) {
    points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(random_.below(points_.size())));
  }
}

void Outcomes::abort_last_home() {
  if (!plugin_.has<&yoke_stream_api::device_abort>()) {
    return;
  }
  Home& home = homes_.back();
  const Answer answer = plugin_.call<&yoke_stream_api::device_abort>(home.device.get());
  if (answer.code == YOKE_STATUS_UNIMPLEMENTED) {
    return;
  }
  expect_ok(answer, "aborting a device");
  home.is_aborted = true;
  for (const auto& lane : lanes_) {
    if (lane->home == &home && lane->code == YOKE_STATUS_OK) {
      lane->code = lane->now = YOKE_STATUS_ABORTED;
    }
  }
}

}  // namespace yoke::conformance
