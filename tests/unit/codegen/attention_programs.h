// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_programs.h: programs of attention, and what a library computes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen.h"

namespace yoke::codegen::attention_programs {

// Computes all attention, or only that with some kinds.
class Recorder final : public VendorLibrary<LibraryAttention> {
 public:
  const char* name() const override { return "dnn"; }
  bool is_available() override { return true; }
  std::optional<std::uint64_t> workspace_for(const LibraryAttention& call) override {
    return call.kind == AttentionKind::kBackward && !has_backward ? std::nullopt : std::optional(workspace);
  }
  bool has_backward = true;
  std::uint64_t workspace = 0;
};

struct Change {
  std::string from;
  std::string to;
};

// Replaces each `from` by its `to`, in order.
std::string changed(std::string text, const std::vector<Change>& changes);

// Attention of 2 heads of 16 over 32 positions, and its gradient, as the tensor frontend writes them for training in
// bf16. Tests replace parts of it.
std::string training();
std::string forward();  // without the gradient

inline constexpr const char* kVolume = " 3,2,32,16/1024,16,32,1";  // of each operand
std::string repeated(const char* text, int count);

Plan plan_of(std::string_view body, Recorder& recorder);
// What the library computes, or why it does not.
std::string found_in(std::string_view body, Recorder recorder = {});

struct Refusal {
  std::vector<Change> changes;
  std::string reason;  // a part of it; empty: it is not attention at all
};

void expect_refused(const std::string& text, const std::vector<Refusal>& refusals);

}  // namespace yoke::codegen::attention_programs
