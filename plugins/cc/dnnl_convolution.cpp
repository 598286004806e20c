// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_convolution.cpp: convolutions and their gradients through oneDNN 2.x.
#include "dnnl_convolution.h"

#include <algorithm>
#include <optional>
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

// The tensors x, w and y, or their gradients, as the caller stores them.
struct Tensors {
  memory::desc x;
  memory::desc w;
  memory::desc y;
};

// oneDNN has one dimension for the channels of all groups. Returns nothing if no single stride fits this
// dimension.
std::optional<Tensors> tensors_of(const Convolution& c, memory::data_type x, memory::data_type w,
                                  memory::data_type y) {
  const auto joined = [](std::int64_t group, std::int64_t groups, std::int64_t channel, std::int64_t channels,
                         std::int64_t& stride) {
    stride = channels == 1 ? group : channel;
    return groups == 1 || channels == 1 || group == channel * channels;
  };
  const bool has_groups = c.group.extent > 1;
  memory::dims x_dims = {c.batch.extent, c.group.extent * c.in.extent};
  memory::dims y_dims = {c.batch.extent, c.group.extent * c.out.extent};
  memory::dims w_dims = {c.out.extent, c.in.extent};
  memory::dims x_strides = {c.batch.x, 0};
  memory::dims y_strides = {c.batch.y, 0};
  memory::dims w_strides = {c.out.w, c.in.w};
  if (has_groups) {
    w_dims.insert(w_dims.begin(), c.group.extent);
    w_strides.insert(w_strides.begin(), c.group.w);
  }
  if (!joined(c.group.x, c.group.extent, c.in.x, c.in.extent, x_strides[1]) ||
      !joined(c.group.y, c.group.extent, c.out.y, c.out.extent, y_strides[1])) {
    return std::nullopt;
  }
  for (const Window& window : c.windows) {
    x_dims.push_back(window.in);
    x_strides.push_back(window.x);
    w_dims.push_back(window.kernel);
    w_strides.push_back(window.w);
    y_dims.push_back(window.out);
    y_strides.push_back(window.y);
  }
  return Tensors{describe(x_dims, x_strides, x), describe(w_dims, w_strides, w),
                 describe(y_dims, y_strides, y)};
}

memory::desc with_layout(const memory::desc& from, Layout layout, bool is_weights, memory::data_type type) {
  using Tag = memory::format_tag;
  const memory::dims dims = from.dims();
  if (layout == Layout::kAny || (is_weights && layout == Layout::kChannelsLast)) {
    return {dims, type, Tag::any};
  }
  if (is_weights || layout == Layout::kPlain) {
    constexpr Tag kDense[] = {Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
    return {dims, type, kDense[dims.size() - 3]};
  }
  constexpr Tag kLast[] = {Tag::acb, Tag::acdb, Tag::acdeb};
  return {dims, type, kLast[dims.size() - 3]};
}

// A primitive, and the layouts that it requires.
struct Choice {
  Tensors tensors;
  memory::desc scratchpad;
  std::string implementation;
  dnnl::primitive primitive;
};

template <class Primitive, class Desc>
bool take(Choice& choice, const Desc& desc, bool plan_only) {
  choice.scratchpad = desc.scratchpad_desc();
  choice.implementation = desc.impl_info_str();
  if (is_reference(choice.implementation)) {
    return false;
  }
  if (!plan_only) {
    choice.primitive = Primitive(desc);
  }
  return true;
}

// `type` is the type of the operands; sums are f32.
std::optional<Choice> choose(const Convolution& c, const dnnl::engine& engine, const Tensors& user,
                             Layout layout, memory::data_type type, bool plan_only) {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const auto f32 = memory::data_type::f32;
  memory::dims strides, dilations, before, after;
  for (const Window& window : c.windows) {
    strides.push_back(window.stride);
    dilations.push_back(window.dilation - 1);
    before.push_back(window.before);
    after.push_back(window.after);
  }
  const memory::desc x = with_layout(user.x, layout, false, c.kind == Kind::kInputGradient ? f32 : type);
  const memory::desc w = with_layout(user.w, layout, true, c.kind == Kind::kWeightGradient ? f32 : type);
  const memory::desc y = with_layout(user.y, layout, false, c.kind == Kind::kForward ? f32 : type);
  const dnnl::primitive_attr attributes = attributes_of(program::Assign::kSet);
  const auto forward = [&](const memory::desc& fx, const memory::desc& fw, const memory::desc& fy) {
    return dnnl::convolution_forward::primitive_desc(
        dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, kDirect, fx, fw, fy, strides,
                                        dilations, before, after),
        attributes, engine);
  };
  // oneDNN's gradients need the description of a forward pass. They use only its shape.
  const auto shape = [&] {
    const auto any = [&](const memory::desc& of) { return with_layout(of, Layout::kAny, true, f32); };
    return forward(any(user.x), any(user.w), any(user.y));
  };
  try {
    Choice choice;
    bool fits = false;
    if (c.kind == Kind::kForward) {
      const auto desc = forward(x, w, y);
      choice.tensors = {desc.src_desc(), desc.weights_desc(), desc.dst_desc()};
      fits = take<dnnl::convolution_forward>(choice, desc, plan_only);
    } else if (c.kind == Kind::kInputGradient) {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kDirect, x, w, y, strides, dilations, before, after}, attributes, engine, shape());
      choice.tensors = {desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc()};
      fits = take<dnnl::convolution_backward_data>(choice, desc, plan_only);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc desc(
          {kDirect, x, w, y, strides, dilations, before, after}, attributes, engine, shape());
      choice.tensors = {desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc()};
      fits = take<dnnl::convolution_backward_weights>(choice, desc, plan_only);
    }
    return fits ? std::optional(std::move(choice)) : std::nullopt;
  } catch (const dnnl::error&) {
    return std::nullopt;  // not implemented for these layouts and types
  }
}

