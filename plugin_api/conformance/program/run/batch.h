// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/batch.h: runs many programs that are compiled as one text.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch.h"

namespace yoke::conformance {

// Counts of a run.
struct Tally {
  std::uint64_t programs = 0;  // that ran
  std::uint64_t launches = 0;
  std::uint64_t elements = 0;  // compared
  std::uint64_t native = 0;    // statements by verdict
  std::uint64_t decomposed = 0;
  std::uint64_t unsupported = 0;
  std::uint64_t left_out = 0;                    // programs with an unsupported statement
  std::map<std::string, std::uint64_t> reasons;  // of unsupported statements

  void add(const Tally& other);
  std::string words() const;
};

class BatchRunner {
 public:
  explicit BatchRunner(Device& device);
  // Compiles the cases as one text and runs each of them with each of its launches. Cases
  // with unsupported statements are skipped and counted. If compiling fails, the cases
  // are halved until the one that fails is found.
  struct Failure {
    std::size_t number = 0;  // in `cases`
    std::string text;        // empty if no case failed
  };
  Failure run(std::span<const Case> cases, Tally& tally);

  // Checks the plugin's verdicts, and returns the numbers of the cases without unsupported statements.
  std::vector<std::size_t> supported(std::span<const Case> cases, Tally& tally);

  // The failure of `drawn`, with the smallest program found that fails too. Runs programs for at most `seconds`.
  std::string shrunk(const Case& drawn, const std::string& failure, double seconds);

  // Runs a case in several memory layouts, repeatedly and on a stream, and describes the first difference of bits from
  // its first result; empty if there is none, if its entry is not deterministic, or if it has unsupported statements.
  // Counts the programs that it compared.
  std::string difference(const Case& one, Tally& tally);

  // Called before each step that may crash or hang, with the range of cases that the step uses.
  std::function<void(std::size_t first, std::size_t last)> before;

 private:
  std::vector<std::size_t> supported(std::span<const Case> cases, const std::string& bytes, Tally& tally);
  Failure run_halves(std::span<const Case> cases, std::size_t first, Tally& tally);

  void run_case(const Case& one, const Code& code, std::uint32_t entry, Tally& tally);

  Device& device_;
  std::optional<Stream> stream_;  // nothing if the backend has no streams
  Arena::Pool pool_;
};

// The text of several programs.
std::string text_of(std::span<const Case> cases);

// What a report says about a case that fails, and the case that it was drawn as.
std::string failure_text(const Case& small, const Case& drawn, const std::string& what);

// Whether the programs use only types of the mask; see GeneratorOptions.
bool uses_only(const Case& one, std::uint64_t type_mask);

// Runs the cases make(0) .. make(count - 1) that use only types of the device. Fails with the first case that has a
// wrong result, after shrinking it. Throws Unsupported if no case has run. When its TimeLimit is over, runs only the
// first `least` cases, by default all of them.
void run_cases(Kit& kit, std::uint64_t count, const std::function<Case(std::uint64_t)>& make,
               std::uint64_t least = ~std::uint64_t{0});

// Whether a test that would run more programs than a slow compiler can handle has used `part` of its time: a quarter of
// --timeout of this process and its children, or four times as much on the clock.
class TimeLimit {
 public:
  explicit TimeLimit(const Kit& kit) : seconds_(kit.settings().timeout_s / 4) {}
  bool is_over(double part = 1) const;

 private:
  static double used_seconds();

  double seconds_;
  double used_ = used_seconds();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Throws Unsupported, with the plugin's reasons, if no program has run.
void require_some(const Tally& tally);

// One test's share of --programs: one in `one_in`, at least `least`.
std::uint64_t share_of_programs(const Kit& kit, std::uint64_t one_in, std::uint64_t least);

}  // namespace yoke::conformance
