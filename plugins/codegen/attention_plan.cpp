// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_plan.cpp: decides what computes the attention of a block.
#include "attention_plan.h"

#include <algorithm>
#include <utility>

#include "attention_kernel.h"

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

bool is_by_library(VendorLibrary<LibraryAttention>& library, FoundAttention& found) {
  return complete(library, found.forward) && (!found.backward || complete(library, *found.backward));
}

// Returns why kernels do not compute it; empty: they do.
std::string choose_kernels(const Target& target, FoundAttention& found) {
  for (AttentionCall* call : {&found.forward, found.backward ? &*found.backward : nullptr}) {
    if (call != nullptr) {
      if (std::string fault = attention::kernel_fault(call->attention, target); !fault.empty()) {
        return fault;
      }
      call->attention.workspace_byte_count = 0;
      call->by_kernels = true;
    }
  }
  return "";
}

}  // namespace

AttentionPlan plan_attention(const Builder& builder, const program::Block& block) {
  AttentionPlan plan;
  VendorLibrary<LibraryAttention>* library = builder.libraries().attentions;
  const bool has_kernels = builder.target().fused_attention;
  if (library == nullptr && !has_kernels) {
    return plan;
  }
  for (FoundAttention& found : find_attention(builder.program(), block)) {
    const bool has_library = library != nullptr && library->is_available();
    if (!has_library && !has_kernels) {
      break;
    }
    std::string who = has_library ? library->name() : "yoke's kernels";
    if (found.why_not.empty() && !(has_library && is_by_library(*library, found))) {
      found.why_not =
          has_kernels ? choose_kernels(builder.target(), found) : "it does not support the attention";
      who = has_kernels ? "yoke's kernels" : who;
    }
    if (!found.why_not.empty()) {
      plan.remarks.emplace_back(found.scores, "attention not by " + who + ": " + found.why_not);
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
  std::vector<Slot> slots;
  for (const std::uint32_t tensor : call.tensors) {
    builder.keep(tensor);  // a gradient call also reads the forward result, unlike its statements
    slots.push_back(builder.slot(tensor));
  }
  const std::string remark = ": " + text_of(call.attention);
  if (call.by_kernels) {
    const bool is_forward = call.attention.kind == AttentionKind::kForward;
    (is_forward ? attention::launch_forward : attention::launch_backward)(builder, call.attention, slots,
                                                                          "by yoke's kernels" + remark);
    return;
  }
  if (call.attention.workspace_byte_count != 0) {
    slots.push_back(builder.scratch(call.attention.workspace_byte_count));
  }
  Launch launch;
  launch.slots = std::move(slots);
  launch.remark = "by " + std::string(builder.libraries().attentions->name()) + remark;
  launch.attention = call.attention;
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen
