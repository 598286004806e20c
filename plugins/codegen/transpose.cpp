// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/transpose.cpp: kernels for elementwise statements that read and write along different axes.
#include "transpose.h"

#include <algorithm>
#include <string>

#include "general.h"
#include "vectors.h"

namespace yoke::codegen {
namespace {

constexpr std::uint64_t kSide = 32;        // of a tile
constexpr std::uint64_t kLeastExtent = 8;  // of both axes
constexpr std::size_t kMostTiles = 4;      // in shared memory

class TransposePrinter : private VectorPrinter {
 public:
  TransposePrinter(Builder& builder, const Group& group) : VectorPrinter(builder, group, std::nullopt) {
    for (std::size_t axis = 0; axis + 1 < axes_.axes.size() && reads_.empty(); ++axis) {
      across_ = axis;
      find_reads();
    }
  }

  bool is_useful() const { return !reads_.empty() && reads_.size() <= kMostTiles; }

  Section print() {
    // Other axes, then tiles across, then tiles along the last axis.
    std::vector<std::uint64_t> extents;
    std::vector<std::size_t> others;
    for (std::size_t axis = 0; axis + 1 < axes_.axes.size(); ++axis) {
      if (axis != across_) {
        extents.push_back(axes_.axes[axis].extent);
        others.push_back(axis);
      }
    }
    for (const std::uint64_t extent : {across(), along()}) {
      extents.push_back((extent + kSide - 1) / kSide);
    }
    std::uint64_t count = 1;
    for (const std::uint64_t extent : extents) {
      count *= extent;
    }
    const std::string type(printer_.index_type());
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      printer_.line("YK_SHARED " +
                    std::string(memory_type(program_.tensors[reads_[i].touch->access.tensor].type)) +
                    " tile" + std::to_string(i) + "[32][33];");
    }
    printer_.line("const int x = (int)threadIdx.x % 32;");
    printer_.line("const int y = (int)threadIdx.x / 32;");
    printer_.open("for (" + type + " tile = (" + type + ")block; tile < count; tile += (" + type +
                  ")blocks)");
    const std::vector<std::string> names = split(printer_, "tile", extents);
    indices_.assign(axes_.axes.size(), "0");
    for (std::size_t i = 0; i < others.size(); ++i) {
      indices_[others[i]] = names[i];
    }
    print_tile(names[others.size()], names[others.size() + 1]);
    printer_.close();
    Section section = section_of(printer_, group_.statements);
    section.count = count;
    section.blocks = static_cast<std::uint32_t>(std::min(count, kMostBlocks));
    section.is_alone = true;
    return section;
  }

 private:
  std::uint64_t across() const { return axes_.axes[across_].extent; }
  std::uint64_t along() const { return axes_.axes.back().extent; }

  // The reads with neighbors along the axis `across_` only, of tensors that the group does not write.
  void find_reads() {
    if (across() < kLeastExtent || along() < kLeastExtent) {
      return;
    }
    for (const Linear& one : axes_.linear) {
      const std::uint32_t tensor = one.touch->access.tensor;
      const bool is_written =
          std::any_of(group_.touches.begin(), group_.touches.end(),
                      [&](const Touch& touch) { return touch.is_write && touch.access.tensor == tensor; });
      if (!is_written && one.coefficients[axes_.axes[across_].loops.back()] == 1 &&
          one.coefficients[axes_.axes.back().loops.back()] > 1 && !contains(reads_, one)) {
        reads_.push_back(one);
      }
    }
  }

  // Declares the indices of both axes: one of them follows the lanes of a warp.
  void print_indices(const std::string& tile_across, const std::string& tile_along, bool lanes_are_across) {
    const std::string type(printer_.index_type());
    const auto first = [](const std::string& tile) { return tile == "0" ? "" : tile + " * 32 + "; };
    printer_.line("const " + type + " across = " + first(tile_across) + (lanes_are_across ? "x" : "(y + i)") +
                  ";");
    printer_.line("const " + type + " along = " + first(tile_along) + (lanes_are_across ? "(y + i)" : "x") +
                  ";");
    printer_.open("if (across < " + std::to_string(across()) + " && along < " + std::to_string(along()) +
                  ")");
  }

  void print_tile(const std::string& tile_across, const std::string& tile_along) {
    const std::string step = std::to_string(kGroupThreads / kSide);
    indices_[across_] = "across";
    printer_.line("#pragma unroll");
    printer_.open("for (int i = 0; i < 32; i += " + step + ")");
    print_indices(tile_across, tile_along, true);
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      const std::uint32_t tensor = reads_[i].touch->access.tensor;
      const std::string at = element(reads_[i], "along");
      printer_.line("tile" + std::to_string(i) + "[y + i][x] = " + printer_.tensor(tensor) + "[" + at + "];");
    }
    printer_.close();
    printer_.close();
    printer_.line("YK_SYNC();");
    printer_.line("#pragma unroll");
    printer_.open("for (int i = 0; i < 32; i += " + step + ")");
    print_indices(tile_across, tile_along, false);
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      const std::uint32_t tensor = reads_[i].touch->access.tensor;
      const program::Type type = program_.tensors[tensor].type;
      const std::string value =
          printer_.named(type, from_memory(type, "tile" + std::to_string(i) + "[x][y + i]"));
      printer_.know(tensor, element(reads_[i], "along"), value);
    }
    for (const std::size_t number : group_.statements) {
      select(number, "along");
      printer_.one_element();
    }
    for (const Printer::Pending& one : printer_.take_pending()) {
      if (!private_.contains(one.tensor)) {
        printer_.line(printer_.tensor(one.tensor) + "[" + one.element +
                      "] = " + to_memory(program_.tensors[one.tensor].type, one.value) + ";");
      }
    }
    printer_.close();
    printer_.close();
    printer_.line("YK_SYNC();");
  }

  std::size_t across_ = 0;  // the axis
  std::vector<Linear> reads_;
};

}  // namespace

std::optional<Section> print_transposed(Builder& builder, const Group& group) {
  TransposePrinter printer(builder, group);
  if (!printer.is_useful()) {
    return std::nullopt;
  }
  return printer.print();
}

}  // namespace yoke::codegen
