// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/kernels.h: the kernels of statements. Each function returns null for a
// statement that its kernel does not run.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "formula.h"

namespace yoke::handmade {

// The shape of a contraction; contraction.cpp.
struct Plan;

// Plans of contractions by shape. Safe to use from any thread.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const std::string& key) const;
  void add(const std::string& key, std::shared_ptr<const Plan> plan);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Plan>> plans_;
};

// Sums of products of two reads, as products of blocked matrices.
std::unique_ptr<Kernel> contraction_kernel(const program::Program& program,
                                           const program::Statement& statement, PlanCache& cache);
// Statements without a reduction.
std::unique_ptr<Kernel> map_kernel(const program::Program& program, const program::Statement& statement);
// Other reductions. Long ones are divided into 8 parts, which threads share.
std::unique_ptr<Kernel> reduce_kernel(const program::Program& program, const program::Statement& statement);
// Every statement, on the reference executor.
std::unique_ptr<Kernel> interpreted_kernel(const program::Program& program,
                                           const program::Statement& statement);

}  // namespace yoke::handmade
