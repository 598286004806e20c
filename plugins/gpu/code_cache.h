// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/code_cache.h: compiled kernels on disk.
#pragma once

#include <yoke/sdk/host.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke::gpu {

// Files named after keys in a folder of the user. Several processes may use it at once: a writer
// renames a finished temporary file. A broken file counts as missing. Disk errors never fail a compilation.
class CodeCache {
 public:
  // An empty `folder` disables the cache. The folder is created with mode 0700 at the first write.
  CodeCache(sdk::Host host, std::string folder, std::uint64_t limit_bytes);

  std::optional<std::string> find(const std::string& key) const;
  // Stores an image, then removes the least recently used files beyond the limit.
  void store(const std::string& key, std::string_view image) const;
  void remove(const std::string& key) const;

  // The folder of an option: "off", "on" for the user's cache folder, or a path.
  static std::string folder_of(const std::string& option, const std::string& backend);

 private:
  bool prepare_folder() const;
  void evict() const;

  sdk::Host host_;
  std::string folder_;
  std::uint64_t limit_bytes_;
};

}  // namespace yoke::gpu
