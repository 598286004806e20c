// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_matmul.cpp: contractions through oneDNN 2.x.
#include "dnnl_matmul.h"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

namespace yoke::cc {

using dnnl::memory;
using program::Type;

DnnlEngine::DnnlEngine() : handle_(new dnnl::engine(dnnl::engine::kind::cpu, 0)) {}
DnnlEngine::~DnnlEngine() {
  delete static_cast<dnnl::engine*>(handle_);
}

struct DnnlMatmul::Impl {
  dnnl::engine engine;
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul primitive;
  std::string implementation;
  bool with_bias = false;
};

DnnlMatmul::DnnlMatmul() : impl_(std::make_unique<Impl>()) {}
DnnlMatmul::~DnnlMatmul() = default;
std::uint64_t DnnlMatmul::scratch_byte_count() const {
  return impl_->desc.scratchpad_desc().get_size();
}
const std::string& DnnlMatmul::implementation() const {
  return impl_->implementation;
}

namespace {

struct Shape {
  std::vector<Axis> batch;
  Axis m;
  Axis n;
  Axis k;
};

// Keeps the longest axis of m and of n; the other axes become batch
// dimensions that broadcast the other operand.
bool shape_of(const Contraction& c, Shape& shape) {
  shape.batch = c.batch;
  const auto take = [&](const std::vector<Axis>& axes, bool last) {
    if (axes.empty()) {
      return Axis{};
    }
    auto chosen = last ? axes.end() - 1
                       : std::max_element(axes.begin(), axes.end(),
                                          [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
    if (last) {
      const auto contiguous =
          std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.t == 1; });
      chosen = contiguous == axes.end() ? chosen : contiguous;
    }
    for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
      if (axis != chosen) {
        shape.batch.push_back(*axis);
      }
    }
    return *chosen;
  };
  shape.m = take(c.m, false);
  shape.n = take(c.n, true);
  if (c.k.size() != 1 || shape.batch.size() + 2 > DNNL_MAX_NDIMS) {
    return false;
  }
  shape.k = c.k[0];
  return true;
}

// Describes a rows x columns matrix after the batch dimensions. A dimension of extent 1 may have any
// stride; it gets the stride of a dense matrix, which oneDNN's fast paths require.
memory::desc describe(const Shape& shape, memory::data_type type, std::int64_t Axis::*stride,
                      const Axis& rows, const Axis& columns) {
  memory::dims dims;
  memory::dims strides;
  for (const Axis& axis : shape.batch) {
    const bool broadcast = axis.*stride == 0;
    dims.push_back(broadcast ? 1 : axis.extent);
    strides.push_back(axis.*stride);
  }
  std::int64_t row = rows.*stride;
  std::int64_t column = columns.*stride;
  if (rows.extent == 1 && columns.extent == 1) {
    row = column = 1;
  } else if (rows.extent == 1) {
    row = column == 1 ? columns.extent : 1;
  } else if (columns.extent == 1) {
    column = row == 1 ? rows.extent : 1;
  }
  dims.push_back(rows.extent);
  dims.push_back(columns.extent);
  strides.push_back(row);
  strides.push_back(column);
  std::int64_t whole = rows.extent * columns.extent;
  for (std::size_t i = shape.batch.size(); i-- > 0;) {
    strides[i] = dims[i] == 1 ? whole : strides[i];
    whole *= dims[i];
  }
  return {dims, type, strides};
}

memory::data_type data_type(Type type) {
  return type == Type::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

}  // namespace

std::shared_ptr<const DnnlMatmul> DnnlMatmul::create(const DnnlEngine& engine, const Contraction& c,
                                                     bool with_bias, bool plan_only, std::string& why_not) {
  const bool types = c.type == Type::kF32 && c.t.type == Type::kF32 && c.a.type == c.b.type &&
                     (c.a.type == Type::kF32 || c.a.type == Type::kBF16);
  Shape shape;
  if (!types || (c.assign != program::Assign::kSet && c.assign != program::Assign::kAdd)) {
    why_not = "oneDNN has no matmul for these types";
    return nullptr;
  }
  if (!shape_of(c, shape)) {
    why_not = "the summed loops do not have a single stride in memory";
    return nullptr;
  }
  try {
    const memory::desc a = describe(shape, data_type(c.a.type), &Axis::a, shape.m, shape.k);
    const memory::desc b = describe(shape, data_type(c.b.type), &Axis::b, shape.k, shape.n);
    const memory::desc t = describe(shape, memory::data_type::f32, &Axis::t, shape.m, shape.n);
    dnnl::primitive_attr attributes;
    // oneDNN's default scratchpad belongs to the primitive, which routines on several threads share.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (c.assign == program::Assign::kAdd) {
      dnnl::post_ops ops;
      ops.append_sum(1.0F);
      attributes.set_post_ops(ops);
    }
    std::shared_ptr<DnnlMatmul> result(new DnnlMatmul);
    Impl& impl = *result->impl_;
    impl.engine = *static_cast<dnnl::engine*>(engine.handle());
    impl.with_bias = with_bias;
    if (with_bias) {
      const std::size_t last = shape.batch.size() + 1;
      memory::dims dims(last + 1, 1);
      dims[last] = shape.n.extent;
      memory::dims strides(last + 1, shape.n.extent);
      strides[last] = 1;
      const memory::desc dense(dims, memory::data_type::f32, strides);
      impl.desc = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, dense, t), attributes, impl.engine);
    } else {
      impl.desc = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, t), attributes, impl.engine);
    }
    impl.implementation = impl.desc.impl_info_str();
    if (impl.implementation.find("ref") != std::string::npos) {
      why_not = "oneDNN has only its reference implementation for these strides";
      return nullptr;
    }
    if (!plan_only) {
      impl.primitive = dnnl::matmul(impl.desc);
    }
    return result;
  } catch (const dnnl::error& error) {
    why_not = std::string("oneDNN rejected the matmul: ") + error.what();
    return nullptr;
  }
}

