// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/outcomes_check.cpp: what the work of a round must leave, and whether it does.
#include <algorithm>
#include <map>

#include "outcomes.h"

namespace yoke::conformance {

void Point::check_outcome(bool polls, const char* what) const {
  if (polls) {
    Patience::wait_until([&] { return event.state() != YOKE_STATE_PENDING; },
                         "event_query never reports that an event is done or failed");
  }
  const Answer answer = event.wait(polls ? 0 : longest_wait_ns());
  const std::string waiting = text("waiting for an event", what);
  code == YOKE_STATUS_OK ? expect_ok(answer, waiting) : expect_code(answer, code, waiting);
  check_equal(event.state(), code == YOKE_STATUS_OK ? YOKE_STATE_DONE : YOKE_STATE_FAILED,
              "the state of an event", what);
}

// Derives from the aborts and the order of the calls what each piece does.
void Outcomes::settle() {
  for (const auto& lane : lanes_) {
    lane->now = lane->is_aborted ? YOKE_STATUS_ABORTED : lane->code;
  }
  for (Piece& piece : pieces_) {
    Lane& lane = *piece.lane;
    if (lane.now == YOKE_STATUS_OK && piece.source != nullptr) {
      lane.now = piece.source->now;
    } else if (lane.now == YOKE_STATUS_OK && piece.kind == Piece::Kind::kWait) {
      lane.now = piece.point->code;
    } else if (piece.kind == Piece::Kind::kRecord) {
      piece.point->code = lane.now;
    }
    piece.code = lane.now;
    settle_memory(piece);
    lane.now = lane.now == YOKE_STATUS_OK && piece.fails ? kFault : lane.now;
  }
}

void Outcomes::settle_memory(Piece& piece) {
  Lane& lane = *piece.lane;
  const auto place = static_cast<std::ptrdiff_t>(piece.offset);
  const auto end = place + static_cast<std::ptrdiff_t>(piece.bytes.size());
  const bool runs = piece.code == YOKE_STATUS_OK && !piece.fails;
  // A device may run work that was queued before an abort.
  const bool may_run = !runs && lane.code == YOKE_STATUS_OK &&
                       (piece.code == YOKE_STATUS_OK || piece.code == YOKE_STATUS_ABORTED);
  if (piece.source != nullptr) {
    std::copy_n(piece.source->expected.begin() + static_cast<std::ptrdiff_t>(piece.from), piece.bytes.size(),
                piece.bytes.begin());
  }
  if (piece.kind == Piece::Kind::kReceive) {
    piece.wanted = Bytes(piece.bytes.size(), kUnread);
    piece.is_known.assign(piece.bytes.size(), !may_run);
    if (runs) {
      std::copy(lane.expected.begin() + place, lane.expected.begin() + end, piece.wanted->begin());
      std::copy(lane.known.begin() + place, lane.known.begin() + end, piece.is_known.begin());
    }
  } else if (piece.kind == Piece::Kind::kLaunch) {
    lane.output = runs ? Lane::Output::kWritten : may_run ? Lane::Output::kUnknown : lane.output;
  } else if (piece.kind == Piece::Kind::kSend || piece.kind == Piece::Kind::kPull) {
    if (runs) {
      std::copy(piece.bytes.begin(), piece.bytes.end(), lane.expected.begin() + place);
    }
    if (runs || may_run) {
      std::fill(lane.known.begin() + place, lane.known.begin() + end, runs);
    }
  }
}

void Outcomes::check_waits() {
  for (const Piece& piece : pieces_) {
    if (piece.kind == Piece::Kind::kRecord && random_.chance(4)) {
      piece.point->check_outcome(random_.chance(2), " of one of several streams");
    }
  }
  for (const auto& lane : lanes_) {
    const Answer answer = lane->stream->wait();
    lane->now == YOKE_STATUS_OK ? expect_ok(answer, "waiting for one of several streams")
                                : expect_code(answer, lane->now, "waiting for a stream that has failed");
    check_equal(lane->stream->state(), lane->now == YOKE_STATUS_OK ? YOKE_STATE_DONE : YOKE_STATE_FAILED,
                "the state of a stream that was waited for");
  }
  std::map<const Lane*, int> positions;
  for (const Piece& piece : pieces_) {
    if (piece.kind == Piece::Kind::kRecord) {
      piece.point->check_outcome(false, " of a stream that was waited for");
    } else if (piece.call != nullptr) {
      piece.call->wait();
      check_equal(piece.call->calls(), 1, "the number of calls of a host callback");
      check_equal(code_name(piece.call->status()), code_name(piece.code),
                  "the status that a host callback received");
      const auto last = positions.emplace(piece.lane, -1).first;
      check(piece.call->position() > last->second,
            "host callbacks of a stream were called in the wrong order");
      last->second = piece.call->position();
    }
  }
  for (const Stream& other : others_) {
    expect_ok(other.wait(), "waiting for a stream beside others that fail");
  }
  for (std::size_t i = 0; i < 3 && !points_.empty(); ++i) {
    points_[random_.below(points_.size())]->check_outcome(
        random_.chance(2), ", after its stream did other work or was destroyed");
  }
}

// The times from the events of a stream to its last event fall, and none is longer than this round.
void Outcomes::check_times() const {
  constexpr std::uint64_t kExactness = 10'000;  // ns
  if (!plugin_.has<&yoke_stream_api::event_elapsed>()) {
    return;
  }
  const std::uint64_t most = ns_since(begin_) * 21 / 20 + kMillisecond;
  for (const auto& lane : lanes_) {
    const Event* last = nullptr;
    std::uint64_t later = 0;
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      std::uint64_t ns = 0;
      if (piece->lane != lane.get() || piece->kind != Piece::Kind::kRecord || piece->code != YOKE_STATUS_OK ||
          !piece->point->event.elapsed_since(piece->point->event, ns).ok()) {
        continue;  // without a time
      }
      last = last == nullptr ? &piece->point->event : last;
      ns = last->ns_since(piece->point->event);
      check(ns <= most && ns + kExactness >= later, "event_elapsed returned ", ns,
            " ns from an event of a stream to a later one; the time is ", later,
            " ns from another event between them, and that of all work less than ", most, " ns");
      later = ns;
    }
  }
}

void Outcomes::check_memory() const {
  const auto same = [](const Bytes& now, const Bytes& wanted, const std::vector<bool>& known) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (known[i] && now[i] != wanted[i]) {
        return false;
      }
    }
    return true;
  };
  for (const Piece& piece : pieces_) {
    check(!piece.wanted || same(piece.bytes, *piece.wanted, piece.is_known), "a to_host of ",
          piece.bytes.size(), " bytes on ",
          piece.code == YOKE_STATUS_OK ? "one of several streams returned other bytes than the work "
                                         "before it wrote"
                                       : "a stream that has failed wrote its target");
  }
  for (const auto& lane : lanes_) {
    if (lane->home->is_aborted) {
      continue;  // it may refuse copies
    }
    check(same(lane->buffer.contents(), lane->expected, lane->known),
          "the buffer of one of several streams, of which some fail, has wrong contents");
    if (lane->run && lane->output != Lane::Output::kUnknown) {
      const bool is_written = lane->output == Lane::Output::kWritten;
      const Bytes wanted = is_written ? bytes_of_floats(lane->home->program->results(SmallRun::start()))
                                      : Bytes(lane->run->y.byte_count());
      check(lane->run->y.contents() == wanted, "the output of a launch that was ",
            is_written ? "queued" : "skipped",
            " on one of several streams, of which some fail, has wrong contents");
    }
  }
}

}  // namespace yoke::conformance
