// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_matmul.cpp: contractions through oneDNN 2.x.
#include <algorithm>
#include <utility>
#include <vector>

#include "dnnl_call_impl.h"

namespace yoke::cc {

using dnnl::memory;
using program::Type;

namespace {

struct Shape {
  std::vector<Axis> batch;
  Axis m;
  Axis n;
  Axis k;
};

// Keeps the longest axis of m and a contiguous one of n; the other axes become batch dimensions that
// broadcast the other operand.
bool shape_of(const Contraction& c, Shape& shape) {
  const auto m = std::max_element(c.m.begin(), c.m.end(),
                                  [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
  auto n = std::find_if(c.n.begin(), c.n.end(), [](const Axis& axis) { return axis.t == 1; });
  n = n == c.n.end() ? n - 1 : n;
  if (c.k.size() != 1 || c.batch.size() + c.m.size() + c.n.size() > DNNL_MAX_NDIMS) {
    return false;
  }
  shape = {c.batch, *m, *n, c.k[0]};
  for (const auto& [axes, kept] : {std::pair(&c.m, m), std::pair(&c.n, n)}) {
    shape.batch.insert(shape.batch.end(), axes->begin(), kept);
    shape.batch.insert(shape.batch.end(), kept + 1, axes->end());
  }
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

}  // namespace

std::optional<DnnlCall> dnnl_matmul(const LibraryOptions& options, const Contraction& c, bool with_bias,
                                    std::string& why_not) {
  const bool types = c.type == Type::kF32 && c.a.type == c.b.type &&
                     (c.a.type == Type::kF32 || c.a.type == Type::kBF16) &&
                     (c.t.type == Type::kF32 || (c.t.type == Type::kBF16 && c.a.type == Type::kBF16 &&
                                                 c.assign == program::Assign::kSet && !with_bias));
  Shape shape;
  if (!types || (c.assign != program::Assign::kSet && c.assign != program::Assign::kAdd)) {
    why_not = "oneDNN has no matmul for these types";
    return std::nullopt;
  }
  if (!shape_of(c, shape)) {
    why_not = "the summed loops do not have a single stride in memory";
    return std::nullopt;
  }
  try {
    auto impl = std::make_shared<DnnlCall::Impl>(options);
    const memory::desc a = describe(shape, data_type(c.a.type), &Axis::a, shape.m, shape.k);
    const memory::desc b = describe(shape, data_type(c.b.type), &Axis::b, shape.k, shape.n);
    const memory::desc t = describe(shape, data_type(c.t.type), &Axis::t, shape.m, shape.n);
    DnnlCall::Impl::Arguments arguments = {{DNNL_ARG_SRC, impl->add(a, DnnlCall::Impl::kA)},
                                           {DNNL_ARG_WEIGHTS, impl->add(b, DnnlCall::Impl::kB)},
                                           {DNNL_ARG_DST, impl->add(t, DnnlCall::Impl::kT)}};
    const dnnl::primitive_attr attributes = attributes_of(c.assign);
    dnnl::matmul::primitive_desc desc;
    if (with_bias) {
      const std::size_t last = shape.batch.size() + 1;
      memory::dims dims(last + 1, 1);
      dims[last] = shape.n.extent;
      memory::dims strides(last + 1, shape.n.extent);
      strides[last] = 1;
      const memory::desc dense(dims, memory::data_type::f32, strides);
      arguments.emplace_back(DNNL_ARG_BIAS, impl->add(dense, DnnlCall::Impl::kBias));
      desc = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, dense, t), attributes, impl->engine);
    } else {
      desc = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, t), attributes, impl->engine);
    }
    const std::string implementation = desc.impl_info_str();
    if (is_reference(implementation)) {
      why_not = "oneDNN has only its reference implementation for these strides";
      return std::nullopt;
    }
    impl->add_stage(desc, std::move(arguments));
    return DnnlCall{impl, "oneDNN matmul (" + implementation + ")", impl->scratch_byte_count};
  } catch (const dnnl::error& error) {
    why_not = std::string("oneDNN rejected the matmul: ") + error.what();
    return std::nullopt;
  }
}

}  // namespace yoke::cc