struct DnnlMatmul::Bound::Impl {
  dnnl::stream stream;
  dnnl_primitive_t primitive = nullptr;
  memory a;
  memory b;
  memory bias;
  memory t;
  memory scratch;
  std::array<dnnl_exec_arg_t, 5> args{};
  int arg_count = 0;
};

DnnlMatmul::Bound::Bound(const DnnlMatmul& matmul, void* scratch) : impl_(std::make_unique<Impl>()) {
  const DnnlMatmul::Impl& from = *matmul.impl_;
  impl_->stream = dnnl::stream(from.engine);
  impl_->primitive = from.primitive.get();
  const auto add = [&](int role, memory& object, const memory::desc& desc, void* address) {
    object = memory(desc, from.engine, address);
    impl_->args[static_cast<std::size_t>(impl_->arg_count++)] = {role, object.get()};
  };
  add(DNNL_ARG_SRC, impl_->a, from.desc.src_desc(), nullptr);
  add(DNNL_ARG_WEIGHTS, impl_->b, from.desc.weights_desc(), nullptr);
  add(DNNL_ARG_DST, impl_->t, from.desc.dst_desc(), nullptr);
  add(DNNL_ARG_SCRATCHPAD, impl_->scratch, from.desc.scratchpad_desc(), scratch);
  if (from.with_bias) {
    add(DNNL_ARG_BIAS, impl_->bias, from.desc.bias_desc(), nullptr);
  }
}

DnnlMatmul::Bound::Bound(Bound&&) noexcept = default;
DnnlMatmul::Bound::~Bound() = default;

void DnnlMatmul::Bound::execute(const void* a, const void* b, const void* bias, void* t) {
  // oneDNN takes non-const pointers, but only reads through these.
  impl_->a.set_data_handle(const_cast<void*>(a));
  impl_->b.set_data_handle(const_cast<void*>(b));
  impl_->t.set_data_handle(t);
  if (bias != nullptr) {
    impl_->bias.set_data_handle(const_cast<void*>(bias));
  }
  if (dnnl_primitive_execute(impl_->primitive, impl_->stream.get(), impl_->arg_count, impl_->args.data()) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN failed to execute a matmul");
  }
}

}  // namespace yoke::cc
