// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/scalar_table.cpp: copies the values of Scalars to the shards.
#include "scalar_table.h"

#include <algorithm>
#include <bit>

#include "node.h"

namespace yoke::detail {
namespace {

bool is_same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

std::string scalar_name(const Tensor& scalar) {
  return "scalar/" + scalar.name();
}

void fill_scalar(const Context& context, std::string_view name, const Tensor& scalar, double value) {
  const auto rounded = static_cast<float>(value);
  const bool is_f64 = scalar.type() == Type::kF64;
  context.stream()->fill(context.tensor(name).view, is_f64 ? static_cast<const void*>(&value) : &rounded,
                         is_f64 ? sizeof(value) : sizeof(rounded));
}

void ScalarTable::add(std::span<Context> contexts, std::span<const Tensor> scalars) {
  contexts_.assign(contexts.begin(), contexts.end());
  for (const Tensor& scalar : scalars) {
    const std::string name = scalar_name(scalar);
    auto entry =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.name == name; });
    if (entry == entries_.end()) {
      entry = entries_.insert(entry, {scalar, name, scalar.node()->scalar->value});
    } else if (!entry->scalar.is(scalar)) {
      fail("two scalars are named '" + scalar.name() + "'; use one, or give them different names");
    }
    for (; entry->allocated < contexts_.size(); ++entry->allocated) {
      contexts_[entry->allocated].allocate(name, {static_cast<std::int32_t>(scalar.type()), {}});
    }
    for (; entry->filled < contexts_.size(); ++entry->filled) {
      fill_scalar(contexts_[entry->filled], name, scalar, entry->sent);
    }
  }
}

void ScalarTable::send() {
  for (Entry& entry : entries_) {
    const double value = entry.scalar.node()->scalar->value;
    if (is_same(value, entry.sent)) {
      continue;
    }
    for (const Context& context : contexts_) {
      fill_scalar(context, entry.name, entry.scalar, value);
    }
    entry.sent = value;
  }
}

}  // namespace yoke::detail
