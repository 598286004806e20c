// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_convolution.cpp: convolutions and their gradients through oneDNN 2.x.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "dnnl_call_impl.h"

namespace yoke::cc {

using dnnl::memory;
using program::Type;

namespace {

using Kind = Convolution::Kind;
using Impl = DnnlCall::Impl;

// With at most this many input channels, oneDNN's fast input gradients mostly multiply padding.
constexpr std::int64_t kFewChannels = 8;

enum class Layout : std::uint8_t { kAny, kChannelsLast, kPlain };

// A dimension of extent 1 may have any stride; it gets the stride of a dense tensor.
memory::desc describe(const memory::dims& dims, memory::dims strides, memory::data_type type) {
  std::int64_t whole = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = dims[i] == 1 ? whole : strides[i];
    whole = std::max(whole, strides[i] * dims[i]);
  }
  return {dims, type, strides};
}

// By operand: a, b and t.
using Tensors = std::array<memory::desc, 3>;
constexpr std::int64_t Axis::*kStrides[] = {&Axis::a, &Axis::b, &Axis::t};

// Which operands are the tensors x, w and y, or their gradients, and oneDNN's names of the arguments a, b
// and t.
struct Roles {
  std::size_t x, w, y;
  std::array<int, 3> arguments;
};
constexpr Roles kRoles[] = {{0, 1, 2, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}},
                            {2, 1, 0, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}},
                            {0, 2, 1, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}}};
const Roles& roles_of(const Convolution& c) {
  return kRoles[static_cast<std::size_t>(c.kind)];
}

// x or y as the caller stores it. oneDNN has one dimension for the channels of all groups. Returns nothing
// if no single stride fits this dimension.
std::optional<memory::desc> images_of(const Convolution& c, std::int64_t Axis::*stride, const Axis& channels,
                                      std::int64_t Window::*extent, memory::data_type type) {
  const bool is_joined = c.group.extent > 1 && channels.extent > 1;
  if (is_joined && c.group.*stride != channels.*stride * channels.extent) {
    return std::nullopt;
  }
  memory::dims dims = {c.batch.extent, c.group.extent * channels.extent};
  memory::dims strides = {c.batch.*stride, channels.extent == 1 ? c.group.*stride : channels.*stride};
  for (const Window& window : c.windows) {
    dims.push_back(window.*extent);
    strides.push_back(window.axis.*stride);
  }
  return describe(dims, strides, type);
}

memory::desc weights_of(const Convolution& c, std::int64_t Axis::*stride, memory::data_type type) {
  memory::dims dims;
  memory::dims strides;
  const auto add = [&](std::int64_t extent, const Axis& axis) {
    dims.push_back(extent);
    strides.push_back(axis.*stride);
  };
  if (c.group.extent > 1) {
    add(c.group.extent, c.group);
  }
  add(c.out.extent, c.out);
  add(c.in.extent, c.in);
  for (const Window& window : c.windows) {
    add(window.kernel, window.axis);
  }
  return describe(dims, strides, type);
}

// The operands as the caller stores them.
std::optional<Tensors> tensors_of(const Convolution& c) {
  const Roles& roles = roles_of(c);
  const memory::data_type types[] = {data_type(c.a.type), data_type(c.b.type), data_type(c.t.type)};
  const auto x = images_of(c, kStrides[roles.x], c.in, &Window::in, types[roles.x]);
  const auto y = images_of(c, kStrides[roles.y], c.out, &Window::out, types[roles.y]);
  if (!x || !y) {
    return std::nullopt;
  }
  Tensors tensors;
  tensors[roles.x] = *x;
  tensors[roles.w] = weights_of(c, kStrides[roles.w], types[roles.w]);
  tensors[roles.y] = *y;
  return tensors;
}

