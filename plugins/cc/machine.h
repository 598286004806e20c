// SPDX-License-Identifier: Apache-2.0
// plugins/cc/machine.h: cores and NUMA nodes, and how cc's devices share them out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::cc {

// One device: a share of the cores of one NUMA node.
struct Cell {
  std::int32_t node = -1;  // -1: the machine has one node, or does not say
  std::vector<int> cores;  // that this process may use; never empty
};

// The devices. The cores of the process are shared out among them, so that one stream per core on every
// device is the whole machine. At least two, so that code for several devices runs on every machine.
std::vector<Cell> machine_cells();

std::string processor_name();
std::uint64_t memory_byte_count();

// Asks that pages of the range come from the node; a wish, silently ignored where the kernel refuses.
void prefer_node(void* memory, std::uint64_t byte_count, std::int32_t node);
// Lets the calling thread run on the cores only; once per thread and device.
void stay_on(const Cell& cell);

}  // namespace yoke::cc
