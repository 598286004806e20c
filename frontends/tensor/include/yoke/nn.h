// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/nn.h: layers. A module is a cheap handle: copies share their parameters.
//
// Input sizes are inferred at the first use; every later use must fit them (another batch size does).
// Parameters are named by their path: `sequential` puts the position in front of its members' names:
// "0.weight", "0.bias", "2.1.weight".
#pragma once

#include <yoke/ops.h>
#include <yoke/parameter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace yoke::nn {

// Dropout acts in kTrain only. The mode belongs to the thread that builds the graph and is read while a
// module is applied: a graph that was built stays as it is.
enum class Mode : std::uint8_t { kTrain, kEval };
Mode mode();  // kTrain unless a ModeScope of this thread says otherwise

class ModeScope {
 public:
  explicit ModeScope(Mode mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;
  ModeScope(ModeScope&&) = delete;
  ModeScope& operator=(ModeScope&&) = delete;

 private:
  Mode before_;
};

// What a layer of one's own implements.
class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  Layer(Layer&&) = delete;
  Layer& operator=(Layer&&) = delete;

  virtual Tensor forward(const Tensor& x) = 0;
  virtual std::vector<Parameter> parameters() const { return {}; }  // in a stable order
};

class Module {
 public:
  Module() = default;  // empty
  explicit Module(std::shared_ptr<Layer> layer) : layer_(std::move(layer)) {}
  explicit operator bool() const { return layer_ != nullptr; }
  Tensor operator()(const Tensor& x) const;
  const std::shared_ptr<Layer>& layer() const { return layer_; }

 private:
  std::shared_ptr<Layer> layer_;
};

struct LinearOptions {
  bool bias = true;
  Type type = Type::kF32;
  // U(-b, b) with b = 1 / sqrt(in), as the field's frameworks start linear layers: it keeps the first logits
  // small.
  Initializer weight_init = Initializer::kaiming_uniform(0.5773502691896258);
  Initializer bias_init = Initializer::zeros();
  std::string name = "";  // put in front of "weight" and "bias", with a dot
};
Module linear(std::uint64_t out,
              const LinearOptions& options = {});  // x [..., in] -> [..., out]; weight [out, in], bias [out]

struct EmbeddingOptions {
  Type type = Type::kF32;
  Initializer init = Initializer::normal(0, 1);
  std::string name = "";
};
Module embedding(std::uint64_t count, std::uint64_t dim,
                 const EmbeddingOptions& options = {});  // ids [...] -> [..., dim]

Module relu();
Module tanh();
Module sigmoid();
Module gelu();  // x * (1 + erf(x / sqrt(2))) / 2
Module softmax(int axis = -1);
Module log_softmax(int axis = -1);
// Each element is 0 with probability `rate`, else scaled by 1 / (1 - rate); a new mask for each value of the
// step symbol, for each use in a graph, and for each seed (so for each shard).
Module dropout(double rate);
Module flatten();  // keeps axis 0
Module sequential(std::vector<Module> members);
template <class... Members>
Module sequential(const Module& first, const Members&... rest) {
  return sequential(std::vector<Module>{first, rest...});
}

// All parameters below `module`, each once, in the order of the members.
std::vector<Parameter> parameters(const Module& module);

}  // namespace yoke::nn