memory::desc with_layout(const memory::desc& from, Layout layout, bool is_weights, memory::data_type type) {
  using Tag = memory::format_tag;
  const memory::dims dims = from.dims();
  if (layout == Layout::kAny || (is_weights && layout == Layout::kChannelsLast)) {
    return {dims, type, Tag::any};
  }
  if (layout == Layout::kPlain) {
    constexpr Tag kDense[] = {Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
    return {dims, type, kDense[dims.size() - 3]};
  }
  constexpr Tag kLast[] = {Tag::acb, Tag::acdb, Tag::acdeb};
  return {dims, type, kLast[dims.size() - 3]};
}

// The primitive for the layouts of `tensors`, and of `like` if it needs the description of a forward pass,
// of which it uses only the shape.
dnnl::primitive_desc_base primitive_of(const Convolution& c, const dnnl::engine& engine,
                                       const Tensors& tensors, const Tensors& like) {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  memory::dims strides, dilations, before, after;
  for (const Window& window : c.windows) {
    strides.push_back(window.stride);
    dilations.push_back(window.dilation - 1);
    before.push_back(window.before);
    after.push_back(window.after);
  }
  const Roles& is = roles_of(c);
  const dnnl::primitive_attr attributes = attributes_of(program::Assign::kSet);
  const auto forward = [&](const Tensors& of) {
    return dnnl::convolution_forward::primitive_desc({dnnl::prop_kind::forward_training, kDirect, of[is.x],
                                                      of[is.w], of[is.y], strides, dilations, before, after},
                                                     attributes, engine);
  };
  const auto any = [](const dnnl::primitive_desc_base& desc) { return desc; };
  switch (c.kind) {
    case Kind::kForward:
      return any(forward(tensors));
    case Kind::kInputGradient:
      return any(dnnl::convolution_backward_data::primitive_desc(
          {kDirect, tensors[is.x], tensors[is.w], tensors[is.y], strides, dilations, before, after},
          attributes, engine, forward(like)));
    default:
      return any(dnnl::convolution_backward_weights::primitive_desc(
          {kDirect, tensors[is.x], tensors[is.w], tensors[is.y], strides, dilations, before, after},
          attributes, engine, forward(like)));
  }
}

// `type` is the type of the factors; sums are f32. Returns nothing if oneDNN lacks these layouts and types.
std::optional<dnnl::primitive_desc_base> choose(const Convolution& c, const dnnl::engine& engine,
                                                const Tensors& user, Layout layout, memory::data_type type) {
  const auto f32 = memory::data_type::f32;
  Tensors tensors;
  Tensors like;
  for (std::size_t i = 0; i < user.size(); ++i) {
    const bool is_weights = i == roles_of(c).w;
    tensors[i] = with_layout(user[i], layout, is_weights, i == 2 ? f32 : type);
    like[i] = with_layout(user[i], Layout::kAny, is_weights, f32);
  }
  try {
    const dnnl::primitive_desc_base desc = primitive_of(c, engine, tensors, like);
    return is_reference(desc.impl_info_str()) ? std::nullopt : std::optional(desc);
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

bool is_padded(const Convolution& c) {
  return std::any_of(c.windows.begin(), c.windows.end(),
                     [](const Window& window) { return window.before > 0 || window.after > 0; });
}

// The layouts, in the order to try them. oneDNN's own layouts (kAny) are the fastest, even with the copies,
// except for tensors that are channels-last already, kernels of one element, and few channels.
std::vector<Layout> layouts_of(const Convolution& c) {
  const Roles& roles = roles_of(c);
  const bool channels_last = (c.in.extent > 1 && c.in.*kStrides[roles.x] == 1) ||
                             (c.out.extent > 1 && c.out.*kStrides[roles.y] == 1);
  const bool one_tap =
      std::all_of(c.windows.begin(), c.windows.end(), [](const Window& w) { return w.kernel == 1; });
  const bool few = c.kind == Kind::kInputGradient && c.group.extent == 1 && c.in.extent <= kFewChannels;
  if (channels_last) {
    return {Layout::kChannelsLast, Layout::kAny, Layout::kPlain};
  }
  if (one_tap || few) {
    return {Layout::kPlain, Layout::kAny, Layout::kChannelsLast};
  }
  return {Layout::kAny, Layout::kChannelsLast, Layout::kPlain};
}

std::optional<dnnl::primitive_desc_base> best_choice(const Convolution& c, const dnnl::engine& engine,
                                                     const Tensors& user, memory::data_type type) {
  for (const Layout layout : layouts_of(c)) {
    auto choice = choose(c, engine, user, layout, type);
    if (!choice) {
      continue;
    }
    // oneDNN copies parts of the images to matrices and multiplies these. The sums include padding, and 0
    // times infinity is NaN. Only its input gradients leave padding out.
    const bool by_copies = std::string(choice->impl_info_str()).find("gemm") != std::string::npos;
    if (!by_copies || (layout == Layout::kPlain && (!is_padded(c) || c.kind == Kind::kInputGradient))) {
      return choice;
    }
  }
  return std::nullopt;
}

// Returns false if oneDNN has no fast copy.
bool add_copy(Impl& impl, std::size_t from, std::size_t to, program::Assign assign) {
  const dnnl::reorder::primitive_desc desc(impl.engine, impl.memories[from].desc, impl.engine,
                                           impl.memories[to].desc, attributes_of(assign));
  impl.add_stage(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  return !is_reference(desc.impl_info_str());
}

// Adds the primitive and the copies to and from its layouts. Returns false if oneDNN has no fast copy.
bool build(Impl& impl, const Convolution& c, const Tensors& user, const dnnl::primitive_desc_base& desc,
           Shared shared) {
  const std::array<int, 3>& names = roles_of(c).arguments;
  const auto wanted = [&](std::size_t i) { return desc.query_md(dnnl::query::exec_arg_md, names[i]); };
  Impl::Arguments arguments;
  bool fits = true;
  for (const auto& [i, place, operand] :
       {std::tuple(0U, Impl::kA, Shared::kA), std::tuple(1U, Impl::kB, Shared::kB)}) {
    const bool is_copied = user[i] != wanted(i);
    if (is_copied && operand == shared) {
      impl.copied = {operand, user[i], wanted(i)};
    }
    std::size_t number = impl.add(operand == shared ? wanted(i) : user[i], place);
    if (is_copied && operand != shared) {
      const std::size_t from = std::exchange(number, impl.add_scratch(wanted(i)));
      fits = add_copy(impl, from, number, program::Assign::kSet) && fits;
    }
    arguments.emplace_back(names[i], number);
  }
  const std::size_t target = impl.add(user[2], Impl::kT);
  const bool is_direct = user[2] == wanted(2) && c.assign == program::Assign::kSet;
  const std::size_t result = is_direct ? target : impl.add_scratch(wanted(2));
  arguments.emplace_back(names[2], result);
  impl.add_stage(desc, std::move(arguments));
  return (is_direct || add_copy(impl, result, target, c.assign)) && fits;
}

bool is_library_type(Type type) {
  return type == Type::kF32 || type == Type::kBF16 || type == Type::kF16;
}

memory::desc some_images(const memory::desc& all, std::int64_t first, std::int64_t last) {
  memory::dims dims = all.dims();
  memory::dims offsets(dims.size(), 0);
  dims[0] = last - first;
  offsets[0] = first;
  return all.submemory_desc(dims, offsets);
}

}  // namespace

std::optional<DnnlCall> dnnl_convolution(const LibraryOptions& options, const Convolution& c, Shared shared,
                                         std::string& why_not) {
  const bool assigns =
      c.assign == program::Assign::kSet || (c.assign == program::Assign::kAdd && c.t.type == Type::kF32);
  if (!is_library_type(c.a.type) || !is_library_type(c.b.type) || !is_library_type(c.t.type) || !assigns) {
    why_not = "oneDNN has no convolution for these types";
    return std::nullopt;
  }
  try {
    const std::optional<Tensors> user = tensors_of(c);
    if (!user) {
      why_not = "the channels of all groups do not have a single stride";
      return std::nullopt;
    }
    auto impl = std::make_shared<Impl>(options);
    std::optional<dnnl::primitive_desc_base> choice;
    if (c.a.type == c.b.type && c.a.type != Type::kF16) {
      choice = best_choice(c, impl->engine, *user, data_type(c.a.type));
    }
    if (!choice) {  // f32 is exact for every product of two 16-bit floats
      choice = best_choice(c, impl->engine, *user, memory::data_type::f32);
    }
    if (choice && build(*impl, c, *user, *choice, shared)) {
      return DnnlCall{impl, std::string("oneDNN convolution (") + choice->impl_info_str() + ")",
                      impl->scratch_byte_count};
    }
    why_not = "oneDNN has no fast convolution of this shape";
  } catch (const dnnl::error& error) {
    why_not = std::string("oneDNN rejected the convolution: ") + error.what();
  }
  return std::nullopt;
}

bool shared_copy(const LibraryOptions& options, const std::vector<LibraryPiece>& pieces, SharedCopy& copy) {
  const std::optional<Impl::Copied>& copied = pieces[0].call.impl->copied;
  if (std::any_of(pieces.begin(), pieces.end(),
                  [&](const LibraryPiece& piece) { return piece.call.impl->copied != copied; })) {
    return false;
  }
  copy = {};
  if (!copied) {
    return true;
  }
  copy = {copied->operand, {}, copied->to.get_size()};
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t images = copied->from.dims()[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = images * i / count;
    const std::int64_t last = images * (i + 1) / count;
    if (first == last) {
      continue;
    }
    auto impl = std::make_shared<Impl>(options);
    try {
      const std::size_t from = impl->add(some_images(copied->from, first, last), Impl::kA);
      const std::size_t to = impl->add(some_images(copied->to, first, last), Impl::kT);
      if (!add_copy(*impl, from, to, program::Assign::kSet)) {
        return false;
      }
    } catch (const dnnl::error&) {
      return false;  // not implemented for these layouts, or for a part of a block of images
    }
    copy.pieces.push_back({.call = {impl, {}, impl->scratch_byte_count}});
  }
  return true;
}

}  // namespace yoke::cc
