// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/inflate.h: decompresses raw deflate streams and gzip files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

// Inflates one raw deflate stream from the start of `packed`, and sets `out_taken` to its length. Error
// kDataLoss: the stream is invalid or inflates to more than `limit` bytes. Messages begin with `what`.
std::vector<std::byte> inflate(std::span<const std::byte> packed, std::uint64_t limit,
                               const std::string& what, std::size_t& out_taken);

bool is_gzip(std::span<const std::byte> bytes);

// Decompresses all members of a gzip file and concatenates them. Checks sizes and checksums.
std::vector<std::byte> gunzip(std::span<const std::byte> file, const std::string& what);

}  // namespace yoke::detail
