// SPDX-License-Identifier: Apache-2.0
// plugins/cc/convolution.cpp: recognizes convolutions and their gradients.
#include "convolution.h"

#include <algorithm>
#include <utility>

namespace yoke::cc {

using program::Affine;
using program::Expr;
using program::Op;
using program::Program;
using program::Statement;

std::int64_t Convolution::multiplications() const {
  std::int64_t product = batch.extent * group.extent * in.extent * out.extent;
  for (const Window& window : windows) {
    product *= window.out * window.kernel;
  }
  return product;
}

namespace {

using Kind = Convolution::Kind;

// One dimension of `a`, indexed by (kept_step * kept + summed_step * summed + rest) / divisor, where `kept`
// is a loop of the target and `summed` is a reduced loop. A step is 0 if the index has no such loop.
struct Slide {
  std::int64_t kept = 1;  // extents of the loops
  std::int64_t summed = 1;
  std::int64_t kept_step = 0;
  std::int64_t summed_step = 0;
  std::int64_t divisor = 1;
  Form rest;  // the constant and the symbols of the dividend
  bool may_be_outside = false;
  std::int64_t extent = 1;  // of the dimension
  std::int64_t a = 0;       // strides: of the dimension in `a`, of `summed` in `b`, of `kept` in `t`
  std::int64_t b = 0;
  std::int64_t t = 0;

  bool is_inverse() const { return divisor > 1 || summed_step < 0; }
  bool is_direct() const { return kept_step > 1 || summed_step > 0; }
};

// Matches t = sum a * b, where `a` is the factor whose dimensions may combine two loops.
class Matcher {
 public:
  Matcher(const Program& program, const Statement& statement, Operand a, Operand b)
      : program_(program), statement_(statement) {
    result_.a = std::move(a);
    result_.b = std::move(b);
    result_.t = {statement.target.tensor, program.tensors[statement.target.tensor].type,
                 linear_form(program, statement, statement.target)};
    result_.assign = statement.assign;
  }

  // Returns null, or why the statement does not match.
  const char* match(const program::Access& a, const program::Access& b) {
    if (may_be_out_of_range(program_, statement_, b)) {
      return "both factors are padded";
    }
    if (!dimensions(a) || !loops()) {
      return "the indices are not those of a convolution";
    }
    if (!kind()) {
      return "no dimension is a window";
    }
    return geometry() ? nullptr : "the indices are not those of a convolution";
  }

  Convolution take() { return std::move(result_); }

 private:
  bool dimensions(const program::Access& a);
  bool dimension(const program::Index& index, std::uint64_t extent, std::int64_t stride);
  bool loops();
  bool kind();
  bool geometry();
  bool inverse_window(const Slide& slide, Window& window);
  bool direct_window(const Slide& slide, Window& window);
  void trivial_windows(std::vector<Axis>& axes);

