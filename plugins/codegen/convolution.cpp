// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/convolution.cpp: recognizes convolutions and their gradients among products.
#include "convolution.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "library_product.h"

namespace yoke::codegen {
namespace {

using matmul::Factor;
using matmul::Product;
using program::Program;
using program::Statement;
using Kind = ConvolutionKind;

// A loop that is not part of a window, with its steps in the addresses.
struct LoopSteps {
  std::int64_t extent = 1;
  std::int64_t slid = 0;  // in the factor with the windows
  std::int64_t other = 0;
  std::int64_t target = 0;
};

// A dimension of the slid factor, the one with the windows. Its index is (kept_step * kept + summed_step * summed +
// constant) / divisor: `kept` is a loop of the target, `summed` a reduced loop. The step of a missing loop is 0.
struct Slide {
  std::int64_t kept = 1;  // extents
  std::int64_t summed = 1;
  std::int64_t size = 1;  // of the dimension
  std::int64_t kept_step = 0;
  std::int64_t summed_step = 0;
  std::int64_t constant = 0;
  std::int64_t divisor = 1;
  bool may_be_outside = false;
  LoopSteps steps;  // of the dimension, of `summed` in the other factor, of `kept` in the target
};

struct Window {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t padding = 0;
  LoopSteps steps;

  std::int64_t reach() const { return (kernel - 1) * dilation; }
  // The outputs that a library computes: it pads both sides alike.
  bool fits(std::int64_t size) const {
    const std::int64_t last = size + 2 * padding - reach() - 1;
    return last >= 0 && last / stride + 1 == out;
  }
};

constexpr const char* kUneven = "the padding differs between the sides";
constexpr const char* kOther = "the indices are not those of a convolution";

// Matches a product whose factor `slid` has the windows.
class Matcher {
 public:
  Matcher(const Program& program, const Statement& statement, const Product& product, const Factor& slid,
          const Factor& other)
      : program_(program),
        statement_(statement),
        product_(product),
        slid_(slid),
        other_(other),
        plain_(statement.loops.size()),
        in_window_(statement.loops.size()) {}

  // Returns null, or why the product does not match.
  const char* run(FoundConvolution& out);
  bool has_windows() const { return !slides_.empty(); }

 private:
  bool dimension(program::Index index, std::uint64_t size, std::int64_t stride);
  bool axes();
  bool kind();
  const char* windows();
  const char* direct(const Slide& slide, Window& window);
  const char* inverse(const Slide& slide, Window& window);
  bool spread(std::vector<LoopSteps>& axes);
  const char* volumes(FoundConvolution& out) const;