bool is_padded(const Convolution& c) {
  return std::any_of(c.windows.begin(), c.windows.end(),
                     [](const Window& window) { return window.before > 0 || window.after > 0; });
}

// The layouts, in the order to try them. oneDNN's own layouts (kAny) are the fastest, even with the copies,
// except for tensors that are channels-last already, kernels of one element, and few channels.
std::vector<Layout> layouts_of(const Convolution& c) {
  const bool channels_last = (c.in.extent > 1 && c.in.x == 1) || (c.out.extent > 1 && c.out.y == 1);
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

std::optional<Choice> best_choice(const Convolution& c, const dnnl::engine& engine, const Tensors& user,
                                  memory::data_type type, bool plan_only) {
  for (const Layout layout : layouts_of(c)) {
    auto choice = choose(c, engine, user, layout, type, plan_only);
    if (!choice) {
      continue;
    }
    // oneDNN copies parts of the images to matrices and multiplies these. The sums include padding, and 0
    // times infinity is NaN. Only its input gradients leave padding out.
    const bool by_copies = choice->implementation.find("gemm") != std::string::npos;
    if (!by_copies || (layout == Layout::kPlain && (!is_padded(c) || c.kind == Kind::kInputGradient))) {
      return choice;
    }
  }
  return std::nullopt;
}

// Builds the call from a choice and the copies to and from its layouts.
class CallBuilder {
 public:
  CallBuilder(const DnnlEngine& engine, const Sharing& sharing, bool plan_only)
      : impl_(std::make_unique<Impl>(engine)), sharing_(sharing), plan_only_(plan_only) {
    impl_->sharers = sharing.count;
  }

  // Returns the memory of an operand in the layout that the primitive requires.
  std::size_t in(const memory::desc& user, const memory::desc& wanted, Impl::Place place) {
    using Shared = DnnlCall::Shared;
    if (user != wanted && sharing_.operand == (place == Impl::kA ? Shared::kA : Shared::kB)) {
      impl_->shared = {place, user, wanted};
      return impl_->add(wanted, place);
    }
    const std::size_t from = impl_->add(user, place);
    if (user == wanted) {
      return from;
    }
    const std::size_t to = impl_->add_scratch(wanted);
    copy(from, to, program::Assign::kSet);
    return to;
  }
  std::size_t out(const memory::desc& user, const memory::desc& wanted, program::Assign assign) {
    result_ = impl_->add(user, Impl::kT);
    assign_ = assign;
    made_ = user == wanted && assign == program::Assign::kSet ? result_ : impl_->add_scratch(wanted);
    return made_;
  }
  void compute(Choice& choice, std::vector<std::pair<int, std::size_t>> memory) {
    memory.emplace_back(DNNL_ARG_SCRATCHPAD, impl_->add_scratch(choice.scratchpad));
    impl_->stages.push_back({std::move(choice.primitive), std::move(memory)});
    if (made_ != result_) {
      copy(made_, result_, assign_);
    }
    impl_->description = "oneDNN convolution (" + choice.implementation + ")";
  }
  // Returns null if oneDNN has no fast copy.
  std::shared_ptr<const DnnlCall> call() {
    return fits_ ? std::make_shared<const DnnlCall>(std::move(impl_)) : nullptr;
  }

  void copy(const memory::desc& from, const memory::desc& to) {
    copy(impl_->add(from, Impl::kA), impl_->add(to, Impl::kT), program::Assign::kSet);
  }

 private:
  void copy(std::size_t from, std::size_t to, program::Assign assign) {
    const dnnl::reorder::primitive_desc desc(impl_->engine, impl_->memories[from].desc, impl_->engine,
                                             impl_->memories[to].desc, attributes_of(assign));
    fits_ = fits_ && !is_reference(desc.impl_info_str());
    Impl::Stage stage;
    stage.memory = {{DNNL_ARG_FROM, from},
                    {DNNL_ARG_TO, to},
                    {DNNL_ARG_SCRATCHPAD, impl_->add_scratch(desc.scratchpad_desc())}};
    if (!plan_only_) {
      stage.primitive = dnnl::reorder(desc);
    }
    impl_->stages.push_back(std::move(stage));
  }

  std::unique_ptr<Impl> impl_;
  Sharing sharing_;
  bool plan_only_;
  bool fits_ = true;
  std::size_t result_ = 0;  // the caller's memory of t
  std::size_t made_ = 0;    // where the primitive writes t
  program::Assign assign_ = program::Assign::kSet;
};

bool is_library_type(Type type) {
  return type == Type::kF32 || type == Type::kBF16 || type == Type::kF16;
}

std::shared_ptr<const DnnlCall> build(const DnnlEngine& engine, const Convolution& c, const Tensors& user,
                                      Choice& choice, const Sharing& sharing, bool plan_only) {
  CallBuilder builder(engine, sharing, plan_only);
  switch (c.kind) {
    case Kind::kForward: {
      const std::size_t x = builder.in(user.x, choice.tensors.x, Impl::kA);
      const std::size_t w = builder.in(user.w, choice.tensors.w, Impl::kB);
      const std::size_t y = builder.out(user.y, choice.tensors.y, c.assign);
      builder.compute(choice, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
      break;
    }
    case Kind::kInputGradient: {
      const std::size_t y = builder.in(user.y, choice.tensors.y, Impl::kA);
      const std::size_t w = builder.in(user.w, choice.tensors.w, Impl::kB);
      const std::size_t x = builder.out(user.x, choice.tensors.x, c.assign);
      builder.compute(choice, {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, x}});
      break;
    }
    case Kind::kWeightGradient: {
      const std::size_t x = builder.in(user.x, choice.tensors.x, Impl::kA);
      const std::size_t y = builder.in(user.y, choice.tensors.y, Impl::kB);
      const std::size_t w = builder.out(user.w, choice.tensors.w, c.assign);
      builder.compute(choice, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, w}});
      break;
    }
  }
  return builder.call();
}

