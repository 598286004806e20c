// SPDX-License-Identifier: Apache-2.0
// frontends/cli/explain_program.cpp: prints what the passes did with each statement of a program.
#include <yoke/program/memory.h>
#include <yoke/program/text.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/passes.h>

#include <iostream>
#include <map>

#include "run_program.h"

namespace yoke::cli {
namespace {

std::string size_text(const program::Program& program) {
  const std::size_t count = program.statements.size();
  return detail::counted(count, "statement") + ", temporaries of " +
         detail::counted(program::plan_memory(program::lifetimes(program)).byte_count, "byte");
}

// For example "@fused[n]".
std::string hint_text(const program::Hint& hint) {
  std::string loops;
  for (const std::string& loop : hint.loops) {
    loops += (loops.empty() ? "" : ", ") + loop;
  }
  return "@" + hint.name + (loops.empty() ? "" : "[" + loops + "]");
}

}  // namespace

void explain_program(const program::Program& program) {
  const passes::Optimized after = passes::optimize(program, passes::Explain::kYes);
  std::multimap<std::uint32_t, std::string> notes;  // by line
  for (const passes::Note& note : after.report.notes) {
    notes.emplace(note.at.line, note.text);
  }
  std::cout << "program " << program.name << ": " << size_text(program) << '\n';
  for (const program::Statement& statement : program.statements) {
    std::cout << "  line " << statement.at.line << ": " << program::print(program, statement) << '\n';
    const auto [begin, end] = notes.equal_range(statement.at.line);
    for (auto note = begin; note != end; ++note) {
      std::cout << "      " << note->second << '\n';
    }
  }
  std::cout << "optimized in " << detail::counted(after.report.sweeps, "sweep") << ": "
            << size_text(after.program) << '\n';
  std::int32_t open = -1;
  for (std::size_t i = 0; i < after.program.statements.size(); ++i) {
    const program::Statement& statement = after.program.statements[i];
    if (statement.hint >= 0 && statement.hint != open) {
      std::cout << "  " << hint_text(after.program.hints[static_cast<std::size_t>(statement.hint)]) << '\n';
    }
    open = statement.hint;
    std::cout << (open >= 0 ? "    " : "  ") << i + 1 << ": " << program::print(after.program, statement)
              << "  # line " << statement.at.line << '\n';
  }
  std::cout << "regions: " << after.report.regions << ", with "
            << detail::counted(after.report.grouped, "statement")
            << "; bytes that need not go through memory: " << after.report.saved_bytes << '\n';
  const std::vector<std::uint32_t> arguments = after.program.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (after.final_after[i] != 0) {
      std::cout << "  " << after.program.tensors[arguments[i]].name << " is final after statement "
                << after.final_after[i] << '\n';
    }
  }
}

}  // namespace yoke::cli
