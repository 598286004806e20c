// SPDX-License-Identifier: Apache-2.0
// runtime/passes/optimized.h: shares optimized programs between devices, trainers and runtimes of the process.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <memory>
#include <string>

namespace yoke::passes {

struct OptimizedModule {
  program::Module module;
  std::string text;  // canonical
};

// The largest sum of the texts, before and after the passes, that are kept for later calls.
inline constexpr std::size_t kMostOptimizedBytes = std::size_t{2} << 20U;

// Applies optimize() to every program of `module`, whose canonical text is `text`; or returns the result of an earlier
// call with this text, if it is among the last ones that fit in kMostOptimizedBytes. Thread-safe: of several threads
// with the same text, one works and the others wait for it. Errors: those of optimize().
std::shared_ptr<const OptimizedModule> optimized(const std::string& text, const program::Module& module);

}  // namespace yoke::passes
