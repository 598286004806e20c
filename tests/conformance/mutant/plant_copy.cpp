// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/plant_copy.cpp: bugs of the checks before a copy.
#include <yoke/sdk/detail/backend_table.h>

#include <algorithm>

#include "bug.h"
#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

std::uint64_t size_of(const yoke_buffer* buffer) {
  return buffer->reservation.byte_count();
}

void plant_in_ranges(yoke_backend_api& table) {
  if (on<"range_check_overflows">()) {
    table.from_host = [](yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, const void* src,
                         std::uint64_t byte_count, std::int32_t* out_source, yoke_error* error) {
      if (offset + byte_count < offset && offset + byte_count <= size_of(dst)) {
        return std::int32_t{YOKE_OK};  // "it fits"; to copy it would crash here
      }
      return detail::from_host(stream, dst, offset, src, byte_count, out_source, error);
    };
  }
  if (on<"range_end_is_off_by_one">()) {
    table.to_host = [](yoke_stream* stream, yoke_buffer* src, std::uint64_t offset, void* dst,
                       std::uint64_t byte_count, yoke_error* error) {
      const bool is_just_outside =
          offset <= size_of(src) && byte_count != 0 && byte_count == size_of(src) - offset + 1;
      return detail::to_host(stream, src, offset, dst, byte_count - (is_just_outside ? 1 : 0), error);
    };
  }
  if (on<"range_is_cut_silently">()) {
    table.fill = [](yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, std::uint64_t byte_count,
                    const void* pattern, std::uint32_t pattern_byte_count, yoke_error* error) {
      const std::uint64_t from = std::min(offset, size_of(dst));
      const std::uint64_t fits =
          (size_of(dst) - from) / std::max(pattern_byte_count, 1U) * pattern_byte_count;
      return detail::fill(stream, dst, from, std::min(byte_count, fits), pattern, pattern_byte_count, error);
    };
  }
}

}  // namespace

void plant_in_copy(yoke_backend_api& table) {
  plant_in_ranges(table);
  if (on<"fill_takes_any_pattern">()) {
    table.fill = [](yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, std::uint64_t byte_count,
                    const void* pattern, std::uint32_t pattern_byte_count, yoke_error* error) {
      const bool is_known = pattern_byte_count == 1 || pattern_byte_count == 2 || pattern_byte_count == 4 ||
                            pattern_byte_count == 8;
      return detail::fill(stream, dst, offset, byte_count, pattern, is_known ? pattern_byte_count : 1, error);
    };
  }
  if (on<"copy_refuses_without_text">()) {
    table.to_host = [](yoke_stream* stream, yoke_buffer* src, std::uint64_t offset, void* dst,
                       std::uint64_t byte_count, yoke_error*) {
      return detail::to_host(stream, src, offset, dst, byte_count, nullptr);
    };
  }
  if (on<"success_builds_text">()) {
    table.from_host = [](yoke_stream* stream, yoke_buffer* dst, std::uint64_t offset, const void* src,
                         std::uint64_t byte_count, std::int32_t* out_source, yoke_error* error) {
      dst->plugin().host.report(error, YOKE_OK, "no error");
      return detail::from_host(stream, dst, offset, src, byte_count, out_source, error);
    };
  }
}

}  // namespace yoke::mutant
