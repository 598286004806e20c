// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/arrays.cpp: checks arrays before they are saved, and chooses the format by the file's name.
#include "data/arrays.h"

#include <yoke/runtime/counted.h>
#include <yoke/runtime/ending.h>
#include <yoke/runtime/error.h>
#include <yoke/safetensors.h>

#include <set>
#include <string>
#include <string_view>

#include "data/npy.h"

namespace yoke {

namespace detail {

void check_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  constexpr std::size_t kLongestName = 65000;
  std::set<std::string_view> names;
  for (const NamedArray& array : arrays) {
    const auto refuse = [&](const std::string& why) {
      return Error(ErrorCode::kInvalidArgument, "cannot save to " + path.string() + ": " + why);
    };
    if (array.name.empty() || array.name.size() > kLongestName) {
      throw refuse("the name of an array has " + detail::counted(array.name.size(), "byte") +
                   "; names must have 1 to " + std::to_string(kLongestName));
    }
    if (!names.insert(array.name).second) {
      throw refuse("two arrays are named '" + array.name + "'; names must be unique");
    }
    const auto wanted = byte_count_of(array.type, array.dims);
    if (!wanted || *wanted != array.bytes.size()) {
      throw refuse("array '" + array.name + "' has " + bytes_but_needs(array.bytes.size(), wanted));
    }
  }
}

}  // namespace detail

bool is_safetensors(const std::filesystem::path& path) {
  return detail::ending_of(path) == ".safetensors";
}

void save_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  is_safetensors(path) ? save_safetensors(path, arrays) : save_npz(path, arrays);
}

std::vector<NamedArray> load_arrays(const std::filesystem::path& path) {
  return is_safetensors(path) ? load_safetensors(path).arrays : load_npz(path);
}

}  // namespace yoke
