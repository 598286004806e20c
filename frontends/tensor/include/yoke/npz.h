// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/npz.h: named arrays in .npz
// files, as written by numpy.savez and read by numpy.load.
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
  std::vector<std::uint64_t> dims;  // empty: a scalar
  std::vector<std::byte> bytes;     // row-major, little-endian
};

// Writes the arrays, uncompressed and in the given order. The write is atomic: an existing file stays
// unchanged until the new one is complete. numpy has no bf16 type, so a bf16 array is stored as uint16 under
// `name` + ".bf16"; load_npz reverses this. Errors: kInvalidArgument for a duplicate name, a name that is
// empty or longer than 65000 bytes, or bytes that do not match type and dims; kResourceExhausted for a full
// disk or more than 4 GiB of data; kNotFound or kPermissionDenied for the path.
void save_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays);

// Reads all arrays, in the order of the file. Entries may be stored or deflated (numpy.savez_compressed).
// Errors: kNotFound or kPermissionDenied for the path; kDataLoss for a file that is
// not a zip archive, is truncated or has a wrong checksum; kUnimplemented for
// unsupported element types, big-endian data and Fortran order.
std::vector<NamedArray> load_npz(const std::filesystem::path& path);

// Reads one array of a .npy file, as numpy.save writes it; its name is empty. Errors: as load_npz.
NamedArray load_npy(const std::filesystem::path& path);

// Writes such a file, atomically; the name is not used, and a bf16 array becomes uint16. Errors: as save_npz.
void save_npy(const std::filesystem::path& path, const NamedArray& array);

// Checks that save_npz can create a file at `path`, and throws the Error that save_npz would throw if not.
// Leaves no file behind.
void check_can_save(const std::filesystem::path& path);

}  // namespace yoke