  const Program& program_;
  const Statement& statement_;
  const Product& product_;
  const Factor& slid_;
  const Factor& other_;
  std::vector<std::int64_t> plain_;  // by loop: the step in the slid factor outside of windows
  std::vector<bool> in_window_;
  std::vector<Slide> slides_;
  std::vector<LoopSteps> groups_, rows_, columns_, depth_;  // in both factors, the slid, the other; summed
  std::vector<Window> windows_;
  std::int64_t start_ = 0;  // the first element of the slid factor
  Kind kind_ = Kind::kForward;
};

bool Matcher::dimension(program::Index index, std::uint64_t size, std::int64_t stride) {
  if (const auto quotient = exact_quotient(index)) {
    index = {*quotient, {}, {}, 1};
  }
  Slide slide;
  slide.size = static_cast<std::int64_t>(size);
  slide.constant = index.affine.constant;
  slide.divisor = index.divisor;
  slide.may_be_outside = may_be_out_of_range(program_, statement_, index, size);
  slide.steps.slid = stride;
  std::vector<program::Affine::Term> terms;
  std::copy_if(index.affine.terms.begin(), index.affine.terms.end(), std::back_inserter(terms),
               [&](const auto& term) { return term.is_symbol || statement_.loops[term.id].extent > 1; });
  if (std::any_of(terms.begin(), terms.end(), [](const auto& term) { return term.is_symbol; })) {
    return false;
  }
  const bool is_strided = terms.size() == 1 && std::abs(terms[0].coefficient) != 1;
  if (terms.size() <= 1 && !slide.may_be_outside && !is_strided) {
    start_ += index.affine.constant * stride;
    if (!terms.empty()) {
      plain_[terms[0].id] += terms[0].coefficient * stride;
    }
    return true;
  }
  for (const program::Affine::Term& term : terms) {
    const bool is_summed = statement_.reduces(term.id);
    const auto extent = static_cast<std::int64_t>(statement_.loops[term.id].extent);
    const std::int64_t in_other = product_.forms[other_.address].loops[term.id];
    const std::int64_t in_target = product_.forms[matmul::kTarget].loops[term.id];
    std::int64_t& step = is_summed ? slide.summed_step : slide.kept_step;
    if (step != 0 || in_window_[term.id] || (in_other == 0) == is_summed || (in_target == 0) != is_summed) {
      return false;
    }
    in_window_[term.id] = true;
    step = term.coefficient;
    (is_summed ? slide.summed : slide.kept) = extent;
    (is_summed ? slide.steps.other : slide.steps.target) = is_summed ? in_other : in_target;
  }
  slides_.push_back(slide);
  return true;
}

bool Matcher::axes() {
  for (std::uint32_t loop = 0; loop < statement_.loops.size(); ++loop) {
    const LoopSteps axis = {static_cast<std::int64_t>(statement_.loops[loop].extent), plain_[loop],
                            product_.forms[other_.address].loops[loop],
                            product_.forms[matmul::kTarget].loops[loop]};
    if (axis.extent == 1 || (in_window_[loop] && axis.slid == 0)) {
      continue;
    }
    const bool is_summed = statement_.reduces(loop);
    if (in_window_[loop] || (is_summed && (axis.slid == 0 || axis.other == 0))) {
      return false;
    }
    (is_summed ? depth_ : axis.slid == 0 ? columns_ : axis.other == 0 ? rows_ : groups_).push_back(axis);
  }
  const auto by_step = [](const LoopSteps& one, const LoopSteps& other) { return one.slid > other.slid; };
  std::stable_sort(rows_.begin(), rows_.end(), by_step);
  std::stable_sort(depth_.begin(), depth_.end(), by_step);
  return groups_.size() <= 1 && columns_.size() <= 1;
}

// The forward pass and the gradient of the filters have the same form: both sum over channels or images and one
// loop of each window. This tells them apart: in memory, images are outer and channels inner; filters are smaller
// than images.
bool Matcher::kind() {
  const auto is_inverse = [](const Slide& s) { return s.divisor > 1 || s.summed_step < 0; };
  const auto is_direct = [](const Slide& s) { return s.kept_step > 1 || s.summed_step > 0; };
  if (std::any_of(slides_.begin(), slides_.end(), is_inverse)) {
    kind_ = Kind::kInputGradient;
    return std::none_of(slides_.begin(), slides_.end(), is_direct);
  }
  if (slides_.empty()) {  // filters of one element
    const bool is_one = depth_.size() == 1 && columns_.size() == 1;
    const bool is_transposed = is_one && depth_[0].other > columns_[0].other;
    kind_ = depth_.size() > 1 ? Kind::kFilterGradient : is_transposed ? Kind::kInputGradient : Kind::kForward;
    // Either factor may be the images of a gradient. The outputs are outer in the filters.
    const bool is_swapped = !rows_.empty() && !columns_.empty() && rows_[0].target > columns_[0].target;
    return depth_.size() > 1 ? !is_swapped : rows_.size() > 1;
  }
  bool is_forward = !rows_.empty() && !depth_.empty() && depth_[0].slid < rows_[0].slid;
  if (rows_.empty() || depth_.empty()) {
    std::int64_t kept = 1;
    std::int64_t summed = 1;
    for (const Slide& slide : slides_) {
      kept *= slide.kept;
      summed *= slide.summed;
    }
    is_forward = kept >= summed;
  }
  kind_ = is_forward ? Kind::kForward : Kind::kFilterGradient;
  return true;
}

// y at o uses x at stride * o + dilation * k - padding.
const char* Matcher::direct(const Slide& slide, Window& window) {
  window.out = slide.kept;
  window.kernel = slide.summed;
  window.stride = slide.kept_step == 0 ? 1 : slide.kept_step;
  window.dilation = slide.summed_step == 0 ? 1 : slide.summed_step;
  if (kind_ == Kind::kFilterGradient) {  // it sums over the image
    std::swap(window.out, window.kernel);
    std::swap(window.stride, window.dilation);
  }
  if (window.stride < 1 || window.dilation < 1 || slide.divisor != 1) {
    return kOther;
  }
  const std::int64_t first = std::max<std::int64_t>(slide.constant, 0);
  window.padding = first - slide.constant;
  window.in = slide.size - first;
  if (!window.fits(window.in)) {  // the last elements may be unused
    const std::int64_t used = (window.out - 1) * window.stride + window.reach() + 1 - window.padding;
    if (used > window.in || !window.fits(used)) {
      return kUneven;
    }
    window.in = used;
  }
  start_ += first * slide.steps.slid;
  return window.in > 0 ? nullptr : kOther;
}

// The gradient of x at i uses that of y at (i + padding - dilation * k) / stride.
const char* Matcher::inverse(const Slide& slide, Window& window) {
  window.in = slide.kept;
  window.kernel = slide.summed;
  window.stride = slide.divisor;
  window.dilation = slide.summed_step == 0 ? 1 : -slide.summed_step;
  if ((slide.kept_step != 1 && window.in != 1) || window.dilation < 1) {
    return kOther;
  }
  if (slide.may_be_outside) {
    window.padding = slide.constant;
    window.out = std::min(slide.size, (window.in - 1 + window.padding) / window.stride + 1);
  } else {
    window.padding = window.reach();
    window.out = window.in + window.reach();
    start_ += (slide.constant - window.reach()) * slide.steps.slid;
  }
  return window.padding >= 0 && window.fits(window.in) ? nullptr : kUneven;
}

// All of these axes but the outermost become windows of one element.
bool Matcher::spread(std::vector<LoopSteps>& axes) {
  for (; axes.size() > 1; axes.pop_back()) {
    Window window;
    window.in = window.out = axes.back().extent;
    window.steps = axes.back();
    windows_.push_back(window);
  }
  return !windows_.empty() && windows_.size() <= 2;
}

const char* Matcher::windows() {
  for (const Slide& slide : slides_) {
    Window window;
    window.steps = slide.steps;
    const char* reason = kind_ == Kind::kInputGradient ? inverse(slide, window) : direct(slide, window);
    if (reason != nullptr) {
      return reason;
    }
    windows_.push_back(window);
  }
  const bool is_filter = kind_ == Kind::kFilterGradient;
  if ((is_filter ? rows_ : depth_).size() > 1 || !spread(is_filter ? depth_ : rows_)) {
    return kOther;
  }
  std::sort(windows_.begin(), windows_.end(),
            [](const Window& one, const Window& other) { return one.steps.slid < other.steps.slid; });
  windows_.resize(2);  // from width to height
  return nullptr;
}

// A dimension of one element may have any stride; it gets that of a dense volume.
void fill_strides(Volume& volume, bool is_channels_last) {
  std::uint64_t whole = 1;
  for (const std::size_t i :
       is_channels_last ? std::array<std::size_t, 4>{1, 3, 2, 0} : std::array<std::size_t, 4>{3, 2, 1, 0}) {
    volume.strides[i] = volume.dims[i] == 1 ? whole : volume.strides[i];
    whole = std::max(whole, volume.dims[i] * volume.strides[i]);
  }
}

bool is_usable(const Volume& volume, program::Type type) {
  return last_element(volume) && volume.offset * program::byte_size(type) % kLibraryAlignment == 0;
}

const char* Matcher::volumes(FoundConvolution& out) const {
  LibraryConvolution& made = out.convolution;
  made.kind = kind_;
  made.type = slid_.type;
  // Which operands are x, w and y: the slid factor, the other one or the target.
  constexpr std::int64_t LoopSteps::*kSteps[] = {&LoopSteps::slid, &LoopSteps::other, &LoopSteps::target};
  constexpr std::array<std::size_t, 3> kRoles[] = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}};
  const std::array<std::size_t, 3>& roles = kRoles[static_cast<std::size_t>(kind_)];
  const auto first_of = [](const auto& axes) { return axes.empty() ? LoopSteps{} : axes[0]; };
  const bool is_filter = kind_ == Kind::kFilterGradient;
  const LoopSteps images = first_of(is_filter ? depth_ : rows_);
  const LoopSteps group = first_of(groups_);
  LoopSteps in = first_of(is_filter ? rows_ : depth_);
  LoopSteps outs = first_of(columns_);
  if (kind_ == Kind::kInputGradient) {
    std::swap(in, outs);
  }
  made.groups = static_cast<std::uint64_t>(group.extent);
  const std::uint32_t tensors[] = {slid_.tensor, other_.tensor, product_.target};
  const std::int64_t offsets[] = {start_, product_.forms[other_.address].constant,
                                  product_.forms[matmul::kTarget].constant};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto step = kSteps[roles[i]];
    Volume& volume = made.volumes[i];
    out.tensors[i] = tensors[roles[i]];
    volume.offset = static_cast<std::uint64_t>(offsets[roles[i]]);
    const auto put = [&](std::size_t at, std::int64_t extent, std::int64_t stride) {
      volume.dims[at] = static_cast<std::uint64_t>(extent);
      volume.strides[at] = static_cast<std::uint64_t>(stride);
    };
    const auto put_joined = [&](std::size_t at, const LoopSteps& channels) {  // of all groups
      put(at, group.extent * channels.extent, channels.extent == 1 ? group.*step : channels.*step);
      return group.extent == 1 || channels.extent == 1 || group.*step == channels.*step * channels.extent;
    };
    if (!put_joined(i == 1 ? 0 : 1, i == 0 ? in : outs)) {
      return "the channels of all groups have no common stride";
    }
    i == 1 ? put(1, in.extent, in.*step) : put(0, images.extent, images.*step);
    for (std::size_t w = 0; w < 2; ++w) {
      const Window& window = windows_[w];
      put(3 - w, i == 0 ? window.in : i == 1 ? window.kernel : window.out, window.steps.*step);
      made.stride[1 - w] = static_cast<std::uint64_t>(window.stride);
      made.dilation[1 - w] = static_cast<std::uint64_t>(window.dilation);
      made.padding[1 - w] = static_cast<std::uint64_t>(window.padding);
    }
  }
  const auto is_inner = [](const Volume& volume) { return volume.dims[1] > 1 && volume.strides[1] == 1; };
  const bool is_channels_last = is_inner(made.volumes[0]) || is_inner(made.volumes[2]);
  for (Volume& volume : made.volumes) {
    fill_strides(volume, is_channels_last);
    if (!is_usable(volume, made.type)) {
      return "a tensor is too large or misaligned, or its elements overlap";
    }
  }
  return nullptr;
}

