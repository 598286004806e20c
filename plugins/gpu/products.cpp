// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/products.cpp: asks the vendor's library for algorithms, and launches its products.
#include "products.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "context.h"

namespace yoke::gpu {
namespace {

using codegen::LibraryProduct;
using codegen::Matrix;

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20U;

int type_of(program::Type type) {
  return type == program::Type::kF32 ? kBlasF32 : type == program::Type::kF16 ? kBlasF16 : kBlasBF16;
}

// The largest power of two, up to kLibraryAlignment, that divides the addresses of all matrices.
std::uint32_t alignment_of(const Matrix& matrix, std::uint64_t batch) {
  const std::uint64_t elements = matrix.offset | (batch == 1 ? 0 : matrix.batch_stride);
  const std::uint64_t bytes = elements * program::byte_size(matrix.type) | codegen::kLibraryAlignment;
  return static_cast<std::uint32_t>(bytes & (~bytes + 1));
}

std::uint32_t bias_alignment_of(const LibraryProduct& product) {
  return alignment_of({program::Type::kF32, 1, 1, 1, 0, product.bias_offset, false}, 1);
}

std::uint32_t epilogue_of(const LibraryProduct& product) {
  const std::uint32_t sum = (product.has_relu ? kBlasRelu : 0U) | (product.has_bias ? kBlasBias : 0U);
  return sum != 0 ? sum : 1U;
}

std::string text_of(const Matrix& matrix, std::uint64_t batch) {
  std::string text = std::string(program::type_name(matrix.type)) + "[" + std::to_string(matrix.rows) + "," +
                     std::to_string(matrix.columns) + "]/" + std::to_string(matrix.pitch);
  text += matrix.is_transposed ? "t" : "";
  text += batch == 1 ? "" : "/" + std::to_string(matrix.batch_stride);
  return text + "@" + std::to_string(alignment_of(matrix, batch));
}

template <class T>
int set(const Function<int(void*, int, const void*, std::size_t)>& function, void* object, int attribute,
        T value) {
  return function(object, attribute, &value, sizeof value);
}

// A product with its algorithm.
class PlannedProduct final : public PlannedCall {
 public:
  explicit PlannedProduct(Products& owner) : PlannedCall(owner), products(owner) {}
  std::unique_ptr<LinkedCall> link(const codegen::Launch& launch, std::span<const Address> addresses,
                                   void* handle) const override;

  const Products& products;
  LibraryProduct product;
  int compute_type = 0;
  std::vector<LibraryObject> layouts;           // of a, b and the result
  std::array<std::uint64_t, 8> algorithm = {};  // as large as any library's
};

// The description of a product. `bias` need not be memory: the library derives an alignment from it.
LibraryObject describe(const PlannedProduct& planned, Address bias) {
  const Products& products = planned.products;
  const Blas& blas = products.blas();
  const BlasFacts& facts = products.facts();
  const LibraryProduct& product = planned.product;
  LibraryObject made(blas.product_destroy);
  products.check(blas.product_create.name, blas.product_create(&made.handle, planned.compute_type, kBlasF32));
  const auto put = [&](int attribute, auto value) {
    products.check(blas.product_set.name, set(blas.product_set, made.handle, attribute, value));
  };
  put(facts.transpose_a, product.a.is_transposed ? facts.transposed : facts.plain);
  put(facts.transpose_b, product.b.is_transposed ? facts.transposed : facts.plain);
  put(facts.epilogue, epilogue_of(product));
  if (product.has_bias) {
    put(facts.bias_type, std::int32_t{kBlasF32});
    put(facts.bias_pointer, bias);
  }
  return made;
}

LibraryObject layout_of(const Products& products, const Matrix& matrix, std::uint64_t batch) {
  const Blas& blas = products.blas();
  LibraryObject made(blas.layout_destroy);
  products.check(blas.layout_create.name,
                 blas.layout_create(&made.handle, type_of(matrix.type), matrix.rows, matrix.columns,
                                    static_cast<std::int64_t>(matrix.pitch)));
  if (batch != 1) {
    const auto put = [&](int attribute, auto value) {
      products.check(blas.layout_set.name, set(blas.layout_set, made.handle, attribute, value));
    };
    put(products.facts().batch_count, static_cast<std::int32_t>(batch));
    put(products.facts().batch_stride, static_cast<std::int64_t>(matrix.batch_stride));
  }
  return made;
}

LibraryObject preferences_for(const Products& products, const LibraryProduct& product) {
  const Blas& blas = products.blas();
  const BlasFacts& facts = products.facts();
  LibraryObject made(blas.preference_destroy);
  products.check(blas.preference_create.name, blas.preference_create(&made.handle));
  const auto put = [&](int attribute, auto value) {
    products.check(blas.preference_set.name, set(blas.preference_set, made.handle, attribute, value));
  };
  put(kBlasMaxWorkspace, kMostWorkspace);
  if (facts.reduction_schemes >= 0) {
    put(facts.reduction_schemes, kBlasFixedOrder);
  }
  if (facts.alignment >= 0) {
    put(facts.alignment, alignment_of(product.a, product.batch));
    put(facts.alignment + 1, alignment_of(product.b, product.batch));
    put(facts.alignment + 2, alignment_of(product.result, product.batch));
    put(facts.alignment + 3, alignment_of(product.result, product.batch));
  }
  return made;
}

std::string text_of(const LibraryProduct& product, const LibraryOptions& options) {
  std::string text = text_of(product.a, product.batch) + " " + text_of(product.b, product.batch) + " " +
                     text_of(product.result, product.batch) + " batch " + std::to_string(product.batch);
  text += product.accumulates ? " accumulates" : "";
  text += product.has_bias ? " bias@" + std::to_string(bias_alignment_of(product)) : "";
  text += product.has_relu ? " relu" : "";
  return text + (options.tf32 ? " tf32" : "");
}

bool find_algorithm(Products& products, PlannedProduct& planned) {
  const BlasFacts& facts = products.facts();
  // An algorithm, the size of its workspace and a status; then what yoke does not use.
  std::array<std::uint64_t, kBlasResultWords> result = {};
  const LibraryObject description = describe(planned, bias_alignment_of(planned.product));
  const LibraryObject preferences = preferences_for(products, planned.product);
  const DeviceLibrary::Handle handle = products.take_handle();
  const auto layout = [&](std::size_t i) { return planned.layouts[i].handle; };
  int count = 0;
  const int code = products.blas().find(handle.get(), description.handle, layout(0), layout(1), layout(2),
                                        layout(2), preferences.handle, 1, result.data(), &count);
  const std::size_t words = facts.algorithm_bytes / sizeof result[0];
  const std::uint64_t workspace = result[words];
  std::int32_t state = 0;
  std::memcpy(&state, &result[words + 1], sizeof state);
  if (code == facts.not_supported) {
    return false;
  }
  products.check(products.blas().find.name, code);
  if (count < 1 || state != 0 || workspace > kMostWorkspace) {
    return false;
  }
  std::copy_n(result.begin(), words, planned.algorithm.begin());
  planned.workspace_byte_count = workspace;
  return true;
}

// A product that is bound to memory.
class LinkedProduct final : public LinkedCall {
 public:
  LinkedProduct(const PlannedProduct& planned, const LibraryProduct& product,
                std::span<const Address> addresses, void* handle)
      : planned_(planned),
        handle_(handle),
        description_(describe(
            planned, product.has_bias ? addresses[3] + product.bias_offset * sizeof(float) : Address{0})) {
    const auto first = [&](const Matrix& matrix, std::size_t slot) {
      return addresses[slot] + matrix.offset * program::byte_size(matrix.type);
    };
    a_ = first(product.a, 0);
    b_ = first(product.b, 1);
    result_ = first(product.result, 2);
    workspace_ = planned.workspace_byte_count != 0 ? addresses.back() : Address{0};
  }
  void launch(void* stream) const override;

