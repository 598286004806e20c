// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/nn.h: layers. A Module is a cheap handle; copies share their parameters.
//
// A layer infers its input size when it is first applied. Later inputs must have the same size; the batch
// size may differ. Parameter names are paths: `sequential` prefixes the names of its members' parameters
// with the member's position, as in "0.weight", "0.bias", "2.1.weight".
//
// Invalid shapes and types are an Error kInvalidArgument that names the layer and the tensors. Layers may
// not be applied by several threads at once.
#pragma once

#include <yoke/ops.h>
#include <yoke/parameter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace yoke::nn {

// Dropout is active in kTrain only. The mode is a property of the calling thread and takes effect when a
// module is applied; graphs that have been built do not change.
enum class Mode : std::uint8_t { kTrain, kEval };
Mode mode();  // kTrain unless a ModeScope on this thread has set another mode

// Sets the mode of the calling thread, and restores the previous mode when destroyed.
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

// The base class of custom layers.
class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  Layer(Layer&&) = delete;
  Layer& operator=(Layer&&) = delete;

  virtual Tensor forward(const Tensor& x) = 0;
  // The layer's parameters, in the same order on every call.
  virtual std::vector<Parameter> parameters() const { return {}; }
};

class Module {
 public:
  Module() = default;  // empty
  explicit Module(std::shared_ptr<Layer> layer) : layer_(std::move(layer)) {}
  explicit operator bool() const { return layer_ != nullptr; }
  // Error kFailedPrecondition: the module is empty.
  Tensor operator()(const Tensor& x) const;
  const std::shared_ptr<Layer>& layer() const { return layer_; }

 private:
  std::shared_ptr<Layer> layer_;
};

struct LinearOptions {
  bool bias = true;
  Type type = Type::kF32;
  // U(-b, b) with b = 1 / sqrt(in), the usual default for linear layers. The gain is 1 / sqrt(3).
  Initializer weight_init = Initializer::kaiming_uniform(0.5773502691896258);
  Initializer bias_init = Initializer::zeros();
  std::string name = "";  // if not empty, prefixes the parameter names "weight" and "bias"
};
// x * transpose(weight) + bias: [..., in] -> [..., out]. weight: [out, in]; bias: [out].
Module linear(std::uint64_t out, const LinearOptions& options = {});

struct EmbeddingOptions {
  Type type = Type::kF32;
  Initializer init = Initializer::normal(0, 1);
  std::string name = "";
};
// Looks up rows of a table: ids [...] -> [..., dim]. weight: [count, dim]. Ids out of range give zeros.
Module embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options = {});

struct LstmOptions {
  Type type = Type::kF32;
  std::string name = "";
};
// A recurrent layer, [batch, time, in] -> [batch, time, hidden]: PyTorch's torch.nn.LSTM with batch_first,
// with a single bias, and with initial states of 0. Parameters: weight_ih [4 * hidden, in], weight_hh [4 *
// hidden, hidden] and bias [4 * hidden], each with the gates in the order input, forget, cell, output. Their
// initial values are uniform in (-b, b), where b = 1 / sqrt(hidden).
Module lstm(std::uint64_t hidden, const LstmOptions& options = {});

Module relu();
Module tanh();
Module sigmoid();
Module gelu();
Module softmax(int axis = -1);
Module log_softmax(int axis = -1);
// Sets each element to 0 with probability `rate`, in [0, 1), and scales the others by 1 / (1 - rate). The
// mask differs between steps, between uses in a graph, and between seeds, that is, between shards.
Module dropout(double rate);
Module flatten();  // joins all axes except axis 0
Module sequential(std::vector<Module> members);
template <class... Members>
Module sequential(const Module& first, const Members&... rest) {
  return sequential(std::vector<Module>{first, rest...});
}

// All parameters of `module`, in the order of its members. A shared parameter is listed once.
std::vector<Parameter> parameters(const Module& module);

}  // namespace yoke::nn
