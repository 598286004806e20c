// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/members.h: contexts on streams of one device, as members of a group.
#pragma once

#include <yoke/yoke.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common.h"

namespace yoke::testing {

inline std::vector<float> read(const Context& context, const std::string& name) {
  std::vector<float> values(context.tensor(name).spec.byte_count() / sizeof(float));
  context.to_host(name, std::as_writable_bytes(std::span(values)));
  context.stream()->wait();
  return values;
}

struct Members {
  explicit Members(std::size_t count, RuntimeOptions options = {})
      : device(test_runtime(std::move(options))->backend(backend_name())->open_device(0)) {
    for (std::size_t k = 0; k < count; ++k) {
      contexts.emplace_back(Stream::create(device, "member " + std::to_string(k)));
    }
  }
  // What a backward pass of the member computes.
  void set_gradient(std::size_t member, const Parameter& parameter, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    contexts[member].from_host("gradient/" + parameter.name(), bytes);
    contexts[member].stream()->wait();
  }

  std::shared_ptr<Device> device;
  std::vector<Context> contexts;
  Parameter w{"layer.weight", {2}, Initializer::zeros()};
  Parameter b{"layer.bias", {3}, Initializer::zeros()};
};

}  // namespace yoke::testing
