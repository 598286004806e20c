// SPDX-License-Identifier: Apache-2.0
// tests/mutant/tables.h: the tables that the mutant offers: those of the SDK, with single functions
// replaced by bugs that the SDK itself does not allow.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/fault.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/profile.h>

#include "bug.h"

namespace yoke::mutant {

// Implements yoke_plugin::get_table.
const void* get_table(yoke_plugin* plugin, const char* id) noexcept;

// Replaces a function of a table if the bug is switched on. `replacement` is a lambda
// without captures; its parameters may be `auto`.
template <BugName kName, class Function, class Replacement>
void plant(Function*& function, Replacement replacement) {
  if (on<kName>()) {
    function = replacement;
  }
}

// Plants a function that calls the SDK's one with `change` applied to a copy of its argument struct.
template <BugName kName, auto kOriginal, class Function, class Change>
void plant_before(Function*& function, Change) {
  plant<kName>(function, [](auto* object, auto* args, auto... rest) {
    auto changed = *args;
    Change()(changed);
    return kOriginal(object, &changed, rest...);
  });
}

// Plants a function that calls the SDK's one, and `change` with the same arguments if it returned OK.
template <BugName kName, auto kOriginal, class Function, class Change>
void plant_after(Function*& function, Change) {
  plant<kName>(function, [](auto... arguments) {
    const std::int32_t code = kOriginal(arguments...);
    if (code == YOKE_STATUS_OK) {
      Change()(arguments...);
    }
    return code;
  });
}

void plant_in_device(yoke_backend_api& table);
void plant_in_buffer(yoke_backend_api& table);
void plant_in_copy(yoke_backend_api& table);
void plant_in_host_memory(yoke_backend_api& table);
void plant_in_counts(yoke_backend_api& table);
void plant_in_release(yoke_backend_api& table);
void plant_in_handles(yoke_backend_api& table);
void plant_in_memory(yoke_memory_api& table);
void plant_in_profile(yoke_profile_api& table);
void plant_in_collectives(yoke_collectives_api& table);
void plant_in_aborts_of_groups(yoke_stream_api& table);
void plant_in_stream(yoke_stream_api& table);
void plant_in_abort(yoke_stream_api& table);
void plant_in_program(yoke_program_api& table);
void plant_in_routine(yoke_program_api& table);
void plant_in_link(yoke_program_api& table);

}  // namespace yoke::mutant
