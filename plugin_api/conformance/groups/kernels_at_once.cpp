// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/kernels_at_once.cpp: more kernels than a device has threads, all ready to run at once.
#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <string_view>

#include "groups.h"
#include "held.h"
#include "program/run/launch.h"

namespace yoke::conformance {
namespace {

// Statements large enough that a backend divides them among threads. x has 128 * 1024 elements.
struct LargeForm {
  std::string_view tensors;
  std::string_view statement;
  std::uint64_t results;
};
constexpr std::uint64_t kElements = 131'072;
constexpr LargeForm kLargeForms[] = {
    {"arg x : f32[131072] in\n arg y : f32[131072] out\n", "y[i] = x[i] + 1\n", kElements},
    {"arg x : f32[512, 256] in\n arg y : f32[512] out\n", "y[i] = sum[j] x[i, j]\n", 512},
    {"arg x : f32[131072] in\n arg y : f32[] out\n", "y[] = max[i] x[i]\n", 1},
    {"arg x : f32[1024, 128] in\n arg y : f32[128, 128] out\n", "y[i, j] = sum[k:50] x[i + 7, k] * x[k, j]\n",
     16'384}};

float element(std::uint64_t i) {
  return static_cast<float>(i * 7 % 11) - 5;
}

std::vector<float> expected(std::size_t form) {
  std::vector<float> y(kLargeForms[form].results);
  for (std::uint64_t i = 0; i < y.size(); ++i) {
    if (form == 0) {
      y[i] = element(i) + 1;
    } else if (form == 2) {
      y[i] = 5;
    } else {
      for (std::uint64_t k = 0; k < (form == 1 ? 256U : 50U); ++k) {
        y[i] +=
            form == 1 ? element(i * 256 + k) : element((i / 128 + 7) * 128 + k) * element(k * 128 + i % 128);
      }
    }
  }
  return y;
}

// The forms that the backend supports, and many routines of them.
class LargeKernels {
 public:
  LargeKernels(Device& device, std::size_t count) : device_(device), x_(device, kElements * sizeof(float)) {
    device.plugin().table<yoke_program_api>();
    std::vector<float> x(kElements);
    for (std::uint64_t i = 0; i < kElements; ++i) {
      x[i] = element(i);
    }
    x_.write(0, std::as_bytes(std::span(x)));
    std::string reason;
    for (std::size_t form = 0; form < std::size(kLargeForms); ++form) {
      const std::string bytes = text("yoke.program 1\nprogram large", form, "() {\n ",
                                     kLargeForms[form].tensors, " ", kLargeForms[form].statement, "}\n");
      try {
        require_supported(device, bytes, 1);
      } catch (const Unsupported& missing) {
        reason = missing.what();
        continue;
      }
      codes_.push_back({form, compile(device, bytes), expected(form)});
    }
    if (codes_.empty()) {
      unsupported(reason);
    }
    std::vector<std::size_t> used;
    std::size_t fastest = 0;
    std::uint64_t least = UINT64_MAX;
    for (std::size_t known = 0; known < codes_.size(); ++known) {
      const std::uint64_t time = launch_time(known);
      if (time < kSlow) {
        used.push_back(known);
      }
      fastest = time < least ? known : fastest;
      least = std::min(least, time);
    }
    if (used.empty()) {
      used.push_back(fastest);
    }
    for (std::size_t i = 0; i < count; ++i) {
      add(runs_.emplace_back(), used[i % used.size()]);
    }
  }

  std::size_t count() const { return runs_.size(); }
  void clear() {
    for (const Run& run : runs_) {
      run.y.write(0, Bytes(run.y.byte_count(), std::byte{0xff}));
    }
  }
  void queue(std::size_t i, yoke_stream* stream) const {
    expect_ok(device_.plugin().routine_launch(stream, runs_[i].routine.get(), {}), "queueing a launch");
  }
  void check_results(const std::string& what) const {
    for (const Run& run : runs_) {
      const Known& known = codes_[run.known];
      std::vector<float> y(known.y.size());
      run.y.read(0, std::as_writable_bytes(std::span(y)));
      check(y == known.y, "the statement ", kLargeForms[known.form].statement, "has a wrong result ", what);
    }
  }

 private:
  struct Known {
    std::size_t form;
    Code code;
    std::vector<float> y;
  };
  struct Run {
    std::size_t known = 0;
    Buffer y;
    Buffer workspace;
    Routine routine;
  };

  static constexpr std::uint64_t kSlow = 30 * kMillisecond;  // an interpreter may take longer

  void add(Run& run, std::size_t known) const {
    run.known = known;
    run.y = Buffer(device_, codes_[known].y.size() * sizeof(float));
    run.workspace = workspace_for(device_, codes_[known].code);
    const yoke_binding bindings[] = {binding(x_), binding(run.y)};
    run.routine = link(device_.plugin(), codes_[known].code, 0, bindings,
                       run.workspace.get() == nullptr ? yoke_binding{} : binding(run.workspace));
  }
  // Of the second launch: the first one may load code.
  std::uint64_t launch_time(std::size_t known) const {
    Run run;
    add(run, known);
    launch(device_.plugin(), run.routine);
    const auto begin = Clock::now();
    launch(device_.plugin(), run.routine);
    return static_cast<std::uint64_t>(ns_since(begin));
  }

  Device& device_;
  Buffer x_;
  std::vector<Known> codes_;
  std::deque<Run> runs_;
};

// More kernels than a pool has threads, each on its own stream. They become ready at the same time.
void many_kernels(Kit& kit) {
  constexpr std::size_t kStreams = 72;
  Device& device = kit.device();
  kit.plugin().table<yoke_stream_api>();
  LargeKernels kernels(device, kStreams);
  std::deque<Stream> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.emplace_back(device);
  }
  for (int round = 0; round < 2 * kit.effort(); ++round) {
    kernels.clear();
    {
      const Held held(device);
      for (std::size_t i = 0; i < kStreams; ++i) {
        if (round % 2 == 0) {
          held.hold(streams[i]);
        }
        kernels.queue(i, streams[i].get());
      }
    }
    for (const Stream& stream : streams) {
      expect_ok(stream.wait(), text("waiting for one of ", kStreams, " streams that run kernels"));
    }
    kernels.check_results(text("when ", kStreams, " streams run kernels at the same time"));
  }
}

void many_launches(Kit& kit) {
  constexpr unsigned kThreads = 40;
  LargeKernels kernels(kit.device(), kThreads);
  for (int round = 0; round < 2 * kit.effort(); ++round) {
    kernels.clear();
    run_threads(kThreads, [&](unsigned number) { kernels.queue(number, nullptr); });
    kernels.check_results(text("when ", kThreads, " threads launch at the same time"));
  }
}

}  // namespace

std::vector<Test> kernels_on_streams_tests() {
  return {{"many-kernels",
           "kernels on 72 streams that become ready at the same time all run, with the right results",
           {18, 20},
           many_kernels,
           3}};
}

std::vector<Test> kernels_on_threads_tests() {
  return {{"many-kernels",
           "kernels that 40 threads launch at the same time all run, with the right results",
           {20},
           many_launches,
           3}};
}

}  // namespace yoke::conformance
