// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/npy.cpp: writes and reads the header of .npy files.
#include "data/npy.h"

#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>

#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace yoke::detail {
namespace {

using program::Type;

constexpr std::pair<std::string_view, Type> kDescriptions[] = {
    {"<f8", Type::kF64}, {"<f4", Type::kF32}, {"<f2", Type::kF16}, {"<u2", Type::kBF16}, {"<i8", Type::kI64},
    {"<i4", Type::kI32}, {"<u4", Type::kU32}, {"|u1", Type::kU8},  {"|b1", Type::kBool}};
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;

// A little-endian number.
std::uint32_t read_number(std::span<const std::byte> bytes, std::size_t offset, std::size_t byte_count) {
  std::uint32_t value = 0;
  for (std::size_t i = byte_count; i-- > 0;) {
    value = value << 8U | std::to_integer<std::uint32_t>(bytes[offset + i]);
  }
  return value;
}

// The rest of the header from the value of 'key' on. A header looks like this:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
std::string_view value_of(std::string_view header, std::string_view key, const std::string& where) {
  const std::size_t at = header.find("'" + std::string(key) + "'");
  const std::size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  const std::size_t start =
      colon == std::string_view::npos ? colon : header.find_first_not_of(' ', colon + 1);
  if (start == std::string_view::npos) {
    throw Error(ErrorCode::kDataLoss,
                where + ": the .npy header has no '" + std::string(key) + "'; save the file again");
  }
  return header.substr(start);
}

Type parse_type(std::string_view value, const std::string& where) {
  for (const auto& [description, type] : kDescriptions) {
    if (value.size() > description.size() + 1 && value.substr(1, description.size()) == description &&
        value[0] == value[description.size() + 1]) {
      return type;
    }
  }
  if (value.starts_with('[')) {
    throw Error(
        ErrorCode::kUnimplemented,
        where + ": its elements are records of several fields; save each field as an array of its own");
  }
  throw Error(ErrorCode::kUnimplemented,
              where + ": unsupported element type " + std::string(value.substr(0, value.find(','))) +
                  "; convert the array with astype to one of float64, float32, float16, int64, int32, "
                  "uint32, uint8, bool (little-endian)");
}

std::vector<std::uint64_t> parse_shape(std::string_view value, const std::string& where) {
  const auto damaged = [&] {
    return Error(ErrorCode::kDataLoss,
                 where + ": the .npy header has an invalid 'shape'; save the file again");
  };
  std::vector<std::uint64_t> dims;
  const std::size_t close = value.find(')');
  if (value.empty() || value[0] != '(' || close == std::string_view::npos) {
    throw damaged();
  }
  std::string_view rest = value.substr(1, close - 1);
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" ,"), rest.size()));
    if (rest.empty()) {
      return dims;
    }
    std::uint64_t dim = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
    if (error != std::errc()) {
      throw damaged();
    }
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    dims.push_back(dim);
  }
}

}  // namespace

std::optional<std::uint64_t> byte_count_of(program::Type type, std::span<const std::uint64_t> dims) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  std::uint64_t count = program::byte_size(type);
  for (const std::uint64_t dim : dims) {
    if (dim != 0 && count > kLargest / dim) {
      return std::nullopt;
    }
    count *= dim;
  }
  return count;
}

std::string bytes_but_needs(std::uint64_t byte_count, std::optional<std::uint64_t> needed) {
  return counted(byte_count, "byte") + (needed ? ", but its type and dims need " + std::to_string(*needed)
                                               : ", and its dims are too large");
}

std::string npy_header(program::Type type, std::span<const std::uint64_t> dims) {
  std::string text = "{'descr': '";
  for (const auto& [description, described] : kDescriptions) {
    if (described == type) {
      text += description;
    }
  }
  text += "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += std::to_string(dims[i]) + (i + 1 < dims.size() ? ", " : "");
  }
  text += dims.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t kPrefix = 10;  // magic, version, size
  text.append(kAlignment - 1 - (kPrefix + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xffU), static_cast<char>(text.size() >> 8U)};
  return header + text;
}

NamedArray parse_npy(std::span<const std::byte> file, const std::string& where) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  constexpr std::size_t kVersion = 6;
  constexpr std::size_t kSize = 8;
  if (all.size() < kSize + 4 || !all.starts_with(kMagic)) {
    throw Error(ErrorCode::kDataLoss, where + ": not a .npy file; save it with numpy.savez");
  }
  const bool wide = all[kVersion] != 1;  // versions 2 and 3 have a 4-byte size field
  const std::size_t start = kSize + (wide ? 4U : 2U);
  const std::size_t size = read_number(file, kSize, wide ? 4 : 2);
  if (size > all.size() - start) {
    throw Error(ErrorCode::kDataLoss, where + ": the .npy header is truncated; save the file again");
  }
  const std::string_view header = all.substr(start, size);
  NamedArray array;
  array.type = parse_type(value_of(header, "descr", where), where);
  array.dims = parse_shape(value_of(header, "shape", where), where);
  if (value_of(header, "fortran_order", where).starts_with("True") && array.dims.size() > 1) {
    throw Error(ErrorCode::kUnimplemented,
                where + ": Fortran order is not supported; convert with numpy.ascontiguousarray");
  }
  const auto wanted = byte_count_of(array.type, array.dims);
  const auto data = file.subspan(start + size);
  if (!wanted || data.size() != *wanted) {
    throw Error(
        ErrorCode::kDataLoss,
        where + ": the array has " + detail::bytes_but_needs(data.size(), wanted) + "; save the file again");
  }
  array.bytes.assign(data.begin(), data.end());
  return array;
}

}  // namespace yoke::detail
