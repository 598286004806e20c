// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/inflate.h: deflated bytes made whole again, alone or in a gzip file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

// Inflates one raw deflate stream and says how many bytes of `packed` it took. More than `limit` bytes, or a
// broken stream, is an Error that begins with `what`.
std::vector<std::byte> inflate(std::span<const std::byte> packed, std::uint64_t limit,
                               const std::string& what, std::size_t& out_taken);

bool is_gzip(std::span<const std::byte> bytes);

// All members of a gzip file, one behind the other; sizes and checksums are checked.
std::vector<std::byte> gunzip(std::span<const std::byte> file, const std::string& what);

}  // namespace yoke::detail
