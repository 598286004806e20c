// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/products.h: products of matrices that the vendor's library computes on one device.
//
// The library is optional. It chooses an algorithm when a product is compiled: never one that adds parts of
// sums in an order that changes from run to run, and never one that rounds parts to the type of the result.
// hipBLASLt has no such setting.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"

namespace yoke::gpu {

class Context;

struct ProductOptions {
  bool vendor = true;  // use the library
  bool tf32 = false;   // f32 factors are rounded to 10 bits
  bool relu = false;   // the library may apply relu, which may turn NaN into 0
};

// An object of the library, destroyed with its owner.
class BlasObject {
 public:
  explicit BlasObject(const Function<int(void*)>& destroy) : destroy_(&destroy) {}
  BlasObject(BlasObject&& other) noexcept
      : handle(std::exchange(other.handle, nullptr)), destroy_(other.destroy_) {}
  BlasObject& operator=(BlasObject&&) = delete;
  BlasObject(const BlasObject&) = delete;
  BlasObject& operator=(const BlasObject&) = delete;
  ~BlasObject() {
    if (handle != nullptr) {
      (void)(*destroy_)(handle);
    }
  }

  void* handle = nullptr;

 private:
  const Function<int(void*)>* destroy_;
};

// A product with its algorithm. Immutable, shared by all routines that compute it.
struct PlannedProduct {
  codegen::LibraryProduct product;
  int compute_type = 0;
  std::vector<BlasObject> layouts;              // of a, b and the result
  std::array<std::uint64_t, 8> algorithm = {};  // as large as any library's
};

// One device's use of the library. Thread-safe.
class Products {
 public:
  explicit Products(Context& context) : context_(context) {}
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Whether the library can be used. The first call opens it, and logs its version or why it is not used.
  bool is_available();
  // Returns null if the library does not support the product, or if a call of it fails. Equal products get the same
  // object.
  std::shared_ptr<const PlannedProduct> plan(const codegen::LibraryProduct& product,
                                             const ProductOptions& options);
  // Identifies the library and the options, because results may depend on both.
  std::string identity(const codegen::LibraryProduct& product, const ProductOptions& options) const;

  // A handle of the library. Work with the same handle must not run at the same time: handles may own memory.
  // Destroying a Handle keeps the library's handle for the next call.
  struct GiveBack {
    Products* products = nullptr;
    void operator()(void* handle) const noexcept { products->give_back(handle); }
  };
  using Handle = std::unique_ptr<void, GiveBack>;
  Handle take_handle();

  // Throws YOKE_STATUS_UNAVAILABLE, with the name of the function, unless `code` is 0.
  void check(const char* name, int code) const;
  // Like check, for launches, which also fail if earlier work has lost the device. Precondition: the context
  // is current.
  void check_launch(const char* name, int code) const;
  const Blas& blas() const noexcept { return *blas_; }
  const BlasFacts& facts() const noexcept;

 private:
  std::string open();  // returns why the library cannot be used
  std::shared_ptr<const PlannedProduct> make(const codegen::LibraryProduct& product,
                                             const ProductOptions& options);
  bool find_algorithm(PlannedProduct& planned);
  void give_back(void* handle) noexcept;

  Context& context_;
  const Blas* blas_ = nullptr;
  int version_ = 0;
  bool is_available_ = false;
  std::once_flag opened_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const PlannedProduct>> planned_;  // by identity; null: unsupported
  std::mutex handles_mutex_;
  std::vector<void*> handles_;  // free ones
};

// The interface to the library that the kernel generator uses.
class ProductChooser final : public codegen::VendorLibrary<codegen::LibraryProduct> {
 public:
  ProductChooser(Products& products, const ProductOptions& options)
      : products_(products), options_(options) {}
  const char* name() const override { return products_.facts().name; }
  bool is_available() override { return products_.is_available(); }
  std::optional<std::uint64_t> workspace_for(const codegen::LibraryProduct& product) override;

 private:
  Products& products_;
  ProductOptions options_;
};

// A product that is bound to memory.
class LinkedProduct {
 public:
  // `product` is that of the launch, and `addresses` are those of its slots.
  LinkedProduct(const Products& products, std::shared_ptr<const PlannedProduct> planned,
                const codegen::LibraryProduct& product, std::span<const Address> addresses);
  // Precondition: the context is current.
  void launch(void* handle, void* stream) const;

 private:
  const Products& products_;
  std::shared_ptr<const PlannedProduct> planned_;
  BlasObject description_;
  Address a_;
  Address b_;
  Address result_;
  Address workspace_ = 0;
};

}  // namespace yoke::gpu
