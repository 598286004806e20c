// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/kernels_at_once.cpp: more kernels than a device has threads, all ready to run at once;
// kernels on several devices that wait for each other.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

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
    const auto begin = Clock::now();
    for (const Run& run : runs_) {
      launch(device.plugin(), run.routine);
    }
    all_ns_ = ns_since(begin);
  }

  std::size_t count() const { return runs_.size(); }
  // How long all kernels may take together: many times as long as one after the other.
  std::uint64_t patience_ns() const {
    return std::min(longest_wait_ns(), 5000 * kMillisecond + 30 * all_ns_);
  }
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
  std::uint64_t all_ns_ = 0;
};

// Fails the test if it lives too long, because launches with a NULL stream have no deadline.
class Watch {
 public:
  Watch(std::uint64_t limit_ns, const std::string& otherwise)
      : thread_([this, limit_ns, otherwise] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [&] { return is_over_; })) {
            announce(otherwise);
            give_up();
          }
        }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
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
      expect_ok(stream.wait(kernels.patience_ns()),
                text("waiting for one of ", kStreams, " streams that run kernels"));
    }
    kernels.check_results(text("when ", kStreams, " streams run kernels at the same time"));
  }
}

void many_launches(Kit& kit) {
  constexpr unsigned kThreads = 40;
  LargeKernels kernels(kit.device(), kThreads);
  for (int round = 0; round < 2 * kit.effort(); ++round) {
    kernels.clear();
    const Watch watch(kernels.patience_ns(), text("launches of ", kThreads, " threads do not end"));
    run_threads(kThreads, [&](unsigned number) { kernels.queue(number, nullptr); });
    kernels.check_results(text("when ", kThreads, " threads launch at the same time"));
  }
}

// Chains of kernels on streams of several devices. Each kernel adds 1 to what the kernel before it left on another
// device, and also waits for the chain beside its own.
class Chains {
 public:
  static constexpr std::size_t kChains = 5;
  static constexpr std::string_view kText =
      "yoke.program 1\nprogram step() {\n  arg x : f32[131072] in\n  arg y : f32[131072] out\n"
      "  y[i] = x[i] + 1\n}\n";

  explicit Chains(Kit& kit) : plugin_(kit.plugin()) {
    plugin_.table<yoke_stream_api>();
    plugin_.need<&yoke_backend_api::device_to_device>();
    const std::uint32_t count = plugin_.some_devices();
    for (std::uint32_t i = 0; i < std::clamp(count, 2U, 3U); ++i) {  // two handles of a single device
      // All with the options, which may decide what the devices compile.
      devices_.emplace_back(kit, kit.plugin(), (kit.settings().device + i) % count, kit.device_options());
    }
    for (Device& device : devices_) {
      const Code code = compile(device, kText);
      auto& places = places_.emplace_back();
      for (std::size_t chain = 0; chain < kChains; ++chain) {
        add(places.emplace_back(), device, code);
      }
    }
    const auto begin = Clock::now();
    for (std::size_t step = 0; step < places_.size(); ++step) {
      queue_step(0, step);
      place(0, step).stream->synchronize();
    }
    const std::uint64_t step_ns = ns_since(begin) / places_.size();
    length_ = step_ns < 5 * kMillisecond ? 16 : step_ns < 50 * kMillisecond ? 6 : 3;
    patience_ns_ = std::min(longest_wait_ns(), 5000 * kMillisecond + 30 * step_ns * length_ * kChains);
  }

