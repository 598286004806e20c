// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/execute_statement.h: the reference executor for single statements. Safe to
// call from any thread.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace yoke::program {

// Runs one statement of a program, for backends that run other statements themselves. `tensors` holds one pointer per
// tensor of the program, temporaries included. `symbols` holds one value per symbol, repeat variables
// included: run_in_order (access.h) calls a function with them for each statement.
// Throws std::invalid_argument for a statement that does not exist, a wrong count, a null tensor that the statement
// uses, or a value out of a symbol's range.
void execute(const Program& program, std::size_t statement, std::span<void* const> tensors,
             std::span<const std::int64_t> symbols);

}  // namespace yoke::program
