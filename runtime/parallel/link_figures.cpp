// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/link_figures.cpp: measures launches and links, and describes a group by them.
#include "parallel/link_figures.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "device/communicator.h"
#include "device/state.h"
#include "parallel/native.h"

namespace yoke {

namespace {

using Clock = std::chrono::steady_clock;
using Devices = std::vector<std::shared_ptr<Device>>;
using detail::LinkFigures;

constexpr std::chrono::seconds kDeadline(1);      // of each wait
constexpr std::chrono::milliseconds kEnough(20);  // no further pair is measured after this
constexpr std::size_t kMostPairs = 7;
constexpr std::uint64_t kSmall = 256;
constexpr std::uint64_t kLarge = std::uint64_t{4} << 20U;
constexpr double kCommand = 7e-7;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double power_of_two(double value) {
  return std::exp2(std::round(std::log2(value)));
}

// Memory on two devices, and a stream of the second one.
class Measurement {
 public:
  Measurement(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to)
      : stream_(Stream::create(to, "measurement")), from_(buffer(from)), to_(buffer(to)), local_(buffer(to)) {
    const std::uint64_t zero = 0;
    stream_->fill(to_, &zero, 1);
    stream_->fill(local_, &zero, 1);
    const auto there = Stream::create(from);
    there->fill(from_, &zero, 1);
    there->wait(kDeadline);
  }
  LinkFigures run() {
    try {
      return measured();
    } catch (const Error&) {
      stream_->abort();  // else the destructor would wait longer
      throw;
    }
  }

 private:
  LinkFigures measured() {
    constexpr int kMany = 16;
    const double one = best([&] { fill(1); });
    const double many = best([&] { fill(kMany); });
    const double launch = std::max((many - one) / (kMany - 1), 1e-7);
    const double memory = copy(local_, one).bandwidth;
    const auto [latency, bandwidth] = copy(from_, one);
    return {power_of_two(launch),
            power_of_two(2 * memory),
            {power_of_two(latency), power_of_two(bandwidth)},
            true};
  }
  static BufferView buffer(const std::shared_ptr<Device>& device) {
    return {std::make_shared<Buffer>(device, kLarge), 0, kLarge};
  }
  void fill(int count) {
    const std::uint64_t zero = 0;
    for (int i = 0; i < count; ++i) {
      stream_->fill({to_.buffer, 0, kSmall}, &zero, 1);
    }
  }
  // Latency, without the time of a call and a wait, and bytes per second.
  LinkCost copy(const BufferView& source, double call) {
    const auto seconds = [&](std::uint64_t byte_count) {
      return best([&] { stream_->copy({to_.buffer, 0, byte_count}, {source.buffer, 0, byte_count}); });
    };
    const double small = seconds(kSmall);
    const double large = seconds(kLarge);
    return {std::max(small - call, 1e-7), static_cast<double>(kLarge) / std::max(large - small, 1e-7)};
  }
  // The best of three times, after a first run that may set up what later runs use.
  double best(const std::function<void()>& queue) {
    double result = 1e9;
    for (int i = 0; i < 4; ++i) {
      const Clock::time_point start = Clock::now();
      queue();
      stream_->wait(kDeadline);
      result = i == 0 ? result : std::min(result, seconds_since(start));
    }
    return result;
  }

