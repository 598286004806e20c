// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/stream_graph.cpp: random graphs of
// copies on several streams, ordered by events.
#include <algorithm>
#include <array>

#include "groups.h"
#include "modelled.h"

namespace yoke::conformance {
namespace {

// A random graph of copies on several streams. Events order
// conflicting copies; all others may run at any time.
class RandomGraph {
 public:
  RandomGraph(Kit& kit, Random& random) : random_(random) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams_.emplace_back(kit.device(), static_cast<std::int32_t>(random.between(-1, 1)));
    }
    for (std::size_t i = 0; i < kBuffers; ++i) {
      buffers_.emplace_back(kit.device(), random, kBytes);
    }
  }

  void step() {
    const std::size_t s = random_.below(kStreams);
    const std::size_t target = random_.below(kBuffers);
    const std::size_t source = (target + 1 + random_.below(kBuffers - 1)) % kBuffers;
    const std::uint64_t byte_count = random_.chance(3) ? kBytes / 2 : random_.below(5000);
    const std::uint64_t to = random_.below(kBytes - byte_count + 1);
    const std::uint64_t from = random_.below(kBytes - byte_count + 1);
    before(s, target, true);
    if (random_.chance(3)) {
      Bytes sent = random_.bytes(byte_count);
      std::copy(sent.begin(), sent.end(), buffers_[target].bytes.begin() + static_cast<std::ptrdiff_t>(to));
      streams_[s].write(buffers_[target].buffer, to, std::move(sent));
    } else {
      before(s, source, false);
      streams_[s].copy(buffers_[target].buffer, to, buffers_[source].buffer, from, byte_count);
      std::copy_n(buffers_[source].bytes.begin() + static_cast<std::ptrdiff_t>(from), byte_count,
                  buffers_[target].bytes.begin() + static_cast<std::ptrdiff_t>(to));
      after(s, source, false);
    }
    after(s, target, true);
  }

  void check_all() {
    for (const Stream& stream : streams_) {
      stream.synchronize();
    }
    for (const Modelled& each : buffers_) {
      each.check_same("after a graph of copies on several streams");
    }
  }

 private:
  static constexpr std::size_t kStreams = 5;
  static constexpr std::size_t kBuffers = 6;
  static constexpr std::uint64_t kBytes = 1U << 20U;

  // Waits for the conflicting work of other streams: read after write, write after read, write after write.
  void before(std::size_t s, std::size_t buffer, bool writes) {
    for (std::size_t other = 0; other < kStreams; ++other) {
      if (other != s) {
        wait(s, writers_[buffer][other]);
        if (writes) {
          wait(s, readers_[buffer][other]);
        }
      }
    }
  }
  void wait(std::size_t s, const Event& event) {
    if (event.get() != nullptr) {
      streams_[s].wait_for(event);
    }
  }
  void after(std::size_t s, std::size_t buffer, bool writes) {
    (writes ? writers_ : readers_)[buffer][s] = streams_[s].record();
  }

  Random& random_;
  std::vector<Stream> streams_;
  std::vector<Modelled> buffers_;
  std::array<std::array<Event, kStreams>, kBuffers> writers_;
  std::array<std::array<Event, kStreams>, kBuffers> readers_;
};

void random_graphs(Kit& kit) {
  constexpr int kGraphs = 12;
  constexpr int kSteps = 80;
  Random random = kit.random();
  for (int g = 0; g < kGraphs; ++g) {
    kit.progress(text("graph ", g, " of ", kGraphs));
    RandomGraph graph(kit, random);
    for (int i = 0; i < kSteps; ++i) {
      graph.step();
    }
    graph.check_all();
  }
  kit.note(text(kGraphs, " graphs of ", kSteps, " copies on 5 streams"));
}

}  // namespace

std::vector<Test> stream_graph_tests() {
  return {
      {"random-graphs",
       "random graphs of copies on five streams, ordered by events, have the same result as on one stream",
       {18},
       random_graphs,
       2},
  };
}

}  // namespace yoke::conformance
