// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn_convolution.cpp: layers for images: convolution, pooling, norms.
#include <yoke/all_reduce.h>
#include <yoke/normalization.h>
#include <yoke/runtime/counted.h>

#include <utility>

#include "nn_common.h"
#include "shortest.h"

namespace yoke::nn {
namespace {

const char* form_of(std::size_t spatial) {
  return spatial == 1 ? "[batch, length, channels]" : "[batch, height, width, channels]";
}

// A convolution or its transpose, with a bias.
template <class Options>
class Conv final : public Layer {
 public:
  Conv(const char* name, std::size_t spatial, std::uint64_t out, const PerAxis& kernel,
       const Options& options)
      : layer_(std::string(name) + "(" + std::to_string(out) + ")"),
        spatial_(spatial),
        out_(out),
        kernel_(kernel.numbers()),
        options_(options),
        weight_(parameter("weight", options.weight_init.value_or(uniform_by_fan_in()), options.type)) {
    if (kernel_.size() == 1) {
      kernel_.resize(spatial, kernel_[0]);
    }
    if (kernel_.size() != spatial) {
      detail::fail(layer_ + ": the kernel has " + detail::counted(kernel_.size(), "size") +
                   "; give one, or one for each of the " + std::to_string(spatial) + " spatial axes");
    }
    if (options.groups == 0 || out % options.groups != 0) {
      detail::fail(layer_ + ": " + std::to_string(options.groups) + " groups do not divide the " +
                   detail::counted(out, "output channel"));
    }
    if (options.bias) {
      bias_ = parameter("bias", options.bias_init.value_or(Initializer::zeros()), options.type);
      bias_.set_dims({out}, layer_);
    }
  }

  Tensor forward(const Tensor& x) const {
    check_input(x, layer_, weight_.type(), spatial_ + 2, form_of(spatial_));
    const std::uint64_t in = x.dims().back();
    if (in % options_.groups != 0) {
      detail::fail(layer_ + ": " + std::to_string(options_.groups) + " groups do not divide the " +
                   detail::counted(in, "channel") + " of the input " + detail::describe(x));
    }
    if (!weight_.has_dims()) {
      weight_.set_dims(weight_dims(in), layer_);
      if (bias_ && !options_.bias_init) {
        bias_.set_initializer(uniform_by_fan_in(weight_.dims()));
      }
    }
    weight_.set_dims(weight_dims(in), layer_);
    const Tensor y = apply(x);
    return bias_ ? y + bias_.tensor() : y;
  }

 private:
  static constexpr bool kIsTranspose = std::is_same_v<Options, ConvTransposeLayerOptions>;

  Dims weight_dims(std::uint64_t in) const {
    Dims dims{kIsTranspose ? in : out_};
    dims.insert(dims.end(), kernel_.begin(), kernel_.end());
    dims.push_back((kIsTranspose ? out_ : in) / options_.groups);
    return dims;
  }

  Tensor apply(const Tensor& x) const {
    if constexpr (kIsTranspose) {
      return conv_transpose(
          x, weight_.tensor(),
          {options_.stride, options_.dilation, options_.padding, options_.output_padding, options_.groups});
    } else {
      return conv(x, weight_.tensor(),
                  {options_.stride, options_.dilation, options_.padding, options_.groups});
    }
  }

  std::string layer_;
  std::size_t spatial_;
  std::uint64_t out_;
  Dims kernel_;
  Options options_;
  Parameter weight_;
  Parameter bias_;
};

// Returns the moments of the values of all shards, and the number of values per channel. Squares the differences from
// the overall mean, so that a large mean does not cost precision.
std::pair<Moments, Tensor> moments_of_shards(const Tensor& x) {
  const std::uint64_t channels = x.dims().back();
  Axes axes;
  for (std::size_t k = 0; k + 1 < x.rank(); ++k) {
    axes.push_back(static_cast<int>(k));
  }
  const Type wide = x.type() == Type::kF64 ? x.type() : Type::kF32;
  const Tensor values = cast(x, wide);
  const std::uint64_t rows = x.element_count() / channels;
  const Tensor own = full(wide, {1}, static_cast<double>(rows));
  const Tensor sums = all_reduce(concat({sum(values, axes), own}, 0), Reduction::kSum);
  const Tensor count = reshape(slice(sums, 0, channels, channels + 1), {});
  const Tensor center = slice(sums, 0, 0, channels) / count;
  const Tensor variance = all_reduce(sum(square(values - center), axes), Reduction::kSum) / count;
  return {{cast(center, x.type()), cast(variance, x.type())}, count};
}

class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options)
      : options_(options),
        mean_(state("running_mean", Initializer::zeros(), options.type)),
        variance_(state("running_var", Initializer::constant(1), options.type)) {
    if (!(options.momentum >= 0 && options.momentum <= 1)) {
      detail::fail("batch_norm: momentum " + detail::shortest(options.momentum) + " is out of range [0, 1]");
    }
    if (options.affine) {
      weight_ = parameter("weight", Initializer::constant(1), options.type);
      bias_ = parameter("bias", Initializer::zeros(), options.type);
    }
  }

