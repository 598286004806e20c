// SPDX-License-Identifier: Apache-2.0
// tests/bench/simulate.cpp: how long merging, updating and publishing would take on many devices. The real
// StepPlan queues a step on a backend whose work takes no time; the clocks of its streams advance by the cost
// of each copy and launch, and a wait for an event takes the later clock.
#include <yoke/program/program.h>
#include <yoke/runtime/parallel.h>
#include <yoke/runtime/runtime.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

namespace sdk = yoke::sdk;

// Seconds, and bytes per second. Members are numbered by node: 0 to node_size - 1 are on the first one.
struct Machine {
  std::uint32_t members = 8;
  std::uint32_t node_size = 8;
  double launch = 4e-6;
  double memory = 2e12;          // bandwidth of a device's own memory
  double node_latency = 3e-6;    // between devices of a node, which read each other's memory in place
  double node_bandwidth = 2e11;  // each way, per device
  double network_latency = 8e-6;
  double network_bandwidth = 2.5e10;
};

// When each device's links are free again.
struct Links {
  std::vector<double> out, in;
};

class Cluster {
 public:
  explicit Cluster(const Machine& machine) : machine_(machine), links_{zeros(), zeros()} {}
  const Machine& machine() const { return machine_; }
  bool is_pending() const { return is_pending_; }
  void set_pending(bool pending) { is_pending_ = pending; }
  bool is_same_node(std::uint32_t a, std::uint32_t b) const {
    return a / machine_.node_size == b / machine_.node_size;
  }
  // Moves bytes between two devices; returns when they have arrived. A link carries one transfer at a time.
  double transfer(double start, std::uint32_t from, std::uint32_t to, std::uint64_t byte_count) {
    const bool near = is_same_node(from, to);
    const double busy =
        static_cast<double>(byte_count) / (near ? machine_.node_bandwidth : machine_.network_bandwidth);
    const double begin = std::max({start, links_.out[from], links_.in[to]});
    links_.out[from] = links_.in[to] = begin + busy;
    return begin + busy + (near ? machine_.node_latency : machine_.network_latency);
  }
  void finish(double time) { last_ = std::max(last_, time); }
  double restart() {
    links_ = {zeros(), zeros()};
    return std::exchange(last_, 0);
  }

 private:
  std::vector<double> zeros() const { return std::vector<double>(machine_.members); }
  Machine machine_;
  Links links_;
  bool is_pending_ = false;
  double last_ = 0;
};

class Event final : public sdk::Event {
 public:
  Event(Cluster& cluster, double time) : cluster_(cluster), time_(time) {}
  std::int32_t state() override { return cluster_.is_pending() ? YOKE_STATE_PENDING : YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  double time() const { return time_; }

 private:
  Cluster& cluster_;
  double time_;
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(Cluster& cluster) : cluster_(cluster) {}
  std::int32_t state() override { return cluster_.is_pending() ? YOKE_STATE_PENDING : YOKE_STATE_DONE; }
  void wait(std::uint64_t) override {}
  std::unique_ptr<sdk::Event> record(bool) override { return std::make_unique<Event>(cluster_, now); }
  void wait_event(sdk::Event& event) override { now = std::max(now, static_cast<Event&>(event).time()); }
  void advance_to(double time) {
    now = time;
    cluster_.finish(time);
  }
  double now = 0;

 private:
  Cluster& cluster_;
};

// Memory without bytes.
class Buffer final : public sdk::Buffer {
 public:
  Buffer(Cluster& cluster, std::uint32_t device) : cluster_(cluster), device_(device) {}
  std::uint32_t device() const { return device_; }
  std::int32_t from_host(sdk::Stream*, std::uint64_t, const void*, std::uint64_t) override {
    return YOKE_SOURCE_COPIED;
  }
  void to_host(sdk::Stream*, std::uint64_t, void*, std::uint64_t) override {}
  void fill(sdk::Stream*, std::uint64_t, std::uint64_t, std::span<const std::byte>) override {}
  void copy_from(sdk::Stream* stream, std::uint64_t, sdk::Buffer& source, std::uint64_t,
                 std::uint64_t byte_count) override {
    auto& on = static_cast<Stream&>(*stream);
    const double start = on.now + cluster_.machine().launch;
    on.advance_to(cluster_.transfer(start, static_cast<Buffer&>(source).device(), device_, byte_count));
  }