const char* Matcher::run(FoundConvolution& out) {
  if (!other_.checks.empty()) {
    return "both factors are padded";
  }
  const program::Tensor& tensor = program_.tensors[slid_.tensor];
  const std::vector<std::uint64_t> strides = strides_of(tensor);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (!dimension(slid_.access->indices[i], tensor.dims[i], static_cast<std::int64_t>(strides[i]))) {
      return kOther;
    }
  }
  if (!axes() || !kind()) {
    return kOther;
  }
  const char* reason = slid_.fill != 0 ? "the padding is not 0" : windows();
  return reason == nullptr ? volumes(out) : reason;
}

}  // namespace

std::optional<FoundConvolution> find_convolution(const Program& program, const Statement& statement,
                                                 const Product& product, std::string& why_not) {
  for (const bool is_first : {true, false}) {
    const Factor& slid = is_first ? product.a : product.b;
    FoundConvolution found;
    Matcher matcher(program, statement, product, slid, is_first ? product.b : product.a);
    const char* const reason = matcher.run(found);
    if (reason == nullptr) {
      found.convolution.accumulates = statement.assign == program::Assign::kAdd;
      return found;
    }
    if (matcher.has_windows()) {
      why_not = reason;
    }
  }
  return std::nullopt;
}

}  // namespace yoke::codegen
