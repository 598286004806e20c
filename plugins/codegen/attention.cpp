// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention.cpp: finds the statements of attention and of its gradient.
#include "attention.h"

#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <set>
#include <utility>

#include "attention_moves.h"
#include "attention_tracker.h"
#include "matmul.h"

namespace yoke::codegen {
namespace {

using attention::Atom;
using attention::Formula;
using attention::Frame;
using attention::Tracker;
using attention::Value;
using matmul::Factor;
using matmul::Product;
using program::Program;
using program::Statement;
using program::Type;

// The loops of a statement by dimension of a volume: batch, heads, length and size; -1: none, or of one element.
using Loops = std::array<int, 4>;

// In the order of LibraryAttention::volumes.
enum Role : std::size_t {
  kQuery,
  kKey,
  kValue,
  kResult,
  kResultGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient
};

// Matches attention whose scores a statement computes.
class AttentionMatcher {
 public:
  AttentionMatcher(const Program& program, const program::Block& block, std::size_t scores)
      : program_(program), block_(block), scores_(scores) {}

  // Returns nothing if the statement does not start a softmax.
  std::optional<FoundAttention> run();

 private:
  bool start();
  bool precedes_maximum() const;
  std::optional<Product> product_of(const Statement& statement) const;
  Loops loops_of(const Frame& frame, std::size_t length, int size) const;
  bool set(Role role, const Statement& statement, const Product& product, const Factor* factor,
           const Loops& loops);
  bool multiply(std::size_t number);
  bool multiply_gradient(std::size_t number);
  std::string scan();
  const char* result_fault() const;
  AttentionCall call(AttentionKind kind) const;

  const Program& program_;
  const program::Block& block_;
  std::size_t scores_;
  std::optional<Tracker> tracker_;
  std::set<std::size_t> forward_;
  std::set<std::size_t> backward_;
  std::set<std::uint32_t> replaced_;  // tensors that the library does not compute
  std::array<std::optional<std::uint32_t>, 8> tensors_;
  std::array<Volume, 8> volumes_;
  std::array<std::size_t, 8> written_ = {};  // the statements that compute the results
  Type type_ = Type::kBF16;
};

// Products of 16-bit factors with f32 sums over one loop.
std::optional<Product> AttentionMatcher::product_of(const Statement& statement) const {
  std::string ignored;
  auto product = statement.assign == program::Assign::kSet && statement.reduce_loops.size() == 1
                     ? matmul::recognize(program_, statement, ignored)
                     : std::nullopt;
  const bool fits = product && product->sum == Type::kF32 && product->a.checks.empty() &&
                    product->b.checks.empty() && !product->uses(true) && !product->uses(false) &&
                    product->a.type == product->b.type &&
                    (product->a.type == Type::kBF16 || product->a.type == Type::kF16);
  return fits ? std::move(product) : std::nullopt;
}

// `length` is the dimension of the scores: queries or keys.
Loops AttentionMatcher::loops_of(const Frame& frame, std::size_t length, int size) const {
  const auto find = [&](std::size_t dimension) {
    const auto found =
        std::find(frame.dimension_of.begin(), frame.dimension_of.end(), static_cast<int>(dimension));
    return found != frame.dimension_of.end() ? static_cast<int>(found - frame.dimension_of.begin()) : -1;
  };
  const std::size_t rank = tracker_->rank();
  return {rank == 4 ? find(0) : -1, find(rank - 3), find(length), size};
}

// Sets the volume of a factor, or of the target if it is null. Returns false if it differs from what the role had, or
// if it is not a volume.
bool AttentionMatcher::set(Role role, const Statement& statement, const Product& product,
                           const Factor* factor, const Loops& loops) {
  const matmul::Form& form = product.forms[factor != nullptr ? factor->address : matmul::kTarget];
  const std::uint32_t tensor = factor != nullptr ? factor->tensor : product.target;
  Volume volume;
  std::uint64_t whole = 1;
  for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
    const auto found = std::find(loops.begin(), loops.end(), static_cast<int>(loop));
    if (found == loops.end()) {
      if (form.loops[loop] != 0 && statement.loops[loop].extent > 1) {
        return false;
      }
      continue;
    }
    const auto i = static_cast<std::size_t>(found - loops.begin());
    volume.dims[i] = statement.loops[loop].extent;
    volume.strides[i] = static_cast<std::uint64_t>(form.loops[loop]);
    whole = std::max(whole, volume.dims[i] * volume.strides[i]);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    volume.strides[i] = volume.dims[i] == 1 ? whole : volume.strides[i];
  }
  volume.offset = static_cast<std::uint64_t>(form.constant);
  if (tensors_[role]) {
    return factor != nullptr && tensors_[role] == tensor && volumes_[role].dims == volume.dims &&
           volumes_[role].strides == volume.strides && volumes_[role].offset == volume.offset;
  }
  if (program_.tensors[tensor].type != type_) {
    return false;
  }
  tensors_[role] = tensor;
  volumes_[role] = volume;
  return true;
}

// Whether the statement is the product of queries and keys.
bool AttentionMatcher::start() {
  const Statement& statement = program_.statements[scores_];
  const program::Tensor& target = program_.tensors[statement.target.tensor];
  const std::size_t rank = target.dims.size();
  const auto product = product_of(statement);
  if (!product || target.role != program::Role::kTemp || rank < 3 || rank > 4 || target.dims[rank - 2] < 2 ||
      target.dims[rank - 1] < 2 || (target.type != Type::kF32 && target.type != product->a.type)) {
    return false;
  }
  tracker_.emplace(program_, statement.target.tensor);
  const auto frame = tracker_->frame_of(statement, statement.target);
  if (!frame) {
    return false;
  }
  // Each head has its own queries and keys; a layer's weights, for example, are for all rows.
  for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
    const int dimension = frame->dimension_of[loop];
    if (dimension >= 0 && static_cast<std::size_t>(dimension) + 2 < rank &&
        (product->forms[product->a.address].loops[loop] == 0 ||
         product->forms[product->b.address].loops[loop] == 0)) {
      return false;
    }
  }
  type_ = product->a.type;
  const auto size = static_cast<int>(statement.reduce_loops[0]);
  const Loops queries = loops_of(*frame, rank - 2, size);
  const Loops keys = loops_of(*frame, rank - 1, size);
  const bool is_swapped = product->forms[product->a.address].loops[static_cast<std::size_t>(queries[2])] == 0;
  forward_.insert(scores_);
  replaced_.insert(statement.target.tensor);
  return set(kQuery, statement, *product, is_swapped ? &product->b : &product->a, queries) &&
         set(kKey, statement, *product, is_swapped ? &product->a : &product->b, keys);
}

