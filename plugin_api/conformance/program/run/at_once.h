// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/at_once.h: many routines of one code in flight, each with its own inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "kit.h"
#include "launch.h"

namespace yoke::conformance {

// Links every case four times, each time with other memory and other inputs, and launches all of them on four streams
// (threads with NULL streams if the backend has no streams), `rounds` times. Compares every result of the first round
// with the allowed ones and later results of a deterministic entry with the first, bit for bit. Throws Unsupported if
// the plugin supports none of the cases.
void run_at_once(Kit& kit, const std::vector<Case>& cases, int rounds);

// Queues, for each case, several rounds of new inputs, a launch and a copy of the results, without waiting between
// them, and then compares the results of every round. Throws Unsupported as above.
void run_queued(Kit& kit, const std::vector<Case>& cases);

}  // namespace yoke::conformance
