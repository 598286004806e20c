// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/scalar_table.h: the tensors on the shards that hold the values of Scalars.
#pragma once

#include <yoke/runtime/context.h>
#include <yoke/tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

// The name of the scalar's tensor in a context.
std::string scalar_name(const Tensor& scalar);
// Queues the scalar's value; allocates nothing.
void fill_scalar(const Context& context, std::string_view name, const Tensor& scalar, double value);

class ScalarTable {
 public:
  // Allocates tensors for scalars that are not in the table, in each context, and queues their values.
  // Error kInvalidArgument: another scalar has the same name.
  void add(std::span<Context> contexts, std::span<const Tensor> scalars);
  // Queues the values that have changed, on the streams of all contexts. Allocates nothing.
  void send();

 private:
  struct Entry {
    Tensor scalar;
    std::string name;
    double sent = 0;
    // Numbers of contexts; fewer than all if add() has failed.
    std::size_t allocated = 0;
    std::size_t filled = 0;
  };
  std::vector<Entry> entries_;
  std::vector<Context> contexts_;
};

}  // namespace yoke::detail