// Weights or gradients of scores times something else.
bool AttentionMatcher::multiply(std::size_t number) {
  const Statement& statement = program_.statements[number];
  const auto product = product_of(statement);
  if (!product || tracker_->is_tracked(product->a.tensor) == tracker_->is_tracked(product->b.tensor)) {
    return false;
  }
  const bool is_first = tracker_->is_tracked(product->a.tensor);
  const Factor& tracked = is_first ? product->a : product->b;
  const Factor& other = is_first ? product->b : product->a;
  const auto frame = tracker_->frame_of(statement, *tracked.access);
  if (!frame || frame->is_row) {
    return false;
  }
  int size = -1;
  for (std::size_t loop = 0; loop < statement.loops.size(); ++loop) {
    if (frame->dimension_of[loop] < 0 && statement.loops[loop].extent > 1) {
      if (size >= 0) {
        return false;
      }
      size = static_cast<int>(loop);
    }
  }
  const std::size_t query = tracker_->rank() - 2;
  const auto summed = static_cast<std::size_t>(frame->dimension_of[statement.reduce_loops[0]]);
  if (size < 0 || summed < query || summed > query + 1) {
    return false;
  }
  const bool sums_keys = summed == query + 1;
  const Value& value = tracker_->value_of(tracked.tensor);
  const bool is_weights = is_close(value.seen, Tracker::weights());
  if ((value.is_masked && (!tracker_->is_causal() || !value.hides())) || !tracker_->scale() ||
      (!is_weights && !is_close(value.seen, tracker_->score_gradient()))) {
    return false;
  }
  const Role role = is_weights ? (sums_keys ? kValue : kResultGradient) : (sums_keys ? kKey : kQuery);
  const Role result =
      is_weights ? (sums_keys ? kResult : kValueGradient) : (sums_keys ? kQueryGradient : kKeyGradient);
  if (result != kResult && !tensors_[kResult]) {
    return false;  // the gradient needs what the forward pass leaves
  }
  if (!set(role, statement, *product, &other, loops_of(*frame, summed, size)) ||
      !set(result, statement, *product, nullptr, loops_of(*frame, sums_keys ? query : query + 1, size))) {
    return false;
  }
  written_[result] = number;
  (result == kResult ? forward_ : backward_).insert(number);
  return true;
}

// The product of the result's gradient and the value.
bool AttentionMatcher::multiply_gradient(std::size_t number) {
  const Statement& statement = program_.statements[number];
  const program::Tensor& target = program_.tensors[statement.target.tensor];
  const auto product = target.dims == tracker_->dims() ? product_of(statement) : std::nullopt;
  const auto frame = product ? tracker_->frame_of(statement, statement.target) : std::nullopt;
  if (!frame || target.role != program::Role::kTemp) {
    return false;
  }
  const auto size = static_cast<int>(statement.reduce_loops[0]);
  const Loops queries = loops_of(*frame, tracker_->rank() - 2, size);
  const Loops keys = loops_of(*frame, tracker_->rank() - 1, size);
  const bool is_swapped = product->forms[product->a.address].loops[static_cast<std::size_t>(queries[2])] == 0;
  if (!set(kValue, statement, *product, is_swapped ? &product->a : &product->b, keys) ||
      !set(kResultGradient, statement, *product, is_swapped ? &product->b : &product->a, queries)) {
    return false;
  }
  tracker_->track(statement.target.tensor, Value(Formula::atom(Atom::kGradient)));
  backward_.insert(number);
  return true;
}

