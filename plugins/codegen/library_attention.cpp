// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_attention.cpp: plans attention that a library of the vendor computes.
#include "library_attention.h"

#include <algorithm>
#include <utility>

namespace yoke::codegen {
namespace {

std::string text_of(const LibraryAttention& made) {
  const auto& [batch, heads, queries, size] = made.volumes[0].dims;
  return std::string(made.is_causal ? "causal " : "") +
         (made.kind == AttentionKind::kForward ? "attention, " : "gradient of attention, ") +
         std::to_string(batch * heads) + " heads of " + std::to_string(size) + ", " +
         std::to_string(queries) + " queries, " + std::to_string(made.volumes[1].dims[2]) + " keys";
}

// Asks for the size of the workspace. Returns false if the library does not support the attention.
bool complete(VendorLibrary<LibraryAttention>& library, AttentionCall& call) {
  const auto workspace = library.workspace_for(call.attention);
  call.attention.workspace_byte_count = workspace.value_or(0);
  return workspace.has_value();
}

}  // namespace

AttentionPlan plan_attention(const Builder& builder, const program::Block& block) {
  AttentionPlan plan;
  VendorLibrary<LibraryAttention>* library = builder.libraries().attentions;
  if (library == nullptr) {
    return plan;
  }
  for (FoundAttention& found : find_attention(builder.program(), block)) {
    if (!library->is_available()) {
      break;
    }
    if (found.why_not.empty() &&
        (!complete(*library, found.forward) || (found.backward && !complete(*library, *found.backward)))) {
      found.why_not = "it does not support the attention";
    }
    if (!found.why_not.empty()) {
      plan.remarks.emplace_back(found.scores,
                                std::string("attention not by ") + library->name() + ": " + found.why_not);
      continue;
    }
    plan.calls.push_back(std::move(found.forward));
    if (found.backward) {
      plan.calls.push_back(std::move(*found.backward));
    }
  }
  std::sort(plan.calls.begin(), plan.calls.end(),
            [](const AttentionCall& one, const AttentionCall& other) { return one.place < other.place; });
  return plan;
}

void launch_attention(Builder& builder, const AttentionCall& call) {
  builder.begin_step(call.statements);
  Launch launch;
  for (const std::uint32_t tensor : call.tensors) {
    builder.keep(tensor);  // a gradient call also reads the forward result, unlike its statements
    launch.slots.push_back(builder.slot(tensor));
  }
  if (call.attention.workspace_byte_count != 0) {
    launch.slots.push_back(builder.scratch(call.attention.workspace_byte_count));
  }
  launch.remark =
      std::string("by ") + builder.libraries().attentions->name() + ": " + text_of(call.attention);
  launch.attention = call.attention;
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen
