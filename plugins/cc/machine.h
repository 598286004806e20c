// SPDX-License-Identifier: Apache-2.0
// plugins/cc/machine.h: cores and NUMA nodes, and how cc divides them among its devices.
#pragma once

#include <cstddef>
#include <cstdint>
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

std::string processor_name();
std::uint64_t memory_byte_count();

// Asks the kernel to allocate pages of the range on `node`. Failures
// are ignored: this is only an optimization.
void prefer_node(void* memory, std::uint64_t byte_count, std::int32_t node);
// Restricts the calling thread to the cell's cores. Does nothing if
// the thread's last call named the same cell.
void stay_on(const Cell& cell);

}  // namespace yoke::cc
