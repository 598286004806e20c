// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/gzip.h: decompresses gzip files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

bool is_gzip(std::span<const std::byte> bytes);

// Decompresses all members of a gzip file and concatenates them. Error kDataLoss: the file is damaged; the
// message begins with `what`.
std::vector<std::byte> gunzip(std::span<const std::byte> file, const std::string& what);

}  // namespace yoke::detail
