// SPDX-License-Identifier: Apache-2.0
// plugins/cc/convolution.cpp: recognizes convolutions and their gradients.
#include "convolution.h"

#include <algorithm>
#include <utility>

namespace yoke::cc {

using program::Affine;
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
  // Strides: of the dimension in `a`, of loop `summed` in `b`, of loop `kept` in `t`. Extent: of the
  // dimension.
  Axis axis;

  bool is_inverse() const { return divisor > 1 || summed_step < 0; }
  bool is_direct() const { return kept_step > 1 || summed_step > 0; }
};

// Matches t = sum a * b, where `a` is the factor whose dimensions may combine two loops.
class Matcher {
 public:
  Matcher(const Program& program, const Statement& statement, SumOfProducts sum)
      : program_(program),
        statement_(statement),
        plain_{std::move(sum), {}, {}, {}, {}},
        slides_along_(statement.loops.size()) {}

  // Returns null, or why the statement does not match.
  const char* match(const program::Access& a, const program::Access& b) {
    constexpr const char* kOther = "the indices are not those of a convolution";
    if (may_be_out_of_range(program_, statement_, b)) {
      return "both factors are padded";
    }
    if (!dimensions(a) || set_axes(statement_, slides_along_, plain_) != nullptr || plain_.batch.size() > 1 ||
        plain_.n.size() > 1) {
      return kOther;
    }
    if (!kind()) {
      return "no dimension is a window";
    }
    return geometry() ? nullptr : kOther;
  }

  Convolution take() { return std::move(result_); }

 private:
  bool dimensions(const program::Access& a);
  bool dimension(program::Index index, std::uint64_t extent, std::int64_t stride);
  bool kind();
  bool geometry();
  bool inverse_window(const Slide& slide, Window& window);
  bool direct_window(const Slide& slide, Window& window);

  const Program& program_;
  const Statement& statement_;
  Contraction plain_;  // the sum without the window loops; `a.form` covers only the other loops
  std::vector<Slide> slides_;
  std::vector<bool> slides_along_;  // by loop
  Convolution result_;
};

bool Matcher::dimensions(const program::Access& a) {
  const program::Tensor& tensor = program_.tensors[a.tensor];
  const std::vector<std::uint64_t> strides = strides_of(tensor);
  plain_.a.form = form_of(Affine{}, statement_.loops.size(), program_.symbols.size());
  for (std::size_t i = 0; i < a.indices.size(); ++i) {
    if (a.indices[i].element_of ||
        !dimension(a.indices[i], tensor.dims[i], static_cast<std::int64_t>(strides[i]))) {
      return false;
    }
  }
  for (std::size_t i = 0; i < slides_along_.size(); ++i) {
    if (slides_along_[i] && plain_.a.form.loops[i] != 0) {
      return false;
    }
  }
  return true;
}

