// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/safetensors.h: named arrays in .safetensors files, as Hugging Face's library reads and
// writes them.
#pragma once

#include <yoke/npz.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace yoke {

struct Safetensors {
  std::vector<NamedArray> arrays;               // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Writes the arrays, the widest element type first, then by name, with a header padded to 8 bytes, so every array is
// aligned. The write is atomic, as that of save_npz. Errors: kInvalidArgument for a duplicate name, the name
// "__metadata__", text that is not UTF-8, or bytes that do not match type and dims; kResourceExhausted for a full
// disk or a header of more than 100 MB; kNotFound or kPermissionDenied for the path.
void save_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                      const std::map<std::string, std::string>& metadata = {});

// Reads all arrays. Everything in the header is checked before memory is allocated for an array: sizes, types, and that
// the arrays fill the file without holes, overlaps or trailing bytes. Unknown fields of an array are ignored. Errors:
// kNotFound or kPermissionDenied for the path; kDataLoss for a file that breaks a rule of the format; kUnimplemented
// for element types that yoke does not have, such as I8.
Safetensors load_safetensors(const std::filesystem::path& path);

// Whether the file's name ends in ".safetensors", in any case.
bool is_safetensors(const std::filesystem::path& path);

// Saves or loads a .safetensors file if the name ends so, else a .npz file.
void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays);
std::vector<NamedArray> load_arrays(const std::filesystem::path& path);

}  // namespace yoke