  const Program& program_;
  const Statement& statement_;
  Convolution result_;
  std::vector<Slide> slides_;
  std::vector<bool> slides_along_;  // by loop
  std::vector<Axis> group_;
  std::vector<Axis> summed_;
  std::vector<Axis> only_a_;
  std::vector<Axis> only_b_;
};

bool Matcher::dimensions(const program::Access& a) {
  const program::Tensor& tensor = program_.tensors[a.tensor];
  const std::vector<std::uint64_t> strides = strides_of(tensor);
  result_.a.form = form_of(Affine{}, statement_.loops.size(), program_.symbols.size());
  slides_along_.assign(statement_.loops.size(), false);
  for (std::size_t i = 0; i < a.indices.size(); ++i) {
    if (a.indices[i].element_of ||
        !dimension(a.indices[i], tensor.dims[i], static_cast<std::int64_t>(strides[i]))) {
      return false;
    }
  }
  return true;
}

bool Matcher::dimension(const program::Index& index, std::uint64_t extent, std::int64_t stride) {
  const std::optional<Affine> quotient = exact_quotient(index);
  const std::size_t loop_count = statement_.loops.size();
  Slide slide;
  slide.rest = form_of(quotient ? *quotient : index.affine, loop_count, program_.symbols.size());
  slide.divisor = quotient ? 1 : index.divisor;
  slide.may_be_outside = may_be_out_of_range(program_, statement_,
                                             quotient ? program::Index{*quotient, {}, {}, 1} : index, extent);
  slide.extent = static_cast<std::int64_t>(extent);
  slide.a = stride;
  std::vector<std::uint32_t> used;
  for (std::uint32_t i = 0; i < loop_count; ++i) {
    if (slide.rest.loops[i] != 0 && statement_.loops[i].extent > 1) {
      used.push_back(i);
    }
  }
  if (used.size() <= 1 && !slide.may_be_outside) {
    add_scaled(result_.a.form, slide.rest, stride);
    return true;
  }
  for (const std::uint32_t i : used) {
    const bool summed = statement_.reduces(i);
    if ((summed ? slide.summed_step : slide.kept_step) != 0 || slides_along_[i]) {
      return false;
    }
    slides_along_[i] = true;
    (summed ? slide.summed_step : slide.kept_step) = slide.rest.loops[i];
    (summed ? slide.summed : slide.kept) = static_cast<std::int64_t>(statement_.loops[i].extent);
    (summed ? slide.b : slide.t) = (summed ? result_.b : result_.t).form.loops[i];
    if (summed ? slide.b == 0 : slide.t == 0 || result_.b.form.loops[i] != 0) {
      return false;
    }
  }
  slide.rest.loops.assign(loop_count, 0);
  slides_.push_back(std::move(slide));
  return true;
}

// Groups the loops that are not windows by the tensors that they index.
bool Matcher::loops() {
  for (std::uint32_t i = 0; i < statement_.loops.size(); ++i) {
    const Axis axis{static_cast<std::int64_t>(statement_.loops[i].extent), result_.a.form.loops[i],
                    result_.b.form.loops[i], result_.t.form.loops[i]};
    if (axis.extent == 1) {
      continue;
    }
    if (slides_along_[i]) {
      if (axis.a != 0) {
        return false;
      }
    } else if (statement_.reduces(i)) {
      if (axis.a == 0 || axis.b == 0) {
        return false;
      }
      summed_.push_back(axis);
    } else if (axis.a != 0) {
      (axis.b != 0 ? group_ : only_a_).push_back(axis);
    } else if (axis.b != 0) {
      only_b_.push_back(axis);
    } else {
      return false;
    }
  }
  for (std::vector<Axis>* axes : {&group_, &summed_, &only_a_, &only_b_}) {
    *axes = merged(*axes);
  }
  return group_.size() <= 1 && only_b_.size() <= 1;
}

std::int64_t widest_step(const std::vector<Axis>& axes) {
  std::int64_t widest = 0;
  for (const Axis& axis : axes) {
    widest = std::max(widest, axis.a);
  }
  return widest;
}

// The forward pass and the weight gradient have the same form: both sum over some channels and one loop of
// each window. This tells them apart: in memory, the batch is the outer axis and the channels are inner ones;
// a kernel is smaller than an image.
bool Matcher::kind() {
  const bool inverse =
      std::any_of(slides_.begin(), slides_.end(), [](const Slide& s) { return s.is_inverse(); });
  const bool direct =
      std::any_of(slides_.begin(), slides_.end(), [](const Slide& s) { return s.is_direct(); });
  if (inverse) {
    result_.kind = Kind::kInputGradient;
    return !direct;
  }
  bool forward = widest_step(summed_) < widest_step(only_a_);
  if (summed_.empty() || only_a_.empty()) {
    std::int64_t kept = 1;
    std::int64_t summed = 1;
    for (const Slide& slide : slides_) {
      kept *= slide.kept;
      summed *= slide.summed;
    }
    forward = kept >= summed;
  }
  if (slides_.empty()) {
    forward = false;  // a weight gradient with kernels of extent 1, or not a convolution
  }
  result_.kind = forward ? Kind::kForward : Kind::kWeightGradient;
  return !slides_.empty() || summed_.size() > 1;
}

Channels channels_of(const std::vector<Axis>& axes, std::int64_t Channels::*a, std::int64_t Channels::*b,
                     std::int64_t Channels::*t) {
  Channels channels;
  if (!axes.empty()) {
    channels.extent = axes[0].extent;
    channels.*a = axes[0].a;
    channels.*b = axes[0].b;
    channels.*t = axes[0].t;
  }
  return channels;
}

// The strides in `Channels` of the tensor that each operand is.
struct Roles {
  std::int64_t Channels::*a;
  std::int64_t Channels::*b;
  std::int64_t Channels::*t;
};

Roles roles_of(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return {&Channels::x, &Channels::w, &Channels::y};
    case Kind::kInputGradient:
      return {&Channels::y, &Channels::w, &Channels::x};
    default:
      return {&Channels::x, &Channels::y, &Channels::w};
  }
}

// All batch axes but the outermost become windows of extent 1.
void Matcher::trivial_windows(std::vector<Axis>& axes) {
  std::sort(axes.begin(), axes.end(), [](const Axis& one, const Axis& other) { return one.a > other.a; });
  const Roles roles = roles_of(result_.kind);
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const Channels as = channels_of({axes[i]}, roles.a, roles.b, roles.t);
    Window window;
    window.in = window.out = as.extent;
    window.x = as.x;
    window.y = as.y;
    result_.windows.push_back(window);
  }
}

bool Matcher::geometry() {
  const bool input = result_.kind == Kind::kInputGradient;
  for (const Slide& slide : slides_) {
    Window& window = result_.windows.emplace_back();
    if (!(input ? inverse_window(slide, window) : direct_window(slide, window))) {
      return false;
    }
  }
  const bool weights = result_.kind == Kind::kWeightGradient;
  trivial_windows(weights ? summed_ : only_a_);
  const std::vector<Axis>& single = weights ? only_a_ : summed_;
  if (single.size() > 1 || result_.windows.empty() || result_.windows.size() > 3) {
    return false;
  }
  const auto [a, b, t] = roles_of(result_.kind);
  result_.group = channels_of(group_, a, b, t);
  result_.batch = channels_of(weights ? summed_ : only_a_, a, b, t);
  (input ? result_.out : result_.in) = channels_of(single, a, b, t);
  (input ? result_.in : result_.out) = channels_of(only_b_, a, b, t);
  const auto ascends = [](const auto& one) { return one.x >= 0 && one.w >= 0 && one.y >= 0; };
  return ascends(result_.batch) && ascends(result_.group) && ascends(result_.in) && ascends(result_.out) &&
         std::all_of(result_.windows.begin(), result_.windows.end(), ascends);
}