  Tensor forward(const Tensor& x) const {
    detail::require(x, "batch_norm");
    if (x.rank() < 2 || x.type() != mean_.type()) {
      detail::fail("batch_norm: the input " + detail::describe(x) + " is " +
                   std::string(program::type_name(x.type())) + "; it must be " +
                   std::string(program::type_name(mean_.type())) + " [batch, .., channels]");
    }
    const std::uint64_t channels = x.dims().back();
    for (const Parameter& one : {mean_, variance_, weight_, bias_}) {
      if (one) {
        one.set_dims({channels}, "batch_norm");
      }
    }
    const Tensor weight = weight_ ? weight_.tensor() : Tensor();
    const Tensor bias = bias_ ? bias_.tensor() : Tensor();
    const Tensor running =
        yoke::batch_norm(x, {mean_.tensor(), variance_.tensor()}, weight, bias, options_.eps);
    const std::uint64_t rows = x.element_count() / channels;
    const auto count = static_cast<double>(rows);
    if (count < 2 && !options_.synchronized) {
      return by_mode({}, running);
    }
    Moments now;
    Tensor unbiased;
    Tensor has_several;  // whether a channel has more than one value; empty: yes
    if (options_.synchronized) {
      const auto [moments, all] = moments_of_shards(x);
      now = moments;
      unbiased = now.variance * cast(all / maximum(all - 1.0, 1.0), x.type());
      has_several = all > 1.0;
    } else {
      now = channel_moments(x);
      unbiased = now.variance * (count / (count - 1));
    }
    const auto next = [&](const Parameter& old, const Tensor& fresh) {
      const Tensor moved = old.tensor() * (1 - options_.momentum) + fresh * options_.momentum;
      return has_several ? where(has_several, moved, old.tensor()) : moved;
    };
    Tensor y = yoke::batch_norm(x, now, weight, bias, options_.eps);
    y = report_state(y, mean_, next(mean_, now.mean));
    return by_mode(report_state(y, variance_, next(variance_, unbiased)), running);
  }

 private:
  BatchNormOptions options_;
  Parameter mean_, variance_, weight_, bias_;
};

using NormFunction =
    std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps)>;

class Norm final : public Layer {
 public:
  Norm(const char* name, const NormOptions& options, bool has_bias, NormFunction function)
      : name_(name), eps_(options.eps), type_(options.type), function_(std::move(function)) {
    if (options.affine) {
      weight_ = parameter("weight", Initializer::constant(1), options.type);
    }
    if (options.affine && has_bias) {
      bias_ = parameter("bias", Initializer::zeros(), options.type);
    }
  }

  Tensor forward(const Tensor& x) const {
    detail::require(x, name_);
    if (x.rank() == 0 || x.type() != type_) {
      detail::fail(std::string(name_) + ": the input " + detail::describe(x) + " is " +
                   std::string(program::type_name(x.type())) + "; it must be " +
                   std::string(program::type_name(type_)) + " with at least one axis");
    }
    const auto value = [&](const Parameter& one) {
      if (one) {
        one.set_dims({x.dims().back()}, name_);
      }
      return one ? one.tensor() : Tensor();
    };
    return function_(x, value(weight_), value(bias_), eps_);
  }

 private:
  const char* name_;
  double eps_;
  Type type_;
  NormFunction function_;
  Parameter weight_, bias_;
};

}  // namespace

Module conv1d(std::uint64_t out, std::uint64_t kernel, const ConvLayerOptions& options) {
  return make<Conv<ConvLayerOptions>>("conv1d", 1, out, PerAxis(kernel), options);
}
Module conv2d(std::uint64_t out, const PerAxis& kernel, const ConvLayerOptions& options) {
  return make<Conv<ConvLayerOptions>>("conv2d", 2, out, kernel, options);
}
Module conv_transpose2d(std::uint64_t out, const PerAxis& kernel, const ConvTransposeLayerOptions& options) {
  return make<Conv<ConvTransposeLayerOptions>>("conv_transpose2d", 2, out, kernel, options);
}

Module max_pool(const PerAxis& window, const PoolOptions& options) {
  return function([=](const Tensor& x) { return yoke::max_pool(x, window, options); });
}
Module average_pool(const PerAxis& window, const AveragePoolOptions& options) {
  return function([=](const Tensor& x) { return yoke::average_pool(x, window, options); });
}
Module adaptive_average_pool(const PerAxis& count) {
  return function([=](const Tensor& x) { return yoke::adaptive_average_pool(x, count); });
}
Module global_average_pool() {
  return function([](const Tensor& x) { return yoke::global_average_pool(x); });
}
Module global_max_pool() {
  return function([](const Tensor& x) { return yoke::global_max_pool(x); });
}

Module batch_norm(const BatchNormOptions& options) {
  return make<BatchNorm>(options);
}
Module layer_norm(const NormOptions& options) {
  return make<Norm>("layer_norm", options, options.bias,
                    [](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
                      return yoke::layer_norm(x, weight, bias, eps);
                    });
}
Module rms_norm(const NormOptions& options) {
  return make<Norm>("rms_norm", options, false,
                    [](const Tensor& x, const Tensor& weight, const Tensor&, double eps) {
                      return yoke::rms_norm(x, weight, eps);
                    });
}
Module group_norm(std::uint64_t groups, const NormOptions& options) {
  return make<Norm>("group_norm", options, options.bias,
                    [groups](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
                      return yoke::group_norm(x, groups, weight, bias, eps);
                    });
}

}  // namespace yoke::nn
