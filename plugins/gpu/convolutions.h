// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/convolutions.h: convolutions that the vendor's library computes on one device.
//
// Used are only algorithms that always add in the same order, and that multiply factors directly: others, such as
// Winograd's, spread rounding errors and infinities to neighbors.
#pragma once

#include <optional>

#include "device_library.h"

namespace yoke::gpu {

class PlannedConvolution;

// Thread-safe.
class Convolutions final : public DnnLibrary {
 public:
  explicit Convolutions(Context& context);

  Planned plan(const codegen::LibraryConvolution& convolution, const LibraryOptions& options);
  const DnnFacts& facts() const noexcept;

 private:
  bool is_supported(const char* name, int code) const;  // throws if it failed
  bool describe(const codegen::LibraryConvolution& convolution, bool tf32, PlannedConvolution& planned) const;
  bool find_algorithm(const codegen::LibraryConvolution& convolution, PlannedConvolution& planned);
};

// The interface to the library that the kernel generator uses.
class ConvolutionChooser final : public codegen::VendorLibrary<codegen::LibraryConvolution> {
 public:
  ConvolutionChooser(Convolutions& convolutions, const LibraryOptions& options)
      : convolutions_(convolutions), options_(options) {}
  const char* name() const override { return convolutions_.facts().library.name; }
  bool is_available() override { return convolutions_.is_available(); }
  std::optional<std::uint64_t> workspace_for(const codegen::LibraryConvolution& convolution) override;

 private:
  Convolutions& convolutions_;
  LibraryOptions options_;
};

}  // namespace yoke::gpu