bool has_symbols(const Form& form) {
  return std::any_of(form.symbols.begin(), form.symbols.end(), [](std::int64_t c) { return c != 0; });
}

// dx at i uses dy at (i + before - dilation * k) / stride.
bool Matcher::inverse_window(const Slide& slide, Window& window) {
  window.in = slide.kept;
  window.kernel = slide.summed;
  window.stride = slide.divisor;
  window.dilation = slide.summed_step == 0 ? 1 : -slide.summed_step;
  window.x = slide.t;
  window.w = slide.b;
  window.y = slide.a;
  const std::int64_t reach = window.dilation * (window.kernel - 1);
  if (slide.may_be_outside) {
    window.before = slide.rest.constant;
    if (window.before < 0 || has_symbols(slide.rest)) {
      return false;
    }
    window.out = std::min(slide.extent, (window.in - 1 + window.before) / window.stride + 1);
  } else {
    add_scaled(result_.a.form, slide.rest, slide.a);
    result_.a.form.constant -= reach * slide.a;
    window.before = reach;
    window.out = window.in + reach;
  }
  const std::int64_t after = (window.out - 1) * window.stride + reach + 1 - window.before - window.in;
  window.after = std::max<std::int64_t>(after, 0);
  return (slide.kept_step == 1 || window.in == 1) && after > -window.stride;
}

// y at o uses x at stride * o + dilation * k - before.
bool Matcher::direct_window(const Slide& slide, Window& window) {
  const bool forward = result_.kind == Kind::kForward;
  const std::int64_t kept_step = slide.kept_step == 0 ? 1 : slide.kept_step;
  const std::int64_t summed_step = slide.summed_step == 0 ? 1 : slide.summed_step;
  window.out = forward ? slide.kept : slide.summed;
  window.kernel = forward ? slide.summed : slide.kept;
  window.stride = forward ? kept_step : summed_step;
  window.dilation = forward ? summed_step : kept_step;
  window.x = slide.a;
  window.w = forward ? slide.b : slide.t;
  window.y = forward ? slide.t : slide.b;
  if (kept_step < 1 || summed_step < 1) {
    return false;
  }
  const std::int64_t reach = (window.out - 1) * window.stride + (window.kernel - 1) * window.dilation + 1;
  if (!slide.may_be_outside) {
    add_scaled(result_.a.form, slide.rest, slide.a);
    window.in = reach;
    return true;
  }
  if (has_symbols(slide.rest)) {
    return false;
  }
  const std::int64_t skipped = std::max<std::int64_t>(slide.rest.constant, 0);
  result_.a.form.constant += skipped * slide.a;
  window.before = skipped - slide.rest.constant;
  window.in = std::min(slide.extent - skipped, reach - window.before);
  window.after = reach - window.before - window.in;
  return window.in > 0;
}

// The read of a factor, without its cast. Precondition: factor() accepts the expression.
const program::Access& access_of(const Expr& expr) {
  return expr.op == Op::kCast ? expr.args[0].access : expr.access;
}

}  // namespace

std::optional<Convolution> recognize_convolution(const Program& program, const Statement& statement,
                                                 std::string& why_not) {
  const auto no = [&](const char* reason) {
    why_not = reason;
    return std::nullopt;
  };
  const bool guarded = statement.value.op == Op::kGuard;
  const Expr& value = guarded ? statement.value.args[0] : statement.value;
  if (statement.reduce != program::Reduce::kSum || value.op != Op::kMul ||
      value.type != program::Type::kF32 || statement.accumulator_type() != value.type) {
    return no("not a sum of f32 products");
  }
  if (guarded && statement.value.literal.number != 0) {
    return no("the guard's else value is not 0");
  }
  if (has_element_index(statement.target)) {
    return no("the target is a scatter");
  }
  const auto a = factor(program, statement, value.args[0]);
  const auto b = factor(program, statement, value.args[1]);
  if (!a || !b) {
    return no("a factor is not a plain read");
  }
  for (const Expr& read : value.args) {
    if (access_of(read).otherwise && may_be_out_of_range(program, statement, access_of(read))) {
      return no("a factor has its own else value");
    }
  }
  const char* reason = nullptr;
  for (const bool swap : {false, true}) {
    Matcher matcher(program, statement, swap ? *b : *a, swap ? *a : *b);
    reason = matcher.match(access_of(value.args[swap ? 1 : 0]), access_of(value.args[swap ? 0 : 1]));
    if (reason == nullptr) {
      return matcher.take();
    }
  }
  return no(reason);
}

}  // namespace yoke::cc
