// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_moves.cpp: checks the memory that the calls of attention use.
#include "attention_moves.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <vector>

#include "library_product.h"

namespace yoke::codegen {
namespace {

using program::Program;

constexpr std::size_t kResultIndex = 3;  // into AttentionCall::tensors; the gradient of the result follows
constexpr std::size_t kFirstGradientIndex = 5;

bool is_statistics(const AttentionCall& call, std::size_t i) {
  return i == call.attention.volume_count();
}

// Statistics count as written by both calls.
bool is_result(const AttentionCall& call, std::size_t i) {
  const bool is_forward = call.attention.kind == AttentionKind::kForward;
  return is_statistics(call, i) || (is_forward ? i == kResultIndex : i >= kFirstGradientIndex);
}

bool writes_tensor(const AttentionCall& call, std::uint32_t tensor) {
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (call.tensors[i] == tensor && is_result(call, i)) {
      return true;
    }
  }
  return false;
}

const char* volume_fault(const Volume& volume) {
  constexpr std::uint64_t kBytes = 2;  // of an element
  if (volume.strides[3] != 1) {
    return "the elements of a head are not neighbors";
  }
  if (!last_element(volume)) {
    return "heads share elements, or a tensor is too large";
  }
  const bool is_aligned =
      volume.offset * kBytes % kLibraryAlignment == 0 &&
      std::all_of(volume.strides.begin(), volume.strides.end() - 1,
                  [](std::uint64_t stride) { return stride * kBytes % kLibraryAlignment == 0; });
  return is_aligned ? nullptr : "a tensor is misaligned";
}

class MoveChecker {
 public:
  MoveChecker(const Program& program, const program::Block& block, const FoundAttention& found)
      : program_(program), block_(block) {
    add(found.forward);
    if (found.backward) {
      add(*found.backward);
    }
  }

  const char* run(const std::set<std::uint32_t>& replaced) const;

 private:
  void add(const AttentionCall& call) {
    calls_.push_back(&call);
    members_.insert(call.statements.begin(), call.statements.end());
  }
  bool reads(std::size_t number, std::uint32_t tensor) const {
    bool found = false;
    program::visit_read_tensors(program_.statements[number].value,
                                [&](std::uint32_t read) { found = found || read == tensor; });
    program::visit_index_tensors(program_.statements[number].target,
                                 [&](std::uint32_t read) { found = found || read == tensor; });
    return found;
  }
  bool writes(std::size_t number, std::uint32_t tensor) const {
    return program_.statements[number].target.tensor == tensor;
  }
  // Whether a statement that stays uses the tensor between the first and the last use of the calls.
  bool is_used_between(std::uint32_t tensor, bool only_writes) const;
  const char* call_fault(const AttentionCall& call) const;

  const Program& program_;
  const program::Block& block_;
  std::vector<const AttentionCall*> calls_;
  std::set<std::size_t> members_;
};

bool MoveChecker::is_used_between(std::uint32_t tensor, bool only_writes) const {
  std::size_t first = block_.last;
  std::size_t last = block_.first;
  const auto include = [&](std::size_t number) {
    first = std::min(first, number);
    last = std::max(last, number);
  };
  for (const AttentionCall* call : calls_) {
    if (std::find(call->tensors.begin(), call->tensors.end(), tensor) != call->tensors.end()) {
      include(call->place);
    }
  }
  for (const std::size_t number : members_) {
    if (reads(number, tensor) || writes(number, tensor)) {
      include(number);
    }
  }
  for (std::size_t number = first; number < last; ++number) {
    if (!members_.contains(number) && (writes(number, tensor) || (!only_writes && reads(number, tensor)))) {
      return true;
    }
  }
  return false;
}

const char* MoveChecker::call_fault(const AttentionCall& call) const {
  const bool is_forward = call.attention.kind == AttentionKind::kForward;
  for (std::size_t i = 0; i < call.attention.volume_count(); ++i) {
    if (const char* fault = volume_fault(call.attention.volumes[i])) {
      return fault;
    }
  }
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (is_result(call, i) && std::count(call.tensors.begin(), call.tensors.end(), call.tensors[i]) > 1) {
      return "a result has the memory of an operand";
    }
    // A result may move to an earlier place; the forward pass does not move its own.
    const bool is_moved = is_statistics(call, i) || (!is_forward && is_result(call, i));
    if (is_used_between(call.tensors[i], !is_moved)) {
      return "other statements use the memory of an operand";
    }
  }
  return nullptr;
}

const char* MoveChecker::run(const std::set<std::uint32_t>& replaced) const {
  for (const AttentionCall* call : calls_) {
    if (const char* fault = call_fault(*call)) {
      return fault;
    }
  }
  if (calls_.size() > 1) {
    const auto& [q, k, v, o, d_o, d_q, d_k, d_v] = calls_[1]->attention.volumes;
    if (d_o.dims != o.dims || d_q.dims != q.dims || d_k.dims != k.dims || d_v.dims != v.dims) {
      return "the gradients have other shapes";
    }
  }
  // The next round of a repeat block must not read what this round does not compute.
  for (std::size_t number = block_.first; block_.repeat >= 0 && number < block_.last; ++number) {
    for (const std::uint32_t tensor : replaced) {
      if (!members_.contains(number) && reads(number, tensor)) {
        return "the repeat block reads its scores";
      }
    }
  }
  return nullptr;
}

}  // namespace

std::string move_fault(const Program& program, const program::Block& block, const FoundAttention& found,
                       const std::set<std::uint32_t>& replaced) {
  const char* fault = MoveChecker(program, block, found).run(replaced);
  return fault != nullptr ? fault : "";
}

bool may_conflict(const AttentionCall& one, const AttentionCall& other) {
  const auto first = [](const AttentionCall& call) { return std::min(call.place, call.statements.front()); };
  const auto last = [](const AttentionCall& call) { return std::max(call.place, call.statements.back()); };
  if (last(one) < first(other) || last(other) < first(one)) {
    return false;
  }
  return std::any_of(one.tensors.begin(), one.tensors.end(), [&](std::uint32_t tensor) {
    return std::find(other.tensors.begin(), other.tensors.end(), tensor) != other.tensors.end() &&
           (writes_tensor(one, tensor) || writes_tensor(other, tensor));
  });
}

}  // namespace yoke::codegen