// The images of a batch from the first one on.
memory::desc first_images(const memory::desc& all, std::int64_t count) {
  memory::dims dims = all.dims();
  dims[0] = count;
  return all.submemory_desc(dims, memory::dims(dims.size(), 0));
}

std::int64_t bytes_per_image(const memory::desc& desc) {
  return desc.data.format_desc.blocking.strides[0] *
         static_cast<std::int64_t>(memory::data_type_size(desc.data_type()));
}

}  // namespace

std::shared_ptr<const DnnlCall> dnnl_convolution(const DnnlEngine& engine, const Convolution& c,
                                                 const Sharing& sharing, bool plan_only,
                                                 std::string& why_not) {
  const bool assigns =
      c.assign == program::Assign::kSet || (c.assign == program::Assign::kAdd && c.t.type == Type::kF32);
  if (!is_library_type(c.a.type) || !is_library_type(c.b.type) || !is_library_type(c.t.type) || !assigns) {
    why_not = "oneDNN has no convolution for these types";
    return nullptr;
  }
  const auto a = data_type(c.a.type);
  const auto b = data_type(c.b.type);
  const auto t = data_type(c.t.type);
  try {
    const std::optional<Tensors> user = c.kind == Kind::kForward         ? tensors_of(c, a, b, t)
                                        : c.kind == Kind::kInputGradient ? tensors_of(c, t, b, a)
                                                                         : tensors_of(c, a, t, b);
    if (!user) {
      why_not = "the channels of all groups do not have a single stride";
      return nullptr;
    }
    const dnnl::engine& on = *static_cast<dnnl::engine*>(engine.handle());
    auto choice = a == b && c.a.type != Type::kF16 ? best_choice(c, on, *user, a, plan_only) : std::nullopt;
    if (!choice) {  // f32 is exact for every product of two 16-bit floats
      choice = best_choice(c, on, *user, memory::data_type::f32, plan_only);
    }
    auto call = choice ? build(engine, c, *user, *choice, sharing, plan_only) : nullptr;
    if (!call) {
      why_not = "oneDNN has no fast convolution of this shape";
    }
    return call;
  } catch (const dnnl::error& error) {
    why_not = std::string("oneDNN rejected the convolution: ") + error.what();
    return nullptr;
  }
}

SharedCopy copy_shared(const DnnlEngine& engine, const DnnlCall& call, std::int64_t first, std::int64_t last,
                       bool plan_only) {
  const Impl::Shared& shared = *call.impl().shared;
  const auto& layout = shared.to.data.format_desc.blocking;
  if (std::count(layout.inner_idxs, layout.inner_idxs + layout.inner_nblks, 0) != 0) {
    return {};  // blocks of images
  }
  CallBuilder builder(engine, {}, plan_only);
  try {
    builder.copy(first_images(shared.from, last - first), first_images(shared.to, last - first));
  } catch (const dnnl::error&) {
    return {};  // not implemented for these layouts
  }
  return {builder.call(), first * bytes_per_image(shared.from), first * bytes_per_image(shared.to)};
}

}  // namespace yoke::cc
