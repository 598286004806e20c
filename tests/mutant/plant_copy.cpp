// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_copy.cpp: bugs in the checks of copies and fills.
#include <yoke/sdk/detail/backend_table.h>

#include <algorithm>
#include <new>

#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

std::uint64_t size_of(const yoke_buffer* buffer) {
  return buffer->byte_count;
}

}  // namespace

void plant_in_copy(yoke_backend_api& table) {
  plant<"range_check_overflows">(table.from_host, [](auto* stream, auto* dst, auto offset, auto* src,
                                                     auto byte_count, auto* out_source, auto* error) {
    if (offset + byte_count < offset && offset + byte_count <= size_of(dst)) {
      return std::int32_t{YOKE_STATUS_OK};  // accepts the range, but does not copy, which would crash
    }
    return detail::from_host(stream, dst, offset, src, byte_count, out_source, error);
  });
  plant<"range_end_is_off_by_one">(
      table.to_host, [](auto* stream, auto* src, auto offset, auto* dst, auto byte_count, auto* error) {
        const bool is_one_too_long =
            offset <= size_of(src) && byte_count != 0 && byte_count == size_of(src) - offset + 1;
        return detail::to_host(stream, src, offset, dst, byte_count - (is_one_too_long ? 1 : 0), error);
      });
  plant<"range_is_cut_silently">(table.fill, [](auto* stream, auto* dst, auto offset, auto byte_count,
                                                auto* pattern, auto size, auto* error) {
    const std::uint64_t from = std::min(offset, size_of(dst));
    const std::uint64_t fits = (size_of(dst) - from) / std::max(size, 1U) * size;
    return detail::fill(stream, dst, from, std::min(byte_count, fits), pattern, size, error);
  });
  plant<"fill_takes_any_pattern">(table.fill, [](auto* stream, auto* dst, auto offset, auto byte_count,
                                                 auto* pattern, auto size, auto* error) {
    const bool is_valid = size == 1 || size == 2 || size == 4 || size == 8;
    return detail::fill(stream, dst, offset, byte_count, pattern, is_valid ? size : 1, error);
  });
  plant<"copy_fails_without_text">(
      table.to_host, [](auto* stream, auto* src, auto offset, auto* dst, auto byte_count, auto*) {
        return detail::to_host(stream, src, offset, dst, byte_count, nullptr);
      });
  plant<"to_host_throws">(table.to_host, [](auto...) -> std::int32_t { throw std::bad_alloc(); });
  plant<"success_sets_error">(table.from_host, [](auto* stream, auto* dst, auto offset, auto* src,
                                                  auto byte_count, auto* out_source, auto* error) {
    dst->plugin().host.report(error, YOKE_STATUS_OK, "no error");
    return detail::from_host(stream, dst, offset, src, byte_count, out_source, error);
  });
}

}  // namespace yoke::mutant
