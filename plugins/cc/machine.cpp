// SPDX-License-Identifier: Apache-2.0
// plugins/cc/machine.cpp: cores and NUMA nodes, and how cc divides them among its devices.
#include "machine.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace yoke::cc {
namespace {

constexpr std::size_t kMostCells = 8;
constexpr int kMostNodes = 64;  // bits of one mask

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) {
        cores.push_back(static_cast<int>(core));
      }
    }
  }
  if (cores.empty()) {
    cores.push_back(0);
  }
  return cores;
}

// Parses a list such as "0-3,8,10-11".
std::vector<int> parse_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream pieces(text);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    int first = 0;
    int last = 0;
    char dash = 0;
    std::istringstream range(piece);
    if (!(range >> first)) {
      continue;
    }
    last = range >> dash >> last ? last : first;
    for (int number = first; number <= last && number < CPU_SETSIZE; ++number) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace

std::map<int, std::int32_t> nodes_of_cores(const std::string& folder) {
  std::map<int, std::int32_t> nodes;
  std::int32_t found = 0;
  for (std::int32_t node = 0; node < kMostNodes; ++node) {
    std::ifstream file(folder + "/node" + std::to_string(node) + "/cpulist");
    std::string list;
    if (std::getline(file, list) && !list.empty()) {
      ++found;
      for (const int core : parse_list(list)) {
        nodes[core] = node;
      }
    }
  }
  return found > 1 ? nodes : std::map<int, std::int32_t>{};
}

std::vector<Cell> cells_of(const std::vector<int>& usable, const std::map<int, std::int32_t>& nodes,
                           std::size_t wanted) {
  std::map<std::int32_t, std::vector<int>> by_node;
  for (const int core : usable) {
    const auto node = nodes.find(core);
    by_node[node == nodes.end() ? -1 : node->second].push_back(core);
  }
  const std::size_t count = wanted != 0 ? wanted : std::clamp<std::size_t>(usable.size(), 2, kMostCells);
  std::vector<Cell> cells;
  std::size_t i = 0;
  for (const auto& [node, cores] : by_node) {
    const std::size_t share = count * (i + 1) / by_node.size() - count * i / by_node.size();
    const std::size_t most = wanted != 0 || by_node.size() == 1 ? share : std::min(share, cores.size());
    const std::size_t pieces = std::max<std::size_t>(most, 1);
    ++i;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      Cell cell{node, {}};
      for (std::size_t core = cores.size() * piece / pieces; core < cores.size() * (piece + 1) / pieces;
           ++core) {
        cell.cores.push_back(cores[core]);
      }
      if (cell.cores.empty()) {
        cell.cores.push_back(cores[piece % cores.size()]);  // fewer cores than cells: devices share a core
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

std::vector<Cell> machine_cells(std::size_t wanted) {
  return cells_of(usable_cores(), nodes_of_cores("/sys/devices/system/node"), wanted);
}

std::string unique_id(const std::vector<Cell>& cells, std::uint32_t ordinal) {
  const std::vector<int>& cores = cells[ordinal].cores;
  std::string id = "cpu";
  for (std::size_t first = 0, last = 0; first < cores.size(); first = ++last) {
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) {
      ++last;
    }
    id += (first == 0 ? ":" : ",") + std::to_string(cores[first]);
    id += last > first ? "-" + std::to_string(cores[last]) : "";
  }
  const auto same = std::count_if(cells.begin(), cells.begin() + ordinal,
                                  [&](const Cell& before) { return before.cores == cores; });
  return same == 0 ? id : id + "#" + std::to_string(same);  // if devices share cores
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "CPU";
}

std::uint64_t memory_byte_count() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size)
             : 0;
}

void prefer_node(void* memory, std::uint64_t byte_count, std::int32_t node) {
#if defined(SYS_mbind)
  if (node < 0 || node >= kMostNodes) {
    return;
  }
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  const unsigned long mask = 1UL << static_cast<unsigned>(node);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(memory) + byte_count) / page * page;
  if (first < last) {
    static_cast<void>(::syscall(SYS_mbind, first, last - first, kPreferred, &mask, kMostNodes + 1, 0));
  }
#else
  static_cast<void>(memory);
  static_cast<void>(byte_count);
  static_cast<void>(node);
#endif
}

void stay_on(const Cell& cell) {
  thread_local const Cell* current = nullptr;
  if (current == &cell) {
    return;
  }
  current = &cell;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cell.cores) {
    CPU_SET(static_cast<std::size_t>(core), &set);
  }
  static_cast<void>(::sched_setaffinity(0, sizeof(set), &set));
}

}  // namespace yoke::cc