// Returns why the statements after the scores are not attention.
std::string AttentionMatcher::scan() {
  for (std::size_t number = scores_ + 1; number < program_.statements.size(); ++number) {
    const Statement& statement = program_.statements[number];
    const std::uint32_t target = statement.target.tensor;
    const bool reads = tracker_->reads_tracked(statement.value);
    const bool is_inside = number < block_.last;
    if (is_inside && reads && multiply(number)) {
      tracker_->forget(target);
      continue;
    }
    if (is_inside && reads && tracker_->follow(statement)) {
      const Formula& formula = tracker_->value_of(target).seen;
      const bool is_gradient = formula.uses(Atom::kGradient) || formula.uses(Atom::kRows);
      (is_gradient ? backward_ : forward_).insert(number);
      replaced_.insert(target);
      continue;
    }
    if (is_inside && !reads && tensors_[kResult] && multiply_gradient(number)) {
      replaced_.insert(target);
      continue;
    }
    if (reads || (tracker_->is_tracked(target) && !program::overwrites_target(program_, statement))) {
      return "it does not compute '" + program::print(program_, statement) + "'";
    }
    tracker_->forget(target);
  }
  return {};
}

// Whether a later statement computes the maximum of each row of something with the dimensions of the scores.
bool AttentionMatcher::precedes_maximum() const {
  const std::vector<std::uint64_t>& dims = tracker_->dims();
  return std::any_of(program_.statements.begin() + static_cast<std::ptrdiff_t>(scores_),
                     program_.statements.end(), [&](const Statement& statement) {
                       const auto& row = program_.tensors[statement.target.tensor].dims;
                       return statement.reduce == program::Reduce::kMax && row.size() + 1 >= dims.size() &&
                              statement.loops[statement.reduce_loops[0]].extent == dims.back() &&
                              std::equal(dims.begin(), dims.end() - 1, row.begin());
                     });
}

const char* AttentionMatcher::result_fault() const {
  if (!tracker_->is_softmax()) {
    return "the scores have no softmax that it computes";
  }
  if (!tensors_[kResult]) {
    return "the weights are not multiplied by values";
  }
  const bool has_all = tensors_[kResultGradient] && tensors_[kQueryGradient] && tensors_[kKeyGradient] &&
                       tensors_[kValueGradient];
  return backward_.empty() || has_all ? nullptr : "a part of the gradient is missing";
}

AttentionCall AttentionMatcher::call(AttentionKind kind) const {
  AttentionCall made;
  const bool is_forward = kind == AttentionKind::kForward;
  made.attention.kind = kind;
  made.attention.type = type_;
  made.attention.volumes = volumes_;
  made.attention.scale = static_cast<float>(*tracker_->scale());
  made.attention.is_causal = tracker_->is_causal();
  made.attention.has_statistics = !backward_.empty();
  for (std::size_t i = 0; i < made.attention.volume_count(); ++i) {
    made.tensors.push_back(*tensors_[i]);
  }
  if (made.attention.has_statistics) {
    made.tensors.push_back(tracker_->total());
  }
  const std::set<std::size_t>& statements = is_forward ? forward_ : backward_;
  made.statements.assign(statements.begin(), statements.end());
  made.place = is_forward
                   ? written_[kResult]
                   : std::min({written_[kQueryGradient], written_[kKeyGradient], written_[kValueGradient]});
  return made;
}

std::optional<FoundAttention> AttentionMatcher::run() {
  if (!start()) {
    return std::nullopt;
  }
  FoundAttention found;
  found.scores = scores_;
  found.why_not = scan();
  if (const char* fault = result_fault(); found.why_not.empty() && fault != nullptr) {
    found.why_not = fault;
  }
  if (!found.why_not.empty()) {
    return tracker_->is_softmax() || precedes_maximum() ? std::optional(std::move(found)) : std::nullopt;
  }
  found.forward = call(AttentionKind::kForward);
  if (!backward_.empty()) {
    found.backward = call(AttentionKind::kBackward);
  }
  found.why_not = move_fault(program_, block_, found, replaced_);
  return found;
}

}  // namespace

std::vector<FoundAttention> find_attention(const Program& program, const program::Block& block) {
  std::vector<FoundAttention> all;
  std::set<std::size_t> taken;
  std::vector<AttentionCall> calls;
  for (std::size_t number = block.first; number < block.last; ++number) {
    if (taken.contains(number)) {
      continue;
    }
    auto found = AttentionMatcher(program, block, number).run();
    if (!found) {
      continue;
    }
    if (found->why_not.empty()) {
      std::vector<AttentionCall> added = {found->forward};
      if (found->backward) {
        added.push_back(*found->backward);
      }
      const bool is_free = std::none_of(calls.begin(), calls.end(), [&](const AttentionCall& call) {
        return std::any_of(added.begin(), added.end(),
                           [&](const AttentionCall& one) { return may_conflict(call, one); });
      });
      if (is_free) {
        for (AttentionCall& call : added) {
          taken.insert(call.statements.begin(), call.statements.end());
          calls.push_back(std::move(call));
        }
      } else {
        found->why_not = "other attention uses the memory of an operand";
      }
    }
    all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace yoke::codegen
