// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine_graph.cpp: launches and copies on several streams, handles and threads, ordered
// by events, while routines and codes come and go.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "groups.h"
#include "held.h"
#include "square_forms.h"

namespace yoke::conformance {
namespace {

class Graph {
 public:
  Graph(Kit& kit, Random& random)
      : plugin_(kit.plugin()),
        device_(kit.device()),
        random_(random),
        codes_(device_, true),
        second_(another_handle(kit)),
        codes_of_second_(second_, true) {
    for (int i = 0; i < 6; ++i) {
      Memory& memory = memories_.emplace_back();
      memory.offset = YOKE_BUFFER_ALIGNMENT * random.below(3);
      memory.buffer = Buffer(i % 3 == 2 ? second_ : device_, memory.offset + kBytes);
      memory.values = draw();
      memory.buffer.write(memory.offset, std::as_bytes(std::span(memory.values)));
    }
    for (const auto* codes : {&codes_, &codes_of_second_}) {
      for (const SquareCodes::Known& known : codes->all) {
        workspace_bytes_ =
            std::max(workspace_bytes_, describe_entry(plugin_, known.code).workspace_byte_count);
      }
    }
    for (int i = 0; i < 2; ++i) {
      memories_.emplace_back().buffer = Buffer(device_, workspace_bytes_);  // a workspace
    }
    for (int i = 0; i < 5; ++i) {
      streams_.push_back(std::make_unique<Stream>(i < 3 ? device_ : second_));
    }
    for (int i = 0; i < 6; ++i) {
      add_run();
    }
  }

  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }
  // With `may_wait`, also work for which the host waits for other work.
  void step(bool may_wait) {
    switch (may_wait ? random_.below(12) : 4 + random_.below(8)) {
      case 0:
        return replace_run();
      case 1:
        return renew_code();
      case 2:
        return renew_stream();
      case 3:
        return launch_now();
      case 4:
      case 5:
        return send();
      case 6:
        return receive();
      default:
        return run();
    }
  }
  void finish() {
    for (const auto& stream : streams_) {
      stream->synchronize();
    }
    check_received();
    for (std::size_t i = 0; i < kMemories; ++i) {
      std::vector<float> now(kSquareCount);
      memories_[i].buffer.read(memories_[i].offset, std::as_writable_bytes(std::span(now)));
      check(now == memories_[i].values, "memory ", i,
            " has wrong contents after launches and copies on several streams");
    }
  }

 private:
  static constexpr std::size_t kMemories = 6;
  static constexpr std::uint64_t kBytes = kSquareCount * sizeof(float);
  // Arguments, then workspaces: `last` is the event after the last use.
  struct Memory {
    Buffer buffer;
    std::uint64_t offset = 0;
    std::vector<float> values;
    Event last;
  };
  struct Run {
    std::size_t form = 0;
    std::size_t x = 0;
    std::size_t y = 0;
    std::size_t scalar = 0;  // the first element of this memory
    std::size_t workspace = 0;
    Routine routine;
  };
  struct Received {
    std::vector<float> got;
    std::vector<float> expected;
  };

  std::vector<float> draw() {
    std::vector<float> values(kSquareCount);
    for (float& value : values) {
      value = static_cast<float>(random_.between(-9, 9));
    }
    return values;
  }
  Run made() {
    SquareCodes& codes = random_.chance(3) ? codes_of_second_ : codes_;
    const SquareCodes::Known& known = codes.all[random_.below(codes.all.size())];
    Run run;
    run.form = known.form;
    run.x = random_.below(kMemories);
    run.y = (run.x + 1 + random_.below(kMemories - 1)) % kMemories;
    run.workspace = kMemories + random_.below(2);
    const bool needs = describe_entry(plugin_, known.code).workspace_byte_count != 0;
    run.scalar = (run.y + 1 + random_.below(kMemories - 1)) % kMemories;
    std::vector<yoke_binding> bindings = {bound(run.x), bound(run.y)};
    if (kSquareForms[run.form].has_scalar) {
      const Memory& scalar = memories_[run.scalar];
      bindings.insert(bindings.begin() + 1, {scalar.buffer.get(), scalar.offset, sizeof(float), 0});
    }
    run.routine = link(plugin_, known.code, 0, bindings,
                       needs ? binding(memories_[run.workspace].buffer) : yoke_binding{});
    return run;
  }
  yoke_binding bound(std::size_t i) const {
    return {memories_[i].buffer.get(), memories_[i].offset, kBytes, 0};
  }
  void add_run() { runs_.push_back(made()); }
  Run& some_run() { return runs_[random_.below(runs_.size())]; }
  void use(const Stream& stream, std::size_t memory) {
    if (memories_[memory].last.get() != nullptr) {
      stream.wait_for(memories_[memory].last);
    }
  }
  // By the host.
  void await(const Memory& memory) {
    if (memory.last.get() != nullptr) {
      expect_ok(memory.last.wait(), "waiting for an event");
    }
  }
  Stream& some_stream() { return *streams_[random_.below(streams_.size())]; }

