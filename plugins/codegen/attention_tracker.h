// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_tracker.h: follows the scores of attention from statement to statement.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "attention_value.h"

namespace yoke::codegen::attention {

// The dimension of the scores that each loop of a statement steps along; -1: none of them.
struct Frame {
  std::vector<int> dimension_of;  // by loop
  bool is_row = false;            // the target has one element per query
};

// The values of the temporaries that statements computed from scores. Scores have the dimensions
// [batch, heads, queries, keys], or lack the batch.
class Tracker {
 public:
  Tracker(const program::Program& program, std::uint32_t scores);

  const std::vector<std::uint64_t>& dims() const { return dims_; }
  std::size_t rank() const { return dims_.size(); }
  bool is_tracked(std::uint32_t tensor) const { return values_.contains(tensor); }
  bool reads_tracked(const program::Expr& expr) const;
  void track(std::uint32_t tensor, const Value& value) { values_.insert_or_assign(tensor, value); }
  void forget(std::uint32_t tensor) { values_.erase(tensor); }
  const Value& value_of(std::uint32_t tensor) const { return values_.at(tensor); }

  // Tracks the target if the statement computes a known value from tracked ones. Otherwise returns false.
  bool follow(const program::Statement& statement);
  // Assigns dimensions to the loops of a read of scores, or of something with their dimensions. Empty if it reads
  // other elements.
  std::optional<Frame> frame_of(const program::Statement& statement, const program::Access& access) const;

  std::optional<double> scale() const { return scale_; }
  bool is_causal() const { return is_causal_; }
  bool is_softmax() const { return total_ >= 0; }
  std::uint32_t total() const { return static_cast<std::uint32_t>(total_); }  // the first tensor of kTotal
  static Formula weights();
  Formula score_gradient() const;

 private:
  std::optional<Frame> target_frame(const program::Statement& statement) const;
  bool assign(const program::Index& index, const std::vector<program::Loop>& loops, std::size_t dimension,
              Frame& frame) const;
  std::optional<Value> evaluate(const program::Expr& expr, const Frame& frame) const;
  std::optional<Value> of_arithmetic(const program::Expr& expr, const Frame& frame) const;
  std::optional<Value> of_read(const program::Access& access, const Frame& frame) const;
  std::optional<Value> of_exp(const Value& argument) const;
  std::optional<Value> reduced(const program::Statement& statement, const Value& value);
  bool is_mask(const program::Expr& expr, const Frame& frame) const;
  bool is_comparison(const program::Expr& expr, const Frame& frame) const;
  bool may_round(const Value& value) const;

  const program::Program& program_;
  std::vector<std::uint64_t> dims_;
  std::map<std::uint32_t, Value> values_;
  std::optional<double> scale_;
  bool is_causal_ = false;
  std::int64_t total_ = -1;
};

}  // namespace yoke::codegen::attention
