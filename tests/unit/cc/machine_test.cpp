// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/machine_test.cpp: devices divide the cores of machines with one and with several NUMA nodes.
#include "machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace yoke::cc::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// A folder as the kernel's, with the lists of cores of nodes 0, 1 and so on. Null: the node is missing.
std::map<int, std::int32_t> nodes_of(const std::vector<const char*>& lists) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "yoke_machine_test";
  std::filesystem::remove_all(folder);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i] != nullptr) {
      const std::filesystem::path node = folder / ("node" + std::to_string(i));
      std::filesystem::create_directories(node);
      std::ofstream(node / "cpulist") << lists[i] << "\n";
    }
  }
  return nodes_of_cores(folder);
}

TEST(MachineTest, NodesAreReadFromTheListsOfTheirCores) {
  EXPECT_THAT(nodes_of({}), IsEmpty());
  EXPECT_THAT(nodes_of({"0-3"}), IsEmpty());
  // Nodes without cores hold only memory.
  EXPECT_THAT(nodes_of({"0-1", ""}), IsEmpty());
  EXPECT_THAT(nodes_of({"0-1,4", "", nullptr, "2-3"}),
              ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 3), Pair(3, 3), Pair(4, 0)));
}

std::vector<std::pair<std::int32_t, std::vector<int>>> divided(const std::vector<int>& usable,
                                                               const std::map<int, std::int32_t>& nodes,
                                                               std::size_t wanted) {
  std::vector<std::pair<std::int32_t, std::vector<int>>> cells;
  for (const Cell& cell : cells_of(usable, nodes, wanted)) {
    cells.emplace_back(cell.node, cell.cores);
  }
  return cells;
}

TEST(MachineTest, CellsDivideTheCoresOfEachNode) {
  // At least two cells.
  EXPECT_THAT(divided({3}, {}, 0), ElementsAre(Pair(-1, ElementsAre(3)), Pair(-1, ElementsAre(3))));
  EXPECT_THAT(divided({0, 1, 2}, {}, 2), ElementsAre(Pair(-1, ElementsAre(0)), Pair(-1, ElementsAre(1, 2))));
  // No more cells than cores on a node, unless the caller wants them.
  const std::map<int, std::int32_t> nodes = {{0, 0}, {1, 0}, {2, 0}, {3, 1}};
  EXPECT_THAT(divided({0, 1, 2, 3}, nodes, 0),
              ElementsAre(Pair(0, ElementsAre(0)), Pair(0, ElementsAre(1, 2)), Pair(1, ElementsAre(3))));
  EXPECT_THAT(divided({0, 3}, nodes, 4), ElementsAre(Pair(0, ElementsAre(0)), Pair(0, ElementsAre(0)),
                                                     Pair(1, ElementsAre(3)), Pair(1, ElementsAre(3))));
}

TEST(MachineTest, IdNamesRangesOfCores) {
  std::vector<Cell> cells = {{-1, {0}}, {-1, {2, 3, 4, 8, 10, 11, 12}}, {-1, {0}}};
  cells[1].cores.pop_back();  // the next number is still in memory
  EXPECT_EQ(unique_id(cells, 0), "cpu:0");
  EXPECT_EQ(unique_id(cells, 1), "cpu:2-4,8,10-11");
  EXPECT_EQ(unique_id(cells, 2), "cpu:0#1");
}

TEST(MachineTest, ProcessorHasTheNameThatTheKernelReports) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  const std::string label = "model name\t: ";
  EXPECT_EQ(text.str().find(label) == std::string::npos, processor_name() == "CPU");
  if (processor_name() != "CPU") {
    EXPECT_NE(text.str().find(label + processor_name() + "\n"), std::string::npos) << processor_name();
  }
}

}  // namespace
}  // namespace yoke::cc::test
