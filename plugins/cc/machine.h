// SPDX-License-Identifier: Apache-2.0
// plugins/cc/machine.h: cores and NUMA nodes, and how cc divides them among its devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace yoke::cc {

// The cores of one device, all on one NUMA node.
struct Cell {
  std::int32_t node = -1;  // -1: the machine has one node, or its nodes are unknown
  std::vector<int> cores;  // cores that this process may use; never empty
};

// The cells of all devices. Together they hold every core of the process, so that one stream per core on
// every device uses the whole machine. `wanted` is the number of cells,
// but every node has at least one. 0: one per core, from two (so that code for several devices runs on every
// machine) to eight.
std::vector<Cell> machine_cells(std::size_t wanted);
// Like machine_cells(), for these usable cores and the node of each core (see nodes_of_cores()).
std::vector<Cell> cells_of(const std::vector<int>& usable, const std::map<int, std::int32_t>& nodes,
                           std::size_t wanted);
// The NUMA node of each core, from the kernel's files in `folder`; empty if the machine has only one node.
std::map<int, std::int32_t> nodes_of_cores(const std::string& folder);

// An id that consists of the cell's cores, such as "cpu:0-3,8".
std::string unique_id(const std::vector<Cell>& cells, std::uint32_t ordinal);

std::string processor_name();
std::uint64_t memory_byte_count();

// Asks the kernel to allocate pages of the range on `node`. Failures
// are ignored: this is only an optimization.
void prefer_node(void* memory, std::uint64_t byte_count, std::int32_t node);
// Restricts the calling thread to the cell's cores. Does nothing if
// the thread's last call named the same cell.
void stay_on(const Cell& cell);

}  // namespace yoke::cc
