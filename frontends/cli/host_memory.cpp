// SPDX-License-Identifier: Apache-2.0
// frontends/cli/host_memory.cpp: reads /proc/meminfo and the limits of the control groups.
#include "host_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::uint64_t>;

// The number in a file; empty for "max" and for a file that does not exist.
Bytes number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? Bytes(number) : Bytes();
}

// The number after `key` in a file of lines "key number".
Bytes number_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (words >> name >> number && name == key) {
      return number;
    }
  }
  return {};
}

Bytes smaller(Bytes a, Bytes b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

struct Names {
  const char* limit;
  const char* used;
  const char* reclaimable;  // a key in memory.stat: pages of files that count as used but can be dropped
};
constexpr Names kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kV2 = {"memory.max", "memory.current", "inactive_file"};

Bytes left_in(const fs::path& group, const Names& names) {
  const Bytes limit = number_in(group / names.limit);
  const Bytes used = number_in(group / names.used);
  if (!limit || !used) {
    return {};
  }
  const std::uint64_t dropped = number_of(group / "memory.stat", names.reclaimable).value_or(0);
  const std::uint64_t held = *used - std::min(*used, dropped);
  return *limit - std::min(*limit, held);
}

// The least that is left in a group and the groups that contain it.
Bytes left_above(const fs::path& mount, std::string group, const Names& names) {
  Bytes left = left_in(mount, names);
  while (group.size() > 1 && group.front() == '/') {
    left = smaller(left, left_in(mount / group.substr(1), names));
    group.resize(group.rfind('/'));
  }
  return left;
}

}  // namespace

std::optional<std::uint64_t> available_host_memory(const fs::path& root) {
  Bytes available = number_of(root / "proc/meminfo", "MemAvailable:");
  if (available) {
    *available *= 1024;
  }
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,memory:/user" or, in v2, "0::/user"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      available = smaller(available, left_above(root / "sys/fs/cgroup", group, kV2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      available = smaller(available, left_above(root / "sys/fs/cgroup/memory", group, kV1));
    }
  }
  return available;
}

}  // namespace yoke::cli