  // The second kernel waits for another device before the first one can, and waits for the first one.
  void wait_in_other_order() {
    const Stream& first = *places_[1][0].stream;
    const Stream& second = *places_[0][0].stream;
    const Held held(devices_[1]);
    held.hold(first);
    first.wait_for(places_[0][1].stream->record());
    queue_kernel(places_[1][0]);
    second.wait_for(first.record());
    queue_kernel(places_[0][0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // meanwhile the second one begins to wait
    held.open();
    expect_ok(second.wait(patience_ns_),
              "waiting for two kernels that wait for each other's devices, the second one first");
  }

  void run(bool is_held) {
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      std::vector<float> x(kElements);
      for (std::uint64_t i = 0; i < kElements; ++i) {
        x[i] = element(i) + static_cast<float>(chain);
      }
      places_[chain % places_.size()][chain].x.write(0, std::as_bytes(std::span(x)));
    }
    {
      const Held held(devices_[0]);
      for (std::size_t chain = 0; is_held && chain < kChains; ++chain) {
        held.hold(*places_[chain % places_.size()][chain].stream);
      }
      for (std::size_t step = 0; step < length_; ++step) {
        for (std::size_t chain = 0; chain < kChains; ++chain) {
          queue_step(chain, step);
        }
      }
    }
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      const Place& last = place(chain, length_ - 1);
      expect_ok(last.stream->wait(patience_ns_),
                "waiting for kernels on several devices that wait for each other");
      std::vector<float> y(kElements);
      last.y.read(0, std::as_writable_bytes(std::span(y)));
      for (std::uint64_t i = 0; i < kElements; ++i) {
        check_equal(y[i], element(i) + static_cast<float>(chain + length_), "element ", i, " after ", length_,
                    " kernels, in turn on ", places_.size(), " devices or handles,");
      }
    }
  }

 private:
  struct Place {
    Buffer x;
    Buffer y;
    Buffer workspace;
    Routine routine;
    std::unique_ptr<Stream> stream;
  };

  void add(Place& place, Device& device, const Code& code) const {
    place.x = Buffer(device, kElements * sizeof(float));
    place.y = Buffer(device, kElements * sizeof(float));
    place.workspace = workspace_for(device, code);
    const yoke_binding bindings[] = {binding(place.x), binding(place.y)};
    place.routine = link(plugin_, code, 0, bindings,
                         place.workspace.get() == nullptr ? yoke_binding{} : binding(place.workspace));
    place.stream = std::make_unique<Stream>(device);
  }
  const Place& place(std::size_t chain, std::size_t step) const {
    return places_[(chain + step) % places_.size()][chain];
  }
  void queue_kernel(const Place& place) const {
    expect_ok(plugin_.routine_launch(place.stream->get(), place.routine.get(), {}), "queueing a launch");
  }
  void queue_step(std::size_t chain, std::size_t step) {
    const Place& here = place(chain, step);
    if (step != 0) {
      const Place& before = place(chain, step - 1);
      here.stream->wait_for(last_[chain]);
      if (const Event& beside = last_[(chain + 1) % kChains]; beside.get() != nullptr) {
        here.stream->wait_for(beside);
      }
      here.stream->copy(here.x, 0, before.y, 0, here.x.byte_count());
    }
    queue_kernel(here);
    last_[chain] = here.stream->record();
  }

  const Plugin& plugin_;
  std::size_t length_ = 0;
  std::uint64_t patience_ns_ = 0;
  std::deque<Device> devices_;
  std::deque<std::deque<Place>> places_;  // by device and chain
  std::array<Event, kChains> last_;
};

void kernels_in_turn(Kit& kit) {
  require_supported(kit.device(), Chains::kText, 1);  // before other devices are open
  Chains chains(kit);
  for (int round = 0; round < 2 * kit.effort(); ++round) {
    chains.wait_in_other_order();
    chains.run(round % 2 == 0);
  }
}

}  // namespace

std::vector<Test> kernels_on_streams_tests() {
  return {{"many-kernels",
           "kernels on 72 streams that become ready at the same time all run, with the right results",
           {18, 20},
           many_kernels,
           3},
          {"kernels-in-turn",
           "chains of kernels on several devices, or handles, which wait for each other, run in their order",
           {18, 53, 55},
           kernels_in_turn}};
}

std::vector<Test> kernels_on_threads_tests() {
  return {{"many-kernels",
           "kernels that 40 threads launch at the same time all run, with the right results",
           {20},
           many_launches,
           3}};
}

}  // namespace yoke::conformance
