// SPDX-License-Identifier: Apache-2.0
// tests/bench/simulate.cpp: how long merging, updating and publishing would take on many devices. The real
// StepPlan queues a step on a backend with virtual clocks. Beside it stands what the cost model expects.
#include <yoke/program/program.h>
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/runtime.h>

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

#include "simulated_backend.h"

YOKE_SDK_PLUGIN(simulated::Backend, "simulated", "0.1.0", "yoke")

namespace {

// SGD with the sum of the gradients.
yoke::StepProgram sgd(const yoke::UpdateShape& shape) {
  const std::string type = "f32[" + std::to_string(shape.count) + "]";
  std::string text = "yoke.program 1\nprogram sgd() {\n  arg value : " + type + " inout\n";
  std::string sum = "0";
  for (std::uint32_t k = 0; k < shape.terms; ++k) {
    const std::string gradient = "gradient_" + std::to_string(k);
    text += "  arg " + gradient + " : " + type + " in\n";
    sum += " + " + gradient + "[i]";
  }
  return {text + "  value[i] = value[i] - 0.1 * (" + sum + ")\n}\n", "sgd"};
}

// A runtime whose devices are the members of a group.
struct Group {
  explicit Group(const yoke::GroupCosts& costs) : cluster(costs) {
    simulated::cluster = &cluster;
    yoke::RuntimeOptions options;
    options.search_environment = false;
    options.log_level = yoke::LogLevel::kError;
    runtime.emplace(options);
    runtime->register_backend("simulated", yoke_plugin_entry);
    const auto backend = runtime->backend("simulated");
    for (std::uint32_t k = 0; k < costs.size(); ++k) {
      members.emplace_back(yoke::Stream::create(backend->open_device(k)));
    }
  }
  simulated::Cluster cluster;
  std::optional<yoke::Runtime> runtime;
  std::vector<yoke::Context> members;
};

// Reads all parameters, as a gradient program does.
constexpr const char* kReader = "reader";
std::string reader_text(std::uint64_t count) {
  return "yoke.program 1\nprogram reader() {\n  arg w : f32[" + std::to_string(count) +
         "] in\n  arg y : f32[] out\n  y[] = sum[i] w[i]\n}\n";
}

// Seconds from the last gradient until all members have the parameters of one step.
double step_seconds(const yoke::GroupCosts& costs, const yoke::MergeWork& work, yoke::MergeStrategy strategy,
                    yoke::Placement placement) {
  Group group(costs);
  yoke::StepPlan plan(group.members, costs.size(), {{"w", {YOKE_TYPE_F32, {work.byte_count / 4}}}}, {},
                      {.merge = strategy,
                       .placement = placement,
                       .bucket_byte_count = work.bucket_byte_count,
                       .overlap = yoke::Overlap::kOff,
                       .wire = work.wire},
                      nullptr);
  const std::vector<yoke::SymbolTable> symbols(costs.size());
  plan.allocate();
  plan.allocate_gradients();
  plan.link(sgd, symbols);
  std::vector<yoke::LinkedRoutine> readers;
  yoke::CodeCache codes;
  for (std::size_t k = 1; plan.shares_parameters() && k < group.members.size(); ++k) {
    yoke::Context& member = group.members[k];
    member.allocate("y", {YOKE_TYPE_F32, {}});
    readers.push_back(
        member.link(codes.get(member.stream()->device(), reader_text(work.byte_count / 4)), kReader));
  }
  group.cluster.restart();
  group.cluster.set_pending(true);  // else later work would not wait for it
  plan.step(symbols);
  for (const yoke::LinkedRoutine& reader : readers) {
    reader.run();
  }
  group.cluster.set_pending(false);
  return group.cluster.restart();
}

constexpr yoke::MergeStrategy kStrategies[] = {yoke::MergeStrategy::kDirect, yoke::MergeStrategy::kOwner,
                                               yoke::MergeStrategy::kTree, yoke::MergeStrategy::kRing};

// Why a strategy is not simulated; empty: it is.
std::string left_out(const yoke::GroupCosts& costs, const yoke::MergeWork& work,
                     yoke::MergeStrategy strategy) {
  constexpr std::uint32_t kLargestRing = 128;
  if (strategy == yoke::MergeStrategy::kDirect) {
    return !costs.is_one_node() ? "no shared memory" : work.wire != yoke::Wire::kFull ? "nothing sent" : "";
  }
  if (strategy == yoke::MergeStrategy::kRing && costs.size() > kLargestRing) {
    return "n x n commands";
  }
  return {};
}

// Where the update runs with this strategy, if auto places it.
yoke::Placement placement_of(const yoke::GroupCosts& costs, const yoke::MergeWork& work,
                             yoke::MergeStrategy strategy) {
  const auto seconds = [&](yoke::Placement placement) {
    return yoke::merge_seconds(costs, work, strategy, placement);
  };
  return seconds(yoke::Placement::kSharded) < seconds(yoke::Placement::kOwner) ? yoke::Placement::kSharded
                                                                               : yoke::Placement::kOwner;
}

// One row per size: milliseconds, simulated and as the cost model expects them, and what auto picks.
nlohmann::json simulate(yoke::GroupCosts costs, std::uint32_t node_size, std::span<const std::uint32_t> sizes,
                        const yoke::MergeWork& work) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::uint32_t size : sizes) {
    costs.nodes.clear();
    for (std::uint32_t k = 0; k < size; ++k) {
      costs.nodes.push_back(k / node_size);
    }
    nlohmann::json row = {{"members", size}};
    const yoke::MergeChoice choice = yoke::choose_merge(costs, work);
    row["auto"] = yoke::merge_strategy_name(choice.strategy);
    row["placement"] = yoke::placement_name(choice.placement);
    row["reason"] = choice.reason;
    for (const auto strategy : kStrategies) {
      const std::string reason = left_out(costs, work, strategy);
      const yoke::Placement placement = placement_of(costs, work, strategy);
      const char* name = yoke::merge_strategy_name(strategy);
      row[name] = reason.empty() ? nlohmann::json(step_seconds(costs, work, strategy, placement) * 1e3)
                                 : nlohmann::json(reason);
      if (strategy != yoke::MergeStrategy::kDirect || reason.empty()) {
        row["expected"][name] = yoke::merge_seconds(costs, work, strategy, placement) * 1e3;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print(const nlohmann::json& rows) {
  std::printf("%8s %18s %18s %18s %18s   %s\n", "members", "direct", "owner", "tree", "ring",
              "auto, expected");
  for (const nlohmann::json& row : rows) {
    std::printf("%8u", row["members"].get<unsigned>());
    for (const auto strategy : kStrategies) {
      const char* name = yoke::merge_strategy_name(strategy);
      if (row[name].is_number()) {
        std::printf(" %15.3f ms", row[name].get<double>());
      } else {
        std::printf(" %18s", row[name].get<std::string>().c_str());
      }
    }
    const std::string chosen = row["auto"];
    std::printf("   %s (%s), %.3f ms\n", chosen.c_str(), row["placement"].get<std::string>().c_str(),
                row["expected"][chosen].get<double>());
  }
}

// Whether auto picks a strategy that is at most a fifth slower than the fastest one. What is not simulated counts as
// expected.
bool picks_well(const nlohmann::json& rows) {
  bool all = true;
  for (const nlohmann::json& row : rows) {
    const auto time = [&](const std::string& name) {
      return row[name].is_number() ? row[name].get<double>() : row["expected"].value(name, 1e300);
    };
    const std::string chosen = row["auto"];
    for (const auto strategy : kStrategies) {
      const char* name = yoke::merge_strategy_name(strategy);
      if (time(chosen) > 1.2 * time(name)) {
        std::printf("with %u members auto picks %s, but %s is faster: %.4f ms instead of %.4f ms\n",
                    row["members"].get<unsigned>(), chosen.c_str(), name, time(name), time(chosen));
        all = false;
      }
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  yoke::GroupCosts costs;
  std::uint32_t node_size = 8;
  std::vector<std::uint32_t> sizes = {2, 8, 64, 512, 4096};
  double megabytes = 100;
  double bucket_megabytes = 4;
  std::string wire = "full";
  po::options_description options(
      "usage: simulate [OPTION...]\n"
      "How long merging, updating and publishing would take, from the costs of launches and links,\n"
      "and what the merge strategy auto would pick.\n"
      "Gradients are final at the start, so nothing overlaps. Options, with bandwidths in GB/s and\n"
      "times in microseconds");
  options.add_options()("help", "show this text")("json", "print one JSON array")(
      "check", "exit with 1 if auto picks a strategy that is over 20 % slower than another")(
      "members", po::value(&sizes)->multitoken(), "sizes of the group, default 2 8 64 512 4096")(
      "node", po::value(&node_size), "devices of a node, default 8")("megabytes", po::value(&megabytes),
                                                                     "gradients of a member, default 100")(
      "bucket", po::value(&bucket_megabytes), "megabytes of a bucket, default 4")(
      "wire", po::value(&wire), "how gradients are sent: full (default) or bf16");
  for (const auto& [name, value, unit, text] :
       {std::tuple{"launch", &costs.launch, 1e-6, "time before each copy and launch, default 4"},
        std::tuple{"memory", &costs.memory, 1e9, "bandwidth of a device's memory, default 2000"},
        std::tuple{"node-latency", &costs.near.latency, 1e-6, "in a node, default 3"},
        std::tuple{"node-bandwidth", &costs.near.bandwidth, 1e9, "in a node, each way, default 200"},
        std::tuple{"network-latency", &costs.far.latency, 1e-6, "between nodes, default 8"},
        std::tuple{"network-bandwidth", &costs.far.bandwidth, 1e9,
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
    const nlohmann::json rows = simulate(costs, node_size, sizes,
                                         {.byte_count = bytes(megabytes),
                                          .bucket_byte_count = bytes(bucket_megabytes),
                                          .wire = yoke::wire_by_name(wire)});
    given.contains("json") ? void(std::cout << rows << '\n') : print(rows);
    return given.contains("check") && !picks_well(rows) ? 1 : 0;
  } catch (const po::error& error) {
    std::cerr << "simulate: " << error.what() << "; --help lists the options\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "simulate: " << error.what() << '\n';
    return 1;
  }
}
