// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/library_convolution.cpp: plans convolutions that a library of the vendor computes.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "convolution.h"
#include "library_product.h"

namespace yoke::codegen {
namespace {

std::string shape_text(const Volume& volume) {
  std::string text;
  for (const std::uint64_t extent : volume.dims) {
    text += (text.empty() ? "" : " x ") + std::to_string(extent);
  }
  return text;
}

std::string convolution_text(const LibraryConvolution& made) {
  constexpr const char* kNames[] = {"convolution", "gradient of the input", "gradient of the filters"};
  return std::string(kNames[static_cast<std::size_t>(made.kind)]) + ", " + shape_text(made.volumes[0]) +
         " by " + shape_text(made.volumes[1]);
}

}  // namespace

std::size_t plan_library_convolution(Builder& builder, std::span<const std::size_t> statements,
                                     const matmul::Product& product, std::string& remark) {
  VendorLibrary<LibraryConvolution>* library = builder.libraries().convolutions;
  if (library == nullptr || product.uses(false) || product.uses(true) || !library->is_available()) {
    return 0;
  }
  const program::Program& program = builder.program();
  const program::Statement& statement = program.statements[statements[0]];
  const auto refuse = [&](const std::string& reason) -> std::size_t {
    if (!reason.empty()) {
      remark += (remark.empty() ? "not by " : "; not by ") + std::string(library->name()) + ": " + reason;
    }
    return 0;
  };
  std::string why_not;
  auto found = find_convolution(program, statement, product, why_not);
  if (!found) {
    return refuse(why_not);
  }
  if (const char* reason = library_fault(program, statement, product)) {
    return refuse(reason);
  }
  LibraryConvolution& made = found->convolution;
  const RoundedResult result = rounded_result(program, statements, product);
  if (result.type != made.type) {
    return refuse("the result has another type than the factors");
  }
  const auto workspace = library->workspace_for(made);
  if (!workspace) {
    return refuse("it does not support the convolution");
  }
  found->tensors[made.result()] = result.target;
  made.workspace_byte_count = *workspace;
  builder.begin_step(statements.first(result.statement_count));
  Launch launch;
  for (const std::uint32_t tensor : found->tensors) {
    launch.slots.push_back(builder.slot(tensor));
  }
  if (*workspace != 0) {
    launch.slots.push_back(builder.scratch(*workspace));
  }
  launch.remark = std::string("by ") + library->name() + ": " + convolution_text(made);
  launch.convolution = made;
  builder.launch(std::move(launch));
  return result.statement_count;
}

std::optional<std::uint64_t> last_element(const Volume& volume) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int32_t>::max();
  std::uint64_t last = 0;
  std::array<std::size_t, 4> order = {0, 1, 2, 3};  // from inner to outer
  std::sort(order.begin(), order.end(), [&](std::size_t one, std::size_t other) {
    return std::pair(volume.strides[one], volume.dims[one]) <
           std::pair(volume.strides[other], volume.dims[other]);
  });
  for (const std::size_t i : order) {
    // A negative stride is very large.
    if (volume.dims[i] > kLargest || volume.strides[i] > kLargest ||
        (volume.dims[i] > 1 && volume.strides[i] <= last)) {
      return std::nullopt;
    }
    last += (volume.dims[i] - 1) * volume.strides[i];
  }
  return last < kLargest && volume.offset < kLargest ? std::optional(last) : std::nullopt;
}

}  // namespace yoke::codegen