  static std::array<std::size_t, 4> used_by(const Run& one) {
    return {one.x, one.y, one.scalar, one.workspace};
  }
  void launch_on(yoke_stream* stream, const Run& one) {
    const auto by = static_cast<std::int64_t>(random_.below(4));
    const auto queue = [&](unsigned) { SquareCodes::queue(plugin_, stream, one.routine, one.form, by); };
    random_.chance(8) ? run_threads(1, queue) : queue(0);
    memories_[one.y].values =
        square_result(one.form, memories_[one.x].values, by, memories_[one.scalar].values[0]);
  }
  void run() {
    const Run& one = some_run();
    const Stream& stream = some_stream();
    for (const std::size_t memory : used_by(one)) {
      use(stream, memory);
    }
    launch_on(stream.get(), one);
    for (const std::size_t memory : used_by(one)) {
      memories_[memory].last = stream.record();
    }
  }
  // With a NULL stream, while other memory is in use.
  void launch_now() {
    const Run& one = some_run();
    for (const std::size_t memory : used_by(one)) {
      await(memories_[memory]);
    }
    launch_on(nullptr, one);
  }
  // The launches of the old routine are done; others are not.
  void replace_run() {
    Run& one = some_run();
    await(memories_[one.y]);
    if (random_.chance(2)) {
      one.routine.reset();
      one = made();
    } else {
      Run other = made();  // maybe from the same code
      one = std::move(other);
    }
  }
  // Routines of the old code stay valid, also while they run.
  void renew_code() {
    auto& codes = (random_.chance(2) ? codes_ : codes_of_second_);
    SquareCodes::Known& known = codes.all[random_.below(codes.all.size())];
    known.code.reset();
    known.code = compile(&codes == &codes_ ? device_ : second_, SquareCodes::text_of(known.form));
  }
  void renew_stream() {
    auto& stream = streams_[random_.below(streams_.size())];
    stream->synchronize();
    stream = std::make_unique<Stream>(random_.chance(2) ? device_ : second_);
  }
  void send() {
    const std::size_t memory = random_.below(kMemories);
    Stream& stream = some_stream();
    use(stream, memory);
    memories_[memory].values = draw();
    const auto bytes = std::as_bytes(std::span(memories_[memory].values));
    stream.write(memories_[memory].buffer, memories_[memory].offset, {bytes.begin(), bytes.end()});
    memories_[memory].last = stream.record();
  }
  void receive() {
    const std::size_t memory = random_.below(kMemories);
    const Stream& stream = some_stream();
    use(stream, memory);
    Received& one =
        received_.emplace_back(Received{std::vector<float>(kSquareCount), memories_[memory].values});
    stream.read(memories_[memory].buffer, memories_[memory].offset,
                std::as_writable_bytes(std::span(one.got)));
    memories_[memory].last = stream.record();
  }
  void check_received() {
    for (const Received& one : received_) {
      check(one.got == one.expected,
            "a to_host among launches on several streams returned other numbers than the work "
            "before it had written");
    }
    received_.clear();
  }

  const Plugin& plugin_;
  Device& device_;
  Random& random_;
  SquareCodes codes_;
  Device second_;  // another handle, opened when it is known that the backend supports the codes
  SquareCodes codes_of_second_;
  std::uint64_t workspace_bytes_ = 0;
  std::deque<Memory> memories_;
  std::deque<Run> runs_;
  std::deque<Received> received_;
  std::vector<std::unique_ptr<Stream>> streams_;  // after everything that their work uses
};

void graph(Kit& kit) {
  constexpr int kSteps = 250;
  const int graphs = 4 * kit.effort();
  kit.plugin().table<yoke_stream_api>();
  kit.plugin().table<yoke_program_api>();
  Random random = kit.random();
  for (int i = 0; i < graphs; ++i) {
    kit.progress(text("graph ", i, " of ", graphs));
    Graph one(kit, random);
    if (i % 2 == 0) {
      const Held held(kit.device());
      for (const auto& stream : one.streams()) {
        held.hold(*stream);
      }
      for (int step = 0; step < kSteps; ++step) {
        one.step(/*may_wait=*/false);
      }
    }
    for (int step = 0; step < kSteps; ++step) {
      one.step(/*may_wait=*/true);
    }
    one.finish();
  }
  kit.note(text(graphs, " graphs of ", kSteps, " steps"));
}

}  // namespace

std::vector<Test> routine_graph_tests() {
  return {
      {"graph",
       "launches and copies on several streams, handles and threads have the results of their order while "
       "routines, codes and streams are replaced",
       {14, 18, 26, 53, 54},
       graph,
       2}};
}

}  // namespace yoke::conformance
