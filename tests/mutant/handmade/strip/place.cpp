// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/place.cpp: where a statement reads and writes.
#include <yoke/program/access.h>

#include <algorithm>

#include "../bugs.h"
#include "kernel.h"

namespace yoke::strip {

using handmade::bug;

namespace {

std::int64_t value_of(const program::Affine& affine, const Frame& frame) {
  std::int64_t value = affine.constant;
  for (const program::Affine::Term& term : affine.terms) {
    value += term.coefficient * (term.is_symbol ? frame.launch->symbols[term.id] : frame.counters[term.id]);
  }
  return value;
}

}  // namespace

program::Access with_border(const program::Statement& statement, program::Access access) {
  std::optional<program::Literal> border;
  program::visit_target_and_reads(statement.value, [&](const program::Access& read) {
    border = !border && read.tensor == access.tensor ? read.otherwise : border;
  });
  access.otherwise = access.otherwise ? border : access.otherwise;
  return access;
}

Place::Place(const program::Program& program, const program::Statement& statement,
             const program::Access& access)
    : tensor_(access.tensor),
      type_(program.tensors[access.tensor].type),
      strides_(std::max<std::size_t>(1, statement.loops.size()), 0) {
  const program::Tensor& tensor = program.tensors[access.tensor];
  const std::vector<std::uint64_t> strides = program::strides_of(tensor);
  for (std::size_t i = 0; i < access.indices.size(); ++i) {
    const program::Index& index = access.indices[i];
    Dim dim{index.affine, index.divisor, static_cast<std::int64_t>(tensor.dims[i]),
            static_cast<std::int64_t>(strides[i]), nullptr};
    if (index.element_of) {
      program::Access element{*index.element_of, {}, {}};
      for (const program::Affine& affine : index.element_indices) {
        element.indices.push_back({affine, {}, {}, 1});
        if (bug("gather_symbol")) {
          std::erase_if(element.indices.back().affine.terms, [](const auto& term) { return term.is_symbol; });
        }
      }
      dim.element_of = std::make_shared<const Place>(program, statement, element);
      has_gather_ = true;
    } else if (dim.extent != 1 || !bug("unit_dimension")) {
      constant_ += index.affine.constant * dim.stride;
      for (const program::Affine::Term& term : index.affine.terms) {
        if (term.is_symbol) {
          symbols_.emplace_back(term.id, term.coefficient * dim.stride);
        } else {
          strides_[term.id] += term.coefficient * dim.stride;
        }
      }
    }
    dims_.push_back(std::move(dim));
  }
  is_checked_ = program::may_be_out_of_range(program, statement, access);
  otherwise_ = access.otherwise.value_or(program::Literal{});
}

std::int64_t Place::element(const Frame& frame) const {
  std::int64_t element = constant_;
  for (const auto& [symbol, stride] : symbols_) {
    element += frame.launch->symbols[symbol] * stride;
  }
  for (std::size_t loop = 0; loop < strides_.size(); ++loop) {
    element += frame.counters[loop] * strides_[loop];
  }
  return bug("element32") ? static_cast<std::int32_t>(element)
                          : element;  // with it only: tensors may be larger
}

void* Place::address(const Frame& frame) const {
  return static_cast<std::byte*>(frame.launch->tensors[tensor_]) +
         element(frame) * static_cast<std::int64_t>(program::byte_size(type_));
}

std::int64_t Place::index_value(const Frame& frame) const {
  Strip value;
  load(type_, 1, address(frame), 0, value);
  return bug("gather_signed") && type_ == Type::kU8 ? static_cast<std::int8_t>(value.whole[0])
                                                    : value.whole[0];
}

std::int64_t Place::checked_element(const Frame& frame) const {
  std::int64_t element = 0;
  bool was_divided = false;
  for (const Dim& dim : dims_) {
    if (dim.extent == 1 &&
        bug("unit_dimension")) {  // a dimension does not broadcast: its index may be out of range
      continue;
    }
    std::int64_t index = dim.element_of ? dim.element_of->index_value(frame) : value_of(dim.affine, frame);
    if (index % dim.divisor != 0 && !(was_divided && bug("one_remainder"))) {
      return -1;
    }
    was_divided = was_divided || dim.divisor != 1;
    index /= dim.divisor;
    if (index < 0 || index >= dim.extent) {
      return -1;
    }
    element += index * dim.stride;
  }
  return bug("element32") ? static_cast<std::int32_t>(element) : element;
}

// As checked_element. With the bug diagonal_border only: of the indices that advance along the strip, which starts at
// `first`, the last one is checked here and the others at the start.
std::int64_t Place::border_element(const Frame& frame, std::int64_t first) const {
  std::int64_t element = 0;
  bool was_last = false;
  for (std::size_t i = dims_.size(); i-- > 0;) {
    const Dim& dim = dims_[i];
    const std::int64_t index = value_of(dim.affine, frame);
    std::int64_t step = 0;
    for (const program::Affine::Term& term : dim.affine.terms) {
      step += !term.is_symbol && term.id == frame.strip ? term.coefficient : 0;
    }
    const std::int64_t done = frame.counters[frame.strip] - first;
    const std::int64_t checked = was_last ? index - step * done : index;
    if (checked < 0 || checked >= dim.extent) {
      return -1;
    }
    was_last = was_last || step != 0;
    element += index * dim.stride;
  }
  return element;
}

void Place::read_checked(Frame& frame, Strip& out) const {
  const auto* const data = static_cast<const std::byte*>(frame.launch->tensors[tensor_]);
  const auto size = static_cast<std::int64_t>(program::byte_size(type_));
  const bool is_regular = !has_gather_ && std::all_of(dims_.begin(), dims_.end(),
                                                      [](const Dim& dim) { return dim.divisor == 1; });
  std::int64_t& counter = frame.counters[frame.strip];
  const std::int64_t first = counter;
  bool is_outside = false;
  if (is_regular) {
    // With the bug first_row_inside only: later rows may be out of range.
    if (bug("first_row_inside") && frame.inside.contains({this, first})) {
      return load(type_, frame.count, address(frame), strides_[frame.strip], out);
    }
    const bool first_is_inside = checked_element(frame) >= 0;
    counter = first + static_cast<std::int64_t>(frame.count) - 1;
    const bool last_is_inside = checked_element(frame) >= 0;
    counter = first;
    if (first_is_inside && last_is_inside) {  // and so is everything between them
      if (bug("first_row_inside")) {
        frame.inside.insert({this, first});
      }
      return load(type_, frame.count, address(frame), strides_[frame.strip], out);
    }
    is_outside = bug("both_ends") && !first_is_inside && !last_is_inside;
  }
  // With the bug pad_vector only: the border may be between the two elements of a vector.
  const bool is_paired =
      bug("pad_vector") && is_regular && strides_[frame.strip] == 1 && dims_.back().extent % 2 == 0;
  std::int64_t pair = -1;
  for (std::size_t k = 0; k < frame.count; ++k) {
    counter = first + static_cast<std::int64_t>(k);
    const bool is_second = is_paired && k % 2 == 1;
    const std::int64_t element = is_outside                             ? -1
                                 : is_second                            ? (pair < 0 ? -1 : pair + 1)
                                 : is_regular && bug("diagonal_border") ? border_element(frame, first)
                                                                        : checked_element(frame);
    pair = element;
    Strip one;
    if (element < 0) {
      one.real[0] = otherwise_.number;
      one.whole[0] = otherwise_.integer;
    } else {
      load(type_, 1, data + element * size, 0, one);
    }
    out.real[k] = program::is_float(type_) ? one.real[0] : 0;
    out.whole[k] = program::is_float(type_) ? 0 : one.whole[0];
  }
  counter = first;
}

void Place::read(Frame& frame, Strip& out) const {
  if (is_checked_) {
    read_checked(frame, out);
  } else {
    load(type_, frame.count, address(frame), strides_[frame.strip], out);
  }
}

void set_counters(const std::vector<program::Loop>& loops, std::span<const std::uint32_t> order,
                  std::uint64_t number, std::vector<std::int64_t>& counters) {
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::uint64_t extent = loops[order[i]].extent;
    counters[order[i]] = static_cast<std::int64_t>(number % extent);
    number /= extent;
  }
}

}  // namespace yoke::strip