  std::shared_ptr<Stream> stream_;
  BufferView from_, to_, local_;
};

// Each device once, in order of the members.
Devices distinct_devices(std::span<const Context> members) {
  Devices devices;
  for (const Context& member : members) {
    const std::shared_ptr<Device>& device = member.stream()->device();
    if (std::none_of(devices.begin(), devices.end(), [&](const auto& d) { return d->is_same(*device); })) {
      devices.push_back(device);
    }
  }
  return devices;
}

bool reach_each_other(const Device& a, const Device& b) {
  return a.can_access(b) && b.can_access(a);
}

// Per device, the number of its node: its members reach each other's memory.
std::vector<std::uint32_t> nodes_of(const Devices& devices) {
  std::vector<std::uint32_t> nodes;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (std::uint32_t node = 0; nodes.size() == d; ++node) {
      bool fits = true;
      for (std::size_t other = 0; other < d; ++other) {
        fits = fits && (nodes[other] != node || reach_each_other(*devices[d], *devices[other]));
      }
      if (fits) {
        nodes.push_back(node);
      }
    }
  }
  return nodes;
}

bool has_fixed_native(std::span<const Context> members, const Devices& devices,
                      std::span<const std::int32_t> types) {
  if (devices.size() != members.size() || !detail::has_collectives(*devices[0])) {
    return false;
  }
  try {
    detail::check_native(members, types);
  } catch (const Error&) {
    return false;
  }
  return std::all_of(devices.begin(), devices.end(), [](const auto& device) {
    return detail::describe_collectives(*device).sum_order >= YOKE_SUM_ORDER_FIXED;
  });
}

void use_fixed(GroupCosts& costs, bool on_cpus, double members_per_device) {
  const double all = on_cpus ? 2e10 : 1e12;
  costs.launch = on_cpus ? 5e-6 : 4e-6;
  costs.memory = all / members_per_device;
  costs.near = {costs.has_one_memory ? 0 : 1e-6, costs.memory};
  costs.far = {2e-5, 5e9};
  costs.source = on_cpus ? "fixed for CPUs" : "fixed for one device";
}

// Takes the slowest of the figures of pairs of devices.
void use_measured(GroupCosts& costs, const Devices& devices, const std::vector<std::uint32_t>& nodes,
                  double members_per_device) {
  const Clock::time_point start = Clock::now();
  bool has_near = false;
  bool has_far = false;
  bool is_measured = true;
  costs.launch = 0;
  detail::RuntimeState& runtime = *devices[0]->backend()->state().runtime;
  std::call_once(runtime.links_once, [&] { runtime.links = std::make_shared<detail::LinkCache>(); });
  const auto take = [&](std::size_t a, std::size_t b) {
    const LinkFigures got = runtime.links->get(devices[a], devices[b]);
    const bool is_near = nodes[a] == nodes[b];
    LinkCost& link = is_near ? costs.near : costs.far;
    bool& has = is_near ? has_near : has_far;
    link =
        has ? LinkCost{std::max(link.latency, got.link.latency), std::min(link.bandwidth, got.link.bandwidth)}
            : got.link;
    costs.memory = costs.launch == 0 ? got.memory : std::min(costs.memory, got.memory);
    costs.launch = std::max(costs.launch, got.launch);
    has = true;
    is_measured = is_measured && got.is_measured;
  };
  // A pair of different nodes first.
  const auto other = std::find_if(nodes.begin(), nodes.end(), [&](auto node) { return node != nodes[0]; });
  if (other != nodes.end()) {
    take(0, static_cast<std::size_t>(other - nodes.begin()));
  }
  for (std::size_t d = 1; d < std::min(devices.size(), kMostPairs + 1); ++d) {
    if (d == 1 || Clock::now() - start < kEnough) {
      take(0, d);
    }
  }
  costs.near = has_near ? costs.near : costs.far;
  costs.memory /= members_per_device;
  costs.source = is_measured ? "measured" : "fixed, because measuring failed";
}

}  // namespace

LinkFigures detail::LinkCache::get(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to) {
  const auto identity = [](const Device& device) {
    return device.backend()->name() + " " + std::to_string(device.ordinal()) + " " + device.info().unique_id;
  };
  const std::lock_guard lock(mutex_);  // measurements would disturb each other
  const auto made = figures_.try_emplace({identity(*from), identity(*to)});
  LinkFigures& got = made.first->second;
  if (!made.second) {
    return got;
  }
  auto& logger = to->backend()->state().runtime->logger;
  const Clock::time_point start = Clock::now();
  try {
    got = Measurement(from, to).run();
    logger.log_composed(LogLevel::kDebug, [&] {
      return "merge.measure from=" + from->name() + " to=" + to->name() +
             " launch_us=" + std::to_string(got.launch * 1e6) +
             " latency_us=" + std::to_string(got.link.latency * 1e6) +
             " gigabytes_per_second=" + std::to_string(got.link.bandwidth / 1e9) +
             " took_ms=" + std::to_string(seconds_since(start) * 1e3);
    });
  } catch (const Error& error) {
    logger.log(LogLevel::kWarn, "merge.measure from=" + from->name() + " to=" + to->name() +
                                    " note=\"fixed figures are used instead\" reason=\"" + error.what() +
                                    "\"");
  }
  return got;
}

GroupCosts costs_of(std::span<const Context> members, std::span<const std::int32_t> types) {
  if (members.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "costs_of: the group has no members");
  }
  const Devices devices = distinct_devices(members);
  const std::vector<std::uint32_t> nodes = nodes_of(devices);
  GroupCosts costs;
  std::vector<std::size_t> counts(devices.size());
  for (const Context& member : members) {
    const auto device = static_cast<std::size_t>(
        std::find_if(devices.begin(), devices.end(),
                     [&](const auto& d) { return d->is_same(*member.stream()->device()); }) -
        devices.begin());
    costs.nodes.push_back(nodes[device]);
    counts[device] += 1;
  }
  const bool on_cpus = std::all_of(devices.begin(), devices.end(),
                                   [](const auto& device) { return device->info().kind == YOKE_DEVICE_CPU; });
  costs.has_one_memory = (devices.size() == 1 || on_cpus) && costs.is_one_node();
  costs.has_native = has_fixed_native(members, devices, types);
  costs.command = kCommand;
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  if (on_cpus || devices.size() == 1) {
    use_fixed(costs, on_cpus, on_cpus ? static_cast<double>(members.size()) : most);
  } else {
    use_measured(costs, devices, nodes, most);
  }
  return costs;
}

}  // namespace yoke
