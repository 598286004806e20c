// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/products.h: products of matrices that the vendor's library computes on one device.
//
// The library never chooses an algorithm that adds parts of sums in an order that changes from run to run, and
// never one that rounds parts to the type of the result. hipBLASLt has no such setting.
#pragma once

#include <memory>
#include <optional>

#include "device_library.h"

namespace yoke::gpu {

// Thread-safe.
class Products final : public DeviceLibrary {
 public:
  explicit Products(Context& context);

  Planned plan(const codegen::LibraryProduct& product, const LibraryOptions& options);
  const Blas& blas() const noexcept { return *blas_; }
  const BlasFacts& facts() const noexcept;

 private:
  Opened open() override;
  int version(void* handle, int& version) override;

  const Blas* blas_ = nullptr;
};

// The interface to the library that the kernel generator uses.
class ProductChooser final : public codegen::VendorLibrary<codegen::LibraryProduct> {
 public:
  ProductChooser(Products& products, const LibraryOptions& options)
      : products_(products), options_(options) {}
  const char* name() const override { return products_.facts().library.name; }
  bool is_available() override { return products_.is_available(); }
  std::optional<std::uint64_t> workspace_for(const codegen::LibraryProduct& product) override;

 private:
  Products& products_;
  LibraryOptions options_;
};

}  // namespace yoke::gpu
