// SPDX-License-Identifier: Apache-2.0
// The kernel of this backend: y[..] = sum[..] x[..] * w[..] and y[..] += sum[..] x[..] * w[..] of f32.
#pragma once

#include <yoke/sdk/mixed.h>

#include <cstddef>

namespace partial {

// Empty if the statement is anything else.
yoke::sdk::Kernel product_kernel(const yoke::program::Program& program, std::size_t statement);

}  // namespace partial
