// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/npz.h: named tensors in a .npz file, as numpy.savez writes and numpy.load
// reads them.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace yoke {

struct NamedArray {
  std::string name;
  program::Type type = program::Type::kF32;
  std::vector<std::uint64_t> dims;  // row major; empty: a scalar
  std::vector<std::byte> bytes;
};

// Writes the arrays, uncompressed, in the order given. The file appears whole or not at all, and a file that
// was there before stays until then. numpy knows no bf16: such an array is stored as uint16 under `name` +
// ".bf16", and load_npz undoes that. Throws Error: kInvalidArgument a name twice, empty or longer than 65000
// bytes, or bytes that do not fit type and dims; kResourceExhausted a full disk, or more than 4 GiB;
// kNotFound, kPermissionDenied the path.
void save_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays);

// All arrays of a file, in its order; entries may be stored or deflated (numpy.savez_compressed).
// Throws Error: kNotFound, kPermissionDenied the path; kDataLoss a file that is no zip, is cut off, or whose
// checksums do not fit; kUnimplemented arrays of other types, of big-endian numbers, or in Fortran order.
std::vector<NamedArray> load_npz(const std::filesystem::path& path);

// Throws the Error that save_npz would, as far as it can be known now: whether a file can be made there.
// Leaves nothing.
void check_can_save(const std::filesystem::path& path);

}  // namespace yoke
