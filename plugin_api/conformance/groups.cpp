// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups.cpp: the groups in the order of the report.
// A group of several files has several rows.
#include "groups.h"

namespace yoke::conformance {
namespace {

struct Group {
  const char* name;
  std::vector<Test> (*tests)();
};

constexpr Group kGroups[] = {
    {"load", load_tests},
    {"load", load_file_tests},
    {"load", load_process_tests},
    {"load", load_entry_tests},
    {"args", args_tests},
    {"device", device_tests},
    {"device", device_options_tests},
    {"device", device_handles_tests},
    {"device", device_many_tests},
    {"buffer", buffer_tests},
    {"buffer", memory_class_tests},
    {"copy", copy_tests},
    {"copy", copy_refusal_tests},
    {"copy", copy_stress_tests},
    {"copy", copy_sequence_tests},
    {"copy", far_copy_tests},
    {"memory", memory_tests},
    {"memory", memory_lifetime_tests},
    {"memory", memory_end_tests},
    {"stream", stream_tests},
    {"stream", stream_graph_tests},
    {"stream", stream_stress_tests},
    {"stream", stream_held_tests},
    {"stream", stream_failed_tests},
    {"stream", stream_outcome_tests},
    {"stream", stream_count_tests},
    {"stream", stream_overlap_tests},
    {"stream", stream_time_tests},
    {"stream", stream_pause_tests},
    {"stream", stream_abort_tests},
    {"stream", stream_pending_tests},
    {"stream", kernels_on_streams_tests},
    {"event", event_tests},
    {"event", event_time_tests},
    {"program", program_tests},
    {"program", program_text_tests},
    {"program", program_border_tests},
    {"program", program_statement_tests},
    {"program", program_variant_tests},
    {"program", program_load_tests},
    {"program", program_cache_tests},
    {"program", far_program_tests},
    {"program", long_row_tests},
    {"contraction", contraction_tests},
    {"contraction", contraction_loop_tests},
    {"routine", routine_tests},
    {"routine", routine_refusal_tests},
    {"routine", routine_input_tests},
    {"routine", recycling_tests},
    {"routine", routine_graph_tests},
    {"fault", fault_tests},
    {"fault", fault_runtime_tests},
    {"profile", profile_tests},
    {"collectives", collectives_tests},
    {"collectives", collectives_failure_tests},
    {"thread", thread_tests},
    {"thread", kernels_on_threads_tests},
    {"lifetime", lifetime_tests},
    {"lifetime", growth_tests},
    {"train", train_tests},
    {"train", train_repeat_tests},
};

}  // namespace

std::vector<NamedTest> all_tests() {
  std::vector<NamedTest> all;
  for (const Group& group : kGroups) {
    for (Test& test : group.tests()) {
      std::string name = std::string(group.name) + "." + test.name;
      all.push_back({group.name, std::move(name), std::move(test)});
    }
  }
  return all;
}

}  // namespace yoke::conformance
