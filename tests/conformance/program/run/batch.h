// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/batch.h: many programs in one text, compiled once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch.h"

namespace yoke::conformance {

// What a run of programs came to.
struct Tally {
  std::uint64_t programs = 0;  // that ran
  std::uint64_t launches = 0;
  std::uint64_t elements = 0;  // compared
  std::uint64_t native = 0;    // statements, by verdict
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

  // Compiles the cases in one text and runs each with every one of its launches; what is unsupported is left
  // out and counted. The text of what is wrong with a case, or nothing. A failure of the whole text is halved
  // until it is one case's.
  struct Failure {
    std::size_t number = 0;  // in `cases`
    std::string text;        // empty: none failed
  };
  Failure run(std::span<const Case> cases, Tally& tally);

  // The numbers of the cases whose statements all run, by the plugin's own verdicts, which are checked.
  std::vector<std::size_t> supported(std::span<const Case> cases, Tally& tally);

  // Called before each step that may not come back: first and last of the cases that it is about.
  std::function<void(std::size_t first, std::size_t last)> before;

 private:
  Failure run_halves(std::span<const Case> cases, std::size_t first, Tally& tally);

  void run_case(const Case& one, const Code& code, std::uint32_t entry, Tally& tally);

  Device& device_;
  std::unique_ptr<Stream> stream_;  // null where the backend has none
  Arena::Pool pool_;
};

// The text of several programs.
std::string text_of(std::span<const Case> cases);

}  // namespace yoke::conformance
