// SPDX-License-Identifier: Apache-2.0
// tests/bench/simulated_backend.h: a backend whose work takes no time. The clocks of its streams advance by the cost of
// each copy and launch, and a wait for an event takes the later clock.
#pragma once

#include <yoke/runtime/cost_model.h>
#include <yoke/sdk/entry.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulated {

namespace sdk = yoke::sdk;

// The members of a group, with the links of the runtime's cost model.
class Cluster {
 public:
  explicit Cluster(yoke::GroupCosts costs) : costs_(std::move(costs)), links_(costs_) {}
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  const yoke::GroupCosts& costs() const { return costs_; }
  bool is_pending() const { return is_pending_; }
  void set_pending(bool pending) { is_pending_ = pending; }
  double transfer(double start, std::uint32_t from, std::uint32_t to, std::uint64_t byte_count) {
    return links_.transfer(start, from, to, byte_count);
  }
  void finish(double time) { last_ = std::max(last_, time); }
  double restart() {
    links_ = yoke::LinkClocks(costs_);
    return std::exchange(last_, 0);
  }

 private:
  yoke::GroupCosts costs_;
  yoke::LinkClocks links_;
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
    const double start = on.now + cluster_.costs().launch;
    on.advance_to(cluster_.transfer(start, static_cast<Buffer&>(source).device(), device_, byte_count));
  }

 private:
  Cluster& cluster_;
  std::uint32_t device_;
};

// Reads and writes each argument once. Arguments on other devices are transferred over the links.
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
    const double start = on.now + cluster_.costs().launch;
    double local = start;
    double end = start;
    for (const Use& use : uses_) {
      if (use.from == use.to) {
        local += static_cast<double>(use.byte_count) / cluster_.costs().memory;
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
    return cluster_.costs().is_near(number_, static_cast<Device&>(other).number_);
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

inline Cluster* cluster = nullptr;  // of the backend that is entered next

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override { return {.streams = true, .programs = true, .peers = true}; }
  std::uint32_t device_count() override { return cluster_.costs().size(); }
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

}  // namespace simulated