 private:
  Cluster& cluster_;
  std::uint32_t device_;
};

// Reads and writes each argument once. Those of other devices come over the links.
class Routine final : public sdk::Routine {
 public:
  Routine(Cluster& cluster, std::uint32_t device, const sdk::Entry& entry,
          std::span<const sdk::Binding> bindings)
      : cluster_(cluster) {
    for (std::size_t i = 0; i < bindings.size(); ++i) {
      const sdk::Argument& argument = entry.arguments[i];
      const std::uint32_t owner = static_cast<Buffer*>(bindings[i].buffer)->device();
      if (argument.access != YOKE_ACCESS_OUT) {
        uses_.push_back({owner, device, argument.byte_count});
      }
      if (argument.access != YOKE_ACCESS_IN) {
        uses_.push_back({device, owner, argument.byte_count});
      }
    }
  }
  void launch(sdk::Stream* stream, std::span<const std::int64_t>) override {
    auto& on = static_cast<Stream&>(*stream);
    const double start = on.now + cluster_.machine().launch;
    double local = start;
    double end = start;
    for (const Use& use : uses_) {
      if (use.from == use.to) {
        local += static_cast<double>(use.byte_count) / cluster_.machine().memory;
      } else {
        end = std::max(end, cluster_.transfer(start, use.from, use.to, use.byte_count));
      }
    }
    on.advance_to(std::max(local, end));
  }

 private:
  struct Use {
    std::uint32_t from, to;
    std::uint64_t byte_count;
  };
  Cluster& cluster_;
  std::vector<Use> uses_;
};

class Code final : public sdk::Code {
 public:
  Code(Cluster& cluster, std::uint32_t device, std::string_view text) : cluster_(cluster), device_(device) {
    for (const yoke::program::Program& program : sdk::read_program(text).programs) {
      entries_.push_back(sdk::entry_of(program));
      entries_.back().fingerprint = "simulated";
    }
  }
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding&) override {
    return std::make_unique<Routine>(cluster_, device_, entries_[entry], bindings);
  }

 private:
  Cluster& cluster_;
  std::uint32_t device_;
  std::vector<sdk::Entry> entries_;
};

class Device final : public sdk::Device {
 public:
  Device(Cluster& cluster, std::uint32_t number) : cluster_(cluster), number_(number) {}
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t, std::int32_t) override {
    return std::make_unique<Buffer>(cluster_, number_);
  }
  bool peer_access(sdk::Device& other) override {
    return cluster_.is_same_node(number_, static_cast<Device&>(other).number_);
  }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    return std::make_unique<Code>(cluster_, number_, text);
  }
  std::vector<sdk::Verdict> can_compile(std::string_view) override { return {}; }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t) override {
    return std::make_unique<Stream>(cluster_);
  }

 private:
  Cluster& cluster_;
  std::uint32_t number_;
};

Cluster* cluster = nullptr;  // of the backend that is entered next

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override { return {.streams = true, .programs = true, .peers = true}; }
  std::uint32_t device_count() override { return cluster_.machine().members; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override {
    sdk::DeviceInfo info;
    info.name = "simulated device";
    info.unique_id = "simulated:" + std::to_string(ordinal);
    return info;
  }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options&) override {
    return std::make_unique<Device>(cluster_, ordinal);
  }

 private:
  Cluster& cluster_ = *cluster;
};

}  // namespace

YOKE_SDK_PLUGIN(Backend, "simulated", "0.1.0", "yoke")

