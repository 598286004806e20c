// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/outcomes.h: work on several streams, with the error and the bytes that it must leave.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host_callback.h"
#include "kit.h"
#include "small_program.h"

namespace yoke::conformance {

inline constexpr std::byte kUnread{0xc3};                        // before a to_host
inline constexpr std::int32_t kFault = YOKE_STATUS_UNAVAILABLE;  // of a copy or launch

// A device or handle with a program, if it runs one.
struct Home {
  explicit Home(Device& of);
  Device& device;
  std::optional<SmallProgram> program;
  Code code;
  bool is_aborted = false;
};

// An event and the error of the work before it.
struct Point {
  Event event;
  std::int32_t code = YOKE_STATUS_OK;
  // Waits or queries; fails unless the result and the state are those of `code`.
  void check_outcome(bool polls, const char* what) const;
};

// A stream, and memory that only its work writes, from front to back.
struct Lane {
  explicit Lane(Home& of);
  void renew();         // replaces the stream; precondition: it has no work
  void clear_output();  // precondition: as renew

  static constexpr std::uint64_t kBytes = 1U << 16U;
  Home* home;
  Buffer buffer;
  Bytes expected;           // of the buffer
  std::vector<bool> known;  // whether a byte is defined
  std::optional<SmallRun> run;
  enum class Output { kClear, kWritten, kUnknown } output = Output::kClear;  // of the program
  std::uint64_t frozen = 0;            // the end of what other lanes may read
  std::uint64_t last = 0;              // the begin of the last send
  std::uint64_t at = 0;                // the end of what this round has written
  std::int32_t code = YOKE_STATUS_OK;  // the error of the stream before this round
  std::int32_t now = YOKE_STATUS_OK;   // its error after the work queued so far, without aborts
  bool is_aborted = false;             // in this round
  std::unique_ptr<Stream> stream;
};

// One piece of work. Its results are known when all of its round is queued, because an abort comes before them.
struct Piece {
  enum class Kind { kSend, kPull, kReceive, kRecord, kWait, kCall, kLaunch };
  Kind kind = Kind::kSend;
  Lane* lane = nullptr;
  bool fails = false;                  // by a fault
  std::int32_t code = YOKE_STATUS_OK;  // of the work before it
  std::uint64_t offset = 0;
  Bytes bytes{};  // sent; or received
  bool is_filled = false;
  std::optional<Bytes> wanted{};  // of a receive; nothing if any bytes may arrive
  std::vector<bool> is_known{};   // which of them are defined
  const Lane* source = nullptr;
  std::uint64_t from = 0;
  std::shared_ptr<Point> point{};
  std::unique_ptr<HostCallback> call{};
};

// Rounds of random work on lanes that are held back, so that an abort comes before all of it.
class Outcomes {
 public:
  Outcomes(Kit& kit, Random& random);
  // One round. With `is_calm`, nothing fails.
  void play(int pieces, bool is_calm = false);
  void abort_last_home();

 private:
  void queue_any();
  void queue(Piece::Kind kind, Lane& lane);
  void send(Piece& piece);
  void queue_source(const Piece& piece);
  void pull(Piece& piece);
  void wait(Piece& piece, const std::shared_ptr<Point>& point);
  void record(Piece& piece);
  bool arm(const Lane& lane, std::int32_t kind);
  void pass_by();
  void check_pending();
  bool abort_stream(const Stream& stream);
  void abort_some();
  void settle();
  static void settle_memory(Piece& piece);
  void check_waits();
  void check_times() const;
  void check_memory() const;
  void next_round();
  std::shared_ptr<Point> some_point();
  Lane& some_lane() { return *lanes_[random_.below(lanes_.size())]; }

  Kit& kit_;
  const Plugin& plugin_;
  Random& random_;
  Clock::time_point begin_;  // of this round
  bool is_long_ = false;     // so that pieces must be small
  bool may_fault_ = false;
  bool may_abort_ = false;
  bool has_faults_;
  bool has_aborts_;
  bool has_calls_;
  bool blocks_copies_;
  std::deque<Device> devices_;
  std::deque<Home> homes_;
  std::vector<std::shared_ptr<Point>> points_;  // of all rounds
  std::deque<Piece> pieces_;                    // of this round
  std::deque<Bytes> scratch_;                   // sources; the last one is used again when its copy is staged
  std::deque<Stream> others_;                   // of this round
  std::vector<std::unique_ptr<Lane>> lanes_;    // after everything that their work uses
};

}  // namespace yoke::conformance
