// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/products.cpp: asks the vendor's library for algorithms, and launches its products.
#include "products.h"

#include <yoke/plugin.h>

#include <algorithm>
#include <cstring>
#include <utility>

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

// The description of a product. `bias` need not be memory: the library derives an alignment from it.
BlasObject describe(const Products& products, const PlannedProduct& planned, Address bias) {
  const Blas& blas = products.blas();
  const BlasFacts& facts = products.facts();
  const LibraryProduct& product = planned.product;
  BlasObject made(blas.product_destroy);
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

BlasObject layout_of(const Products& products, const Matrix& matrix, std::uint64_t batch) {
  const Blas& blas = products.blas();
  BlasObject made(blas.layout_destroy);
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

BlasObject preferences_for(const Products& products, const LibraryProduct& product) {
  const Blas& blas = products.blas();
  const BlasFacts& facts = products.facts();
  BlasObject made(blas.preference_destroy);
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

}  // namespace

const BlasFacts& Products::facts() const noexcept {
  return context_.vendor().facts().blas;
}

void Products::check(const char* name, int code) const {
  if (code != 0) [[unlikely]] {
    throw sdk::Failure(YOKE_STATUS_UNAVAILABLE,
                       context_.hardware().info.name + ": " + name + " failed with status " +
                           std::to_string(code) + "; set the option vendor=off to do without " + facts().name,
                       code);
  }
}

void Products::check_launch(const char* name, int code) const {
  if (code != 0) [[unlikely]] {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    const auto& query = context_.driver().memory_info;
    if (const int state = query(&free_bytes, &total_bytes); is_sticky(state)) {
      context_.fail(query.name, state);
    }
  }
  check(name, code);
}

Products::~Products() {
  if (handles_.empty()) {
    return;
  }
  if (const Current current = context_.try_enter()) {
    for (void* handle : handles_) {
      (void)blas_->destroy(handle);
    }
  }
}

std::string Products::open() {
  Library& library = context_.machine().library();
  blas_ = library.blas();
  if (blas_ == nullptr) {
    return library.blas_fault();
  }
  try {
    check(facts().version_function, library.blas_version(take_handle().get(), version_));
  } catch (const sdk::Failure& failure) {
    return failure.text();
  }
  const auto text = [&](int version) {
    return std::to_string(version / facts().major_unit) + "." +
           std::to_string(version % facts().major_unit / facts().minor_unit);
  };
  return version_ >= facts().oldest
             ? ""
             : "its version is " + text(version_) + ", and yoke needs " + text(facts().oldest);
}

bool Products::is_available() {
  std::call_once(opened_, [this] {
    const std::string fault = open();
    is_available_ = fault.empty();
    const std::string end =
        " device=" + std::to_string(context_.hardware().ordinal) + " library=" + facts().name +
        (is_available_ ? " version=" + std::to_string(version_) : " reason=\"" + fault + "\"");
    context_.machine().host().log(is_available_ ? YOKE_LOG_INFO : YOKE_LOG_WARN,
                                  (is_available_ ? "products.open" : "products.skip") + end);
  });
  return is_available_;
}

Products::Handle Products::take_handle() {
  {
    const std::lock_guard lock(handles_mutex_);
    if (!handles_.empty()) {
      Handle handle(handles_.back(), {this});
      handles_.pop_back();
      return handle;
    }
  }
  const Current current = context_.enter();
  void* handle = nullptr;
  check(blas_->create.name, blas_->create(&handle));
  return Handle(handle, {this});
}

void Products::give_back(void* handle) noexcept {
  try {
    const std::lock_guard lock(handles_mutex_);
    handles_.push_back(handle);
  } catch (const std::bad_alloc&) {
    if (const Current current = context_.try_enter()) {
      (void)blas_->destroy(handle);
    }
  }
}

std::string Products::identity(const LibraryProduct& product, const ProductOptions& options) const {
  std::string text = std::string(facts().name) + " " + std::to_string(version_) + " " +
                     text_of(product.a, product.batch) + " " + text_of(product.b, product.batch) + " " +
                     text_of(product.result, product.batch) + " batch " + std::to_string(product.batch);
  text += product.accumulates ? " accumulates" : "";
  text += product.has_bias ? " bias@" + std::to_string(bias_alignment_of(product)) : "";
  text += product.has_relu ? " relu" : "";
  return text + (options.tf32 ? " tf32" : "");
}

std::shared_ptr<const PlannedProduct> Products::plan(const LibraryProduct& product,
                                                     const ProductOptions& options) {
  if (!is_available()) {
    return nullptr;
  }
  const std::string key = identity(product, options);
  const std::lock_guard lock(mutex_);
  const auto known = planned_.find(key);
  if (known != planned_.end()) {
    return known->second;
  }
  std::string fault = "it has no algorithm";
  std::int32_t level = YOKE_LOG_DEBUG;
  bool may_pass = false;
  std::shared_ptr<const PlannedProduct> made;
  try {
    made = make(product, options);
  } catch (const sdk::Failure& failure) {
    fault = failure.text();
    level = YOKE_LOG_WARN;
    may_pass = true;
  }
  context_.machine().host().log(
      level, "products.plan device=" + std::to_string(context_.hardware().ordinal) + " product=\"" + key +
                 "\" " +
                 (made != nullptr ? "workspace=" + std::to_string(made->product.workspace_byte_count)
                                  : "skipped=\"" + fault + "\""));
  if (!may_pass) {  // after any other failure the next plan() asks the library again
    planned_[key] = made;
  }
  return made;
}

std::shared_ptr<const PlannedProduct> Products::make(const LibraryProduct& product,
                                                     const ProductOptions& options) {
  const bool is_f32 = product.a.type == program::Type::kF32;
  auto made = std::make_shared<PlannedProduct>();
  made->product = product;
  made->compute_type = options.tf32 && is_f32 ? facts().compute_tf32 : facts().compute_f32;
  for (const Matrix* matrix : {&product.a, &product.b, &product.result}) {
    made->layouts.push_back(layout_of(*this, *matrix, product.batch));
  }
  return find_algorithm(*made) ? made : nullptr;
}

bool Products::find_algorithm(PlannedProduct& planned) {
  // An algorithm, the size of its workspace and a status; then what yoke does not use.
  std::array<std::uint64_t, kBlasResultWords> result = {};
  const BlasObject description = describe(*this, planned, bias_alignment_of(planned.product));
  const BlasObject preferences = preferences_for(*this, planned.product);
  const Handle handle = take_handle();
  const Current current = context_.enter();
  const auto layout = [&](std::size_t i) { return planned.layouts[i].handle; };
  int count = 0;
  const int code = blas_->find(handle.get(), description.handle, layout(0), layout(1), layout(2), layout(2),
                               preferences.handle, 1, result.data(), &count);
  const std::size_t words = facts().algorithm_bytes / sizeof result[0];
  const std::uint64_t workspace = result[words];
  std::int32_t state = 0;
  std::memcpy(&state, &result[words + 1], sizeof state);
  if (code == facts().not_supported) {
    return false;
  }
  check(blas_->find.name, code);
  if (count < 1 || state != 0 || workspace > kMostWorkspace) {
    return false;
  }
  std::copy_n(result.begin(), words, planned.algorithm.begin());
  planned.product.workspace_byte_count = workspace;
  return true;
}

std::optional<std::uint64_t> ProductChooser::workspace_for(const LibraryProduct& product) {
  if (product.has_relu && !options_.relu) {
    return std::nullopt;
  }
  const auto planned = products_.plan(product, options_);
  return planned != nullptr ? std::optional(planned->product.workspace_byte_count) : std::nullopt;
}

LinkedProduct::LinkedProduct(const Products& products, std::shared_ptr<const PlannedProduct> planned,
                             const LibraryProduct& product, std::span<const Address> addresses)
    : products_(products),
      planned_(std::move(planned)),
      description_(
          describe(products, *planned_,
                   product.has_bias ? addresses[3] + product.bias_offset * sizeof(float) : Address{0})) {
  const auto first = [&](const Matrix& matrix, std::size_t slot) {
    return addresses[slot] + matrix.offset * program::byte_size(matrix.type);
  };
  a_ = first(product.a, 0);
  b_ = first(product.b, 1);
  result_ = first(product.result, 2);
  workspace_ = product.workspace_byte_count != 0 ? addresses.back() : Address{0};
}

void LinkedProduct::launch(void* handle, void* stream) const {
  static constexpr float kOne = 1;
  static constexpr float kZero = 0;
  const LibraryProduct& product = planned_->product;
  const Blas& blas = products_.blas();
  const auto layout = [&](std::size_t i) { return planned_->layouts[i].handle; };
  products_.check_launch(
      blas.multiply.name,
      blas.multiply(handle, description_.handle, &kOne, a_, layout(0), b_, layout(1),
                    product.accumulates ? &kOne : &kZero, result_, layout(2), result_, layout(2),
                    planned_->algorithm.data(), workspace_, product.workspace_byte_count, stream));
}

}  // namespace yoke::gpu