namespace {

// SGD with the sum of the gradients.
yoke::StepProgram sgd(std::uint32_t, std::int32_t, std::uint64_t count, std::uint32_t terms) {
  const std::string type = "f32[" + std::to_string(count) + "]";
  std::string text = "yoke.program 1\nprogram sgd() {\n  arg value : " + type + " inout\n";
  std::string sum = "0";
  for (std::uint32_t k = 0; k < terms; ++k) {
    const std::string gradient = "gradient_" + std::to_string(k);
    text += "  arg " + gradient + " : " + type + " in\n";
    sum += " + " + gradient + "[i]";
  }
  return {text + "  value[i] = value[i] - 0.1 * (" + sum + ")\n}\n", "sgd"};
}

// A runtime whose devices are the members of a group.
struct Group {
  explicit Group(const Machine& machine) : simulated(machine) {
    cluster = &simulated;
    yoke::RuntimeOptions options;
    options.search_environment = false;
    options.log_level = yoke::LogLevel::kError;
    runtime.emplace(options);
    runtime->register_backend("simulated", yoke_plugin_entry);
    const auto backend = runtime->backend("simulated");
    for (std::uint32_t k = 0; k < machine.members; ++k) {
      members.emplace_back(yoke::Stream::create(backend->open_device(k)));
    }
  }
  Cluster simulated;
  std::optional<yoke::Runtime> runtime;
  std::vector<yoke::Context> members;
};

// Seconds from the last gradient to the last parameter of one step.
double step_seconds(const Machine& machine, yoke::MergeStrategy strategy, std::uint64_t byte_count,
                    std::uint64_t bucket_byte_count) {
  Group group(machine);
  yoke::StepPlan plan(
      group.members, machine.members, {{"w", {YOKE_TYPE_F32, {byte_count / 4}}}}, {},
      {.merge = strategy, .bucket_byte_count = bucket_byte_count, .overlap = yoke::Overlap::kOff}, nullptr);
  const std::vector<yoke::SymbolTable> symbols(machine.members);
  plan.allocate();
  plan.allocate_gradients();
  plan.link(sgd, symbols);
  group.simulated.restart();
  group.simulated.set_pending(true);  // else later work would not wait for it
  plan.step(symbols);
  group.simulated.set_pending(false);
  return group.simulated.restart();
}

// Why a strategy is not simulated; empty: it is.
std::string left_out(const Machine& machine, yoke::MergeStrategy strategy) {
  constexpr std::uint32_t kLargestRing = 128;
  if (strategy == yoke::MergeStrategy::kDirect && machine.members > machine.node_size) {
    return "no shared memory";
  }
  if (strategy == yoke::MergeStrategy::kRing && machine.members > kLargestRing) {
    return "n x n commands";
  }
  return {};
}

nlohmann::json simulate(Machine machine, std::span<const std::uint32_t> sizes, std::uint64_t byte_count,
                        std::uint64_t bucket_byte_count) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::uint32_t size : sizes) {
    machine.members = size;
    nlohmann::json row = {{"members", size}};
    const Group group(machine);
    row["auto"] =
        yoke::merge_strategy_name(yoke::resolve_strategy(yoke::MergeStrategy::kAuto, group.members));
    for (const auto strategy : {yoke::MergeStrategy::kDirect, yoke::MergeStrategy::kOwner,
                                yoke::MergeStrategy::kTree, yoke::MergeStrategy::kRing}) {
      const std::string reason = left_out(machine, strategy);
      row[yoke::merge_strategy_name(strategy)] =
          reason.empty()
              ? nlohmann::json(step_seconds(machine, strategy, byte_count, bucket_byte_count) * 1e3)
              : nlohmann::json(reason);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print(const nlohmann::json& rows) {
  std::printf("%8s %18s %18s %18s %18s   %s\n", "members", "direct", "owner", "tree", "ring", "auto");
  for (const nlohmann::json& row : rows) {
    std::printf("%8u", row["members"].get<unsigned>());
    for (const char* strategy : {"direct", "owner", "tree", "ring"}) {
      if (row[strategy].is_number()) {
        std::printf(" %15.3f ms", row[strategy].get<double>());
      } else {
        std::printf(" %18s", row[strategy].get<std::string>().c_str());
      }
    }
    std::printf("   %s\n", row["auto"].get<std::string>().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Machine machine;
  std::vector<std::uint32_t> sizes = {2, 8, 64, 512, 4096};
  double megabytes = 100;
  double bucket_megabytes = 4;
  po::options_description options(
      "usage: simulate [OPTION...]\n"
      "How long merging, updating and publishing would take, from the costs of launches and links.\n"
      "Gradients are final at the start, so nothing overlaps. Options, with bandwidths in GB/s and\n"
      "times in microseconds");
  options.add_options()("help", "show this text")("json", "print one JSON array")(
      "members", po::value(&sizes)->multitoken(), "sizes of the group, default 2 8 64 512 4096")(
      "node", po::value(&machine.node_size), "devices of a node, default 8")(
      "megabytes", po::value(&megabytes), "gradients of a member, default 100")(
      "bucket", po::value(&bucket_megabytes), "megabytes of a bucket, default 4");
  for (const auto& [name, value, unit, text] :
       {std::tuple{"launch", &machine.launch, 1e-6, "time before each copy and launch, default 4"},
        std::tuple{"memory", &machine.memory, 1e9, "bandwidth of a device's memory, default 2000"},
        std::tuple{"node-latency", &machine.node_latency, 1e-6, "in a node, default 3"},
        std::tuple{"node-bandwidth", &machine.node_bandwidth, 1e9, "in a node, each way, default 200"},
        std::tuple{"network-latency", &machine.network_latency, 1e-6, "between nodes, default 8"},
        std::tuple{"network-bandwidth", &machine.network_bandwidth, 1e9,
                   "between nodes, each way and device, default 25"}}) {
    options.add_options()(name, po::value<double>()->notifier([value = value, unit = unit](double given) {
      *value = given * unit;
    }),
                          text);
  }
  try {
    po::variables_map given;
    po::store(po::parse_command_line(argc, argv, options), given);
    if (given.contains("help")) {
      std::cout << options;
      return 0;
    }
    po::notify(given);
    const auto bytes = [](double value) { return static_cast<std::uint64_t>(value * 1e6); };
    const nlohmann::json rows = simulate(machine, sizes, bytes(megabytes), bytes(bucket_megabytes));
    given.contains("json") ? void(std::cout << rows << '\n') : print(rows);
    return 0;
  } catch (const po::error& error) {
    std::cerr << "simulate: " << error.what() << "; --help lists the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "simulate: " << error.what() << '\n';
    return 1;
  }
}