bool Matcher::dimension(program::Index index, std::uint64_t extent, std::int64_t stride) {
  if (const std::optional<Affine> quotient = exact_quotient(index)) {
    index = {*quotient, {}, {}, 1};
  }
  const std::size_t loop_count = statement_.loops.size();
  Slide slide;
  slide.rest = form_of(index.affine, loop_count, program_.symbols.size());
  slide.divisor = index.divisor;
  slide.may_be_outside = may_be_out_of_range(program_, statement_, index, extent);
  slide.axis.extent = static_cast<std::int64_t>(extent);
  slide.axis.a = stride;
  std::vector<std::uint32_t> used;
  for (std::uint32_t i = 0; i < loop_count; ++i) {
    if (slide.rest.loops[i] != 0 && statement_.loops[i].extent > 1) {
      used.push_back(i);
    }
  }
  if (used.size() <= 1 && !slide.may_be_outside) {
    add_scaled(plain_.a.form, slide.rest, stride);
    return true;
  }
  for (const std::uint32_t i : used) {
    const bool summed = statement_.reduces(i);
    std::int64_t& step = summed ? slide.summed_step : slide.kept_step;
    if (step != 0 || slides_along_[i]) {
      return false;
    }
    slides_along_[i] = true;
    step = slide.rest.loops[i];
    (summed ? slide.summed : slide.kept) = static_cast<std::int64_t>(statement_.loops[i].extent);
    (summed ? slide.axis.b : slide.axis.t) = (summed ? plain_.b : plain_.t).form.loops[i];
    if (summed == (plain_.b.form.loops[i] == 0)) {  // `b` has the summed loops and no others
      return false;
    }
  }
  slide.rest.loops.assign(loop_count, 0);
  slides_.push_back(std::move(slide));
  return true;
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
  bool forward = widest_step(plain_.k) < widest_step(plain_.m);
  if (plain_.k.empty() || plain_.m.empty()) {
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
  return !slides_.empty() || plain_.k.size() > 1;
}

bool Matcher::geometry() {
  for (const Slide& slide : slides_) {
    Window& window = result_.windows.emplace_back();
    window.axis = slide.axis;
    if (!(result_.kind == Kind::kInputGradient ? inverse_window(slide, window)
                                               : direct_window(slide, window))) {
      return false;
    }
  }
  static_cast<SumOfProducts&>(result_) = static_cast<const SumOfProducts&>(plain_);
  const bool weights = result_.kind == Kind::kWeightGradient;
  std::vector<Axis>& batch = weights ? plain_.k : plain_.m;
  const std::vector<Axis>& single = weights ? plain_.m : plain_.k;
  // All batch axes but the outermost become windows of extent 1.
  std::sort(batch.begin(), batch.end(), [](const Axis& one, const Axis& other) { return one.a > other.a; });
  for (std::size_t i = 1; i < batch.size(); ++i) {
    result_.windows.push_back({.in = batch[i].extent, .out = batch[i].extent, .axis = batch[i]});
  }
  if (single.size() > 1 || result_.windows.empty() || result_.windows.size() > 3) {
    return false;
  }
  const auto first_of = [](const std::vector<Axis>& axes) { return axes.empty() ? Axis{} : axes[0]; };
  const bool input = result_.kind == Kind::kInputGradient;
  result_.batch = first_of(batch);
  result_.group = first_of(plain_.batch);
  (input ? result_.out : result_.in) = first_of(single);
  (input ? result_.in : result_.out) = first_of(plain_.n);
  const auto ascends = [](const Axis& axis) { return axis.a >= 0 && axis.b >= 0 && axis.t >= 0; };
  return ascends(result_.batch) && ascends(result_.group) && ascends(result_.in) && ascends(result_.out) &&
         std::all_of(result_.windows.begin(), result_.windows.end(),
                     [&](const Window& window) { return ascends(window.axis); });
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
  const std::int64_t reach = window.dilation * (window.kernel - 1);
  if (slide.may_be_outside) {
    window.before = slide.rest.constant;
    if (window.before < 0 || has_symbols(slide.rest)) {
      return false;
    }
    window.out = std::min(slide.axis.extent, (window.in - 1 + window.before) / window.stride + 1);
  } else {
    add_scaled(plain_.a.form, slide.rest, slide.axis.a);
    plain_.a.form.constant -= reach * slide.axis.a;
    window.before = reach;
    window.out = window.in + reach;
  }
  const std::int64_t after = (window.out - 1) * window.stride + reach + 1 - window.before - window.in;
  window.after = std::max<std::int64_t>(after, 0);
  return (slide.kept_step == 1 || window.in == 1) && after > -window.stride;
}

// y at o uses x at stride * o + dilation * k - before.
bool Matcher::direct_window(const Slide& slide, Window& window) {
  window = {.out = slide.kept, .kernel = slide.summed, .axis = slide.axis};
  window.stride = slide.kept_step == 0 ? 1 : slide.kept_step;
  window.dilation = slide.summed_step == 0 ? 1 : slide.summed_step;
  if (window.stride < 1 || window.dilation < 1) {
    return false;
  }
  // A weight gradient sums over the image, so output and kernel change places.
  if (result_.kind == Kind::kWeightGradient) {
    std::swap(window.out, window.kernel);
    std::swap(window.stride, window.dilation);
  }
  const std::int64_t reach = (window.out - 1) * window.stride + (window.kernel - 1) * window.dilation + 1;
  if (!slide.may_be_outside) {
    add_scaled(plain_.a.form, slide.rest, slide.axis.a);
    window.in = reach;
    return true;
  }
  if (has_symbols(slide.rest)) {
    return false;
  }
  const std::int64_t skipped = std::max<std::int64_t>(slide.rest.constant, 0);
  plain_.a.form.constant += skipped * slide.axis.a;
  window.before = skipped - slide.rest.constant;
  window.in = std::min(slide.axis.extent - skipped, reach - window.before);
  window.after = reach - window.before - window.in;
  return window.in > 0;
}

}  // namespace

std::optional<Convolution> recognize_convolution(const Program& program, const Statement& statement,
                                                 std::string& why_not) {
  const auto no = [&](const char* reason) {
    why_not = reason;
    return std::nullopt;
  };
  const auto sum = sum_of_products(program, statement, why_not);
  if (!sum) {
    return std::nullopt;
  }
  if (sum->type != program::Type::kF32) {
    return no("not a sum of f32 products");
  }
  if (statement.value.op == program::Op::kGuard && statement.value.literal.number != 0) {
    return no("the guard's else value is not 0");
  }
  for (const std::size_t factor : {0U, 1U}) {
    const program::Access& read = read_of(statement, factor);
    if (read.otherwise && may_be_out_of_range(program, statement, read)) {
      return no("a factor has its own else value");
    }
  }
  const char* reason = nullptr;
  for (const std::size_t first : {0U, 1U}) {
    SumOfProducts ordered = *sum;
    if (first == 1) {
      std::swap(ordered.a, ordered.b);
    }
    Matcher matcher(program, statement, std::move(ordered));
    reason = matcher.match(read_of(statement, first), read_of(statement, 1 - first));
    if (reason == nullptr) {
      return matcher.take();
    }
  }
  return no(reason);
}

bool is_product(const Program& program, const Statement& statement) {
  std::string why_not;
  const auto product = recognize(program, statement, why_not);
  return (product && product->multiplications() >= kSmallProduct) ||
         recognize_convolution(program, statement, why_not);
}

}  // namespace yoke::cc
