// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/fault_runtime.cpp: training runs through libyoke in which one copy or launch
// fails.
#include <atomic>
#include <optional>
#include <string>

#include "groups.h"
#include "training.h"

namespace yoke::conformance {
namespace {

// A shim between libyoke and the plugin that arms a fault on a device when it is opened. A global,
// because libyoke enters plugins through a plain function. A process runs one test.
struct Armed {
  yoke_plugin_entry_fn entry = nullptr;
  const void* (*get_table)(yoke_plugin*, const char*) = nullptr;
  yoke_backend_api backend{};
  yoke_fault_api fault{};
  std::int32_t kind = 0;
  std::uint64_t nth = 0;
  std::uint64_t victim = 0;  // the device that gets the fault, in the order of opening
  std::atomic<std::uint64_t> opened{0};
  yoke_plugin* plugin = nullptr;
};
Armed armed;

std::int32_t open_and_arm(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                          yoke_error* error) {
  static const auto* const table =
      static_cast<const yoke_backend_api*>(armed.get_table(plugin, YOKE_BACKEND_TABLE));
  const std::int32_t code = table->device_open(plugin, args, out_device, error);
  if (code == YOKE_STATUS_OK && armed.nth != 0) {
    // The second shard's device if it has its own, so that the first shard's device continues.
    if (armed.opened.fetch_add(1) == armed.victim) {
      return armed.fault.fault_arm(*out_device, armed.kind, armed.nth, 0, error);
    }
  }
  return code;
}

const void* table_with_faults(yoke_plugin* plugin, const char* id) {
  return std::string_view(id) == YOKE_BACKEND_TABLE ? static_cast<const void*>(&armed.backend)
                                                    : armed.get_table(plugin, id);
}

std::int32_t enter_with_faults(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  const std::int32_t code = armed.entry(args, out_plugin, error);
  if (code == YOKE_STATUS_OK) {
    armed.plugin = *out_plugin;
    armed.get_table = armed.plugin->get_table;
    armed.backend = *static_cast<const yoke_backend_api*>(armed.get_table(armed.plugin, YOKE_BACKEND_TABLE));
    armed.fault = *static_cast<const yoke_fault_api*>(armed.get_table(armed.plugin, YOKE_FAULT_TABLE));
    armed.backend.device_open = open_and_arm;
    armed.plugin->get_table = table_with_faults;
  }
  return code;
}

// Trains for three steps on two shards. Returns the error that ended the training, if any.
std::optional<Error> train(const std::shared_ptr<Runtime>& runtime, const std::string& name,
                           const std::vector<Option>& device_options) {
  const auto data = datasets::half_moons(40, 0.1, 0);
  const auto model = nn::sequential(nn::linear(8), nn::relu(), nn::linear(2));
  DataParallelOptions options{.backend_name = name, .shards = 2, .learning_rate = 0.1F, .batch_size = 20};
  options.merge = MergeStrategy::kOwner;  // others may copy nothing
  options.runtime = runtime;
  options.device_options = device_options;
  try {
    data_parallel(
        options, data.points, data.labels,
        [&](const auto& x, const auto& y) { return cross_entropy(model(x), y); },
        [](Trainer& trainer) {
          for (int i = 0; i < 3; ++i) {
            trainer.step();
          }
          trainer.wait();
        });
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void check_counters(const std::string& when) {
  yoke_live_counts live = sized<yoke_live_counts>();
  check_equal(armed.backend.live_counts(armed.plugin, &live, nullptr), YOKE_STATUS_OK,
              "the code of live_counts");
  const std::string alive = alive_text(live);
  check(alive.empty(), when, ", live_counts reports ", alive);
}

// Makes the n-th call fail, for growing n, until a training of three steps succeeds.
// Skips most n, because most copies are alike.
void training_that_fails(Kit& kit, std::int32_t kind, ErrorCode code) {
  const std::string name = kit.plugin().name();
  kit.plugin().table<yoke_fault_api>();
  kit.plugin().table<yoke_program_api>();
  kit.device();
  armed.entry = kit.library().entry();
  armed.kind = kind;
  armed.victim = kit.plugin().device_count() > 1 ? 1 : 0;
  std::uint64_t failures = 0;
  std::string last;
  for (std::uint64_t nth = 1; nth < 4000; nth += 1 + nth / 4) {
    kit.progress(text("fault in call ", nth));
    armed.nth = nth;
    armed.opened = 0;
    std::optional<Error> error;
    {
      RuntimeOptions runtime_options;
      runtime_options.log_level = LogLevel::kOff;
      runtime_options.wait_timeout = std::chrono::nanoseconds(longest_wait_ns());
      const auto runtime = std::make_shared<Runtime>(runtime_options);
      runtime->register_backend(name, enter_with_faults);
      const auto backend = runtime->backend(name);
      error = train(runtime, name, typed_options(*backend, kit.settings()));
      check_counters(text("after a training whose call ", nth, " failed"));
    }
    if (!error) {
      break;
    }
    ++failures;
    last = error->what();
    check(last.find(name) != std::string::npos, "call ", nth,
          " failed, but the error of the training does not name the device: ", last);
    check(error->code() == code, "call ", nth,
          " failed, but the error of the training has another code: ", last);
  }
  if (failures == 0 && kind == YOKE_FAULT_LAUNCH && !runs_everything(kit.device())) {
    unsupported("every launch of the training ran on the fallback backend");
  }
  check(failures > 0, "a fault was armed, but a training of three steps on two shards succeeded");
  kit.note(text(failures, " training runs failed, the last one with: ", last));
}

void a_copy_fails(Kit& kit) {
  training_that_fails(kit, YOKE_FAULT_COPY, ErrorCode::kUnavailable);
}
void a_launch_fails(Kit& kit) {
  training_that_fails(kit, YOKE_FAULT_LAUNCH, ErrorCode::kUnavailable);
}
void the_device_is_lost(Kit& kit) {
  training_that_fails(kit, YOKE_FAULT_DEVICE_LOST, ErrorCode::kDeviceLost);
}

}  // namespace

std::vector<Test> fault_runtime_tests() {
  return {
      {"training-copy",
       "a training in which a copy fails ends with an error that names the device, and does not hang",
       {19, 27},
       a_copy_fails,
       3},
      {"training-launch",
       "a training in which a launch fails ends with an error that names the device",
       {19},
       a_launch_fails,
       3},
      {"training-loss",
       "a training whose device is lost ends with DEVICE_LOST and leaks nothing",
       {19},
       the_device_is_lost,
       3},
  };
}

}  // namespace yoke::conformance
