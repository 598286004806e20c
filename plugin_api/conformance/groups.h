// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups.h: all tests; each file in groups/ returns one list.
#pragma once

#include <string>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

std::vector<Test> args_tests();
std::vector<Test> load_tests();
std::vector<Test> load_file_tests();
std::vector<Test> load_process_tests();
std::vector<Test> load_entry_tests();
std::vector<Test> device_tests();
std::vector<Test> device_options_tests();
std::vector<Test> device_handles_tests();
std::vector<Test> device_many_tests();
std::vector<Test> buffer_tests();
std::vector<Test> copy_tests();
std::vector<Test> copy_refusal_tests();
std::vector<Test> copy_stress_tests();
std::vector<Test> copy_sequence_tests();
std::vector<Test> stream_stress_tests();
std::vector<Test> memory_tests();
std::vector<Test> memory_lifetime_tests();
std::vector<Test> memory_end_tests();
std::vector<Test> memory_class_tests();
std::vector<Test> profile_tests();
std::vector<Test> collectives_tests();
std::vector<Test> collectives_failure_tests();
std::vector<Test> stream_tests();
std::vector<Test> stream_graph_tests();
std::vector<Test> stream_held_tests();
std::vector<Test> stream_failed_tests();
std::vector<Test> stream_outcome_tests();
std::vector<Test> stream_count_tests();
std::vector<Test> stream_overlap_tests();
std::vector<Test> stream_time_tests();
std::vector<Test> stream_pause_tests();
std::vector<Test> stream_abort_tests();
std::vector<Test> event_tests();
std::vector<Test> event_time_tests();
std::vector<Test> program_tests();
std::vector<Test> program_text_tests();
std::vector<Test> program_border_tests();
std::vector<Test> program_statement_tests();
std::vector<Test> program_variant_tests();
std::vector<Test> program_load_tests();
std::vector<Test> program_cache_tests();
std::vector<Test> far_copy_tests();
std::vector<Test> far_program_tests();
std::vector<Test> long_row_tests();
std::vector<Test> stream_pending_tests();
std::vector<Test> contraction_tests();
std::vector<Test> contraction_loop_tests();
std::vector<Test> routine_tests();
std::vector<Test> routine_refusal_tests();
std::vector<Test> routine_input_tests();
std::vector<Test> fault_tests();
std::vector<Test> fault_runtime_tests();
std::vector<Test> thread_tests();
std::vector<Test> kernels_on_streams_tests();
std::vector<Test> kernels_on_threads_tests();
std::vector<Test> recycling_tests();
std::vector<Test> routine_graph_tests();
std::vector<Test> lifetime_tests();
std::vector<Test> growth_tests();
std::vector<Test> train_tests();
std::vector<Test> train_repeat_tests();

struct NamedTest {
  std::string group;
  std::string name;  // "copy.random-ranges"
  Test test;
};
std::vector<NamedTest> all_tests();

}  // namespace yoke::conformance