 private:
  const PlannedProduct& planned_;
  void* handle_;
  LibraryObject description_;
  Address a_ = 0;
  Address b_ = 0;
  Address result_ = 0;
  Address workspace_ = 0;
};

void LinkedProduct::launch(void* stream) const {
  static constexpr float kOne = 1;
  static constexpr float kZero = 0;
  const Blas& blas = planned_.products.blas();
  const auto layout = [&](std::size_t i) { return planned_.layouts[i].handle; };
  planned_.products.check_launch(
      blas.multiply.name,
      blas.multiply(handle_, description_.handle, &kOne, a_, layout(0), b_, layout(1),
                    planned_.product.accumulates ? &kOne : &kZero, result_, layout(2), result_, layout(2),
                    planned_.algorithm.data(), workspace_, planned_.workspace_byte_count, stream));
}

std::unique_ptr<LinkedCall> PlannedProduct::link(const codegen::Launch& launch,
                                                 std::span<const Address> addresses, void* handle) const {
  return std::make_unique<LinkedProduct>(*this, *launch.product, addresses, handle);
}

}  // namespace

Products::Products(Context& context)
    : DeviceLibrary(context, context.vendor().facts().blas.library, "product", "vendor") {}

const BlasFacts& Products::facts() const noexcept {
  return vendor().facts().blas;
}

DeviceLibrary::Opened Products::open() {
  Library& library = context().machine().library();
  blas_ = library.blas();
  return blas_ == nullptr ? Opened{library.blas_fault()} : Opened{{}, &blas_->create, &blas_->destroy};
}

int Products::version(void* handle, int& version) {
  return context().machine().library().blas_version(handle, version);
}

DeviceLibrary::Planned Products::plan(const LibraryProduct& product, const LibraryOptions& options) {
  return DeviceLibrary::plan(text_of(product, options), [&]() -> std::shared_ptr<PlannedCall> {
    const bool is_f32 = product.a.type == program::Type::kF32;
    auto made = std::make_shared<PlannedProduct>(*this);
    made->product = product;
    made->compute_type = options.tf32 && is_f32 ? facts().compute_tf32 : facts().compute_f32;
    for (const Matrix* matrix : {&product.a, &product.b, &product.result}) {
      made->layouts.push_back(layout_of(*this, *matrix, product.batch));
    }
    const Current current = context().enter();
    return find_algorithm(*this, *made) ? made : nullptr;
  });
}

std::optional<std::uint64_t> ProductChooser::workspace_for(const LibraryProduct& product) {
  if (product.has_relu && !options_.relu) {
    return std::nullopt;
  }
  const auto planned = products_.plan(product, options_);
  return planned != nullptr ? std::optional(planned->workspace_byte_count) : std::nullopt;
}

}  // namespace yoke::gpu
