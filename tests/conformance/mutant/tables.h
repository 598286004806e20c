// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/tables.h: the tables that the host gets: the SDK's, and for bugs that the SDK
// would not let through, with one function replaced.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/fault.h>

namespace yoke::mutant {

// As yoke_plugin::get_table.
const void* get_table(yoke_plugin* plugin, const char* id) noexcept;

void plant_in_device(yoke_backend_api& table);
void plant_in_buffer(yoke_backend_api& table);
void plant_in_copy(yoke_backend_api& table);
void plant_in_host_memory(yoke_backend_api& table);
void plant_in_counts(yoke_backend_api& table);
void plant_in_stream(yoke_stream_api& table);
void plant_in_program(yoke_program_api& table);
void plant_in_routine(yoke_program_api& table);

}  // namespace yoke::mutant
