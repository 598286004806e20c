// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/predictor.cpp: a model on one device, with the parameters of a checkpoint.
#include <yoke/checkpoint.h>
#include <yoke/predictor.h>
#include <yoke/runtime/collective.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "host_copy.h"
#include "node.h"
#include "prediction.h"
#include "scalar_table.h"
#include "trainer_types.h"

namespace yoke {

using detail::fail;

namespace {

std::string described(const TensorSpec& spec) {
  return std::string(program::type_name(static_cast<Type>(spec.type))) + dims_text(spec.dims);
}

std::shared_ptr<Stream> open_stream(const PredictorOptions& options, std::shared_ptr<Runtime>& runtime) {
  runtime = options.runtime != nullptr ? options.runtime : std::make_shared<Runtime>();
  detail::check_prefixes("Predictor", options.device_options, {{options.backend_name}});
  return Stream::create(
      runtime->backend(options.backend_name)
          ->open_device(options.device, detail::options_for(options.backend_name, options.device_options)));
}

}  // namespace

struct Predictor::Impl {
  Impl(std::vector<NamedArray> parameters, Model given, const PredictorOptions& options)
      : model(std::move(given)), context(open_stream(options, runtime)) {
    device_name = options.backend_name + ":" + std::to_string(options.device);
    for (NamedArray& array : parameters) {
      arrays.emplace(std::move(array.name),
                     Given{{static_cast<std::int32_t>(array.type), std::move(array.dims)},
                           std::make_shared<std::vector<std::byte>>(std::move(array.bytes))});
    }
  }

  // Copies the parameter to the device at its first use, and frees the host's copy.
  void upload(const Parameter& parameter) {
    const std::string& name = parameter.name();
    const TensorSpec spec{static_cast<std::int32_t>(parameter.type()), parameter.dims()};
    if (uploaded.contains(name)) {
      if (!(context.tensor(name).spec == spec)) {
        fail("predict: two parameters have the name '" + name + "'; give them different names");
      }
      return;
    }
    const auto found = arrays.find(name);
    const bool is_given = found != arrays.end();
    if (!is_given && (!arrays.empty() || !parameter.has_values())) {
      fail("predict: the parameter '" + name +
           "' has no values; use the model that was trained, or give its values");
    }
    if (is_given && (!(found->second.spec == spec) || found->second.bytes->size() != spec.byte_count())) {
      fail("predict: the values of the parameter '" + name + "' are " + described(found->second.spec) +
           ", but the model has " + described(spec) +
           "; use the model that was trained, and inputs of the same shape");
    }
    const auto values = parameter.values();
    const auto bytes = is_given ? found->second.bytes
                                : std::make_shared<std::vector<std::byte>>(values.begin(), values.end());
    if (!context.has(name)) {  // unless an earlier upload has failed
      context.allocate(name, spec);
    }
    detail::write_now(context, name, bytes);
    uploaded.insert(name);
    if (is_given) {
      found->second.bytes.reset();
    }
  }

  detail::LinkedRows link(const Batch& data, std::uint64_t rows) {
    std::vector<std::tuple<std::string, Type, Dims>> key;
    for (const auto& [name, tensor] : data.fields()) {
      Dims dims = tensor.dims();
      dims[0] = rows;
      key.emplace_back(name, tensor.type(), std::move(dims));
    }
    if (const auto found = linked.find(key); found != linked.end()) {
      return found->second;
    }
    const detail::RowsProgram made = detail::rows_program(model, data, rows);
    for (const program::Symbol& symbol : made.lowered.program.symbols) {
      if (!symbol.is_variable) {
        fail("predict: the model uses the symbol '" + symbol.name +
             "', which has no value here; use Trainer::predict, or a model without it");
      }
    }
    for (const LoweredArgument& argument : made.lowered.arguments) {
      if (argument.kind == LoweredArgument::Kind::kParameter) {
        upload(Parameter::of(argument.leaf));
      }
    }
    scalars.add(std::span(&context, 1), made.program.scalars);
    Context child = detail::rows_context(context, made);
    for (const auto& [name, tensor] : made.program.literals) {
      child.init_from_host(name, {static_cast<std::int32_t>(tensor.type()), tensor.dims()},
                           tensor.host_bytes());
      child.stream()->wait();
    }
    const auto code = codes.get(context.stream()->device(), made.program.text);
    const LinkedRoutine routine = child.link(code, made.program.name, made.program.rename);
    const auto run = [this, routine] {
      scalars.send();
      routine.run();
    };
    return linked.emplace(key, detail::LinkedRows{child, run, made.outputs}).first->second;
  }

  std::shared_ptr<Runtime> runtime;
  std::string device_name;
  Model model;
  struct Given {
    TensorSpec spec;
    std::shared_ptr<std::vector<std::byte>> bytes;  // null once they are on the device
  };
  std::map<std::string, Given> arrays;  // by name
  std::set<std::string> uploaded;       // names of the parameters whose values are on the device
  Context context;                      // the parameters and scalars
  detail::ScalarTable scalars;
  CodeCache codes;
  std::map<std::vector<std::tuple<std::string, Type, Dims>>, detail::LinkedRows> linked;  // by the fields
};

namespace {

Predictor::Model checked(Predictor::Model model) {
  if (!model) {
    fail("Predictor: the model is empty; give a module, or a function of the inputs or of a batch");
  }
  return model;
}

}  // namespace

Predictor::Predictor(Model model, const PredictorOptions& options)
    : Predictor(std::vector<NamedArray>(), std::move(model), options) {}

Predictor::Predictor(std::vector<NamedArray> parameters, Model model, const PredictorOptions& options)
    : impl_(std::make_unique<Impl>(std::move(parameters), checked(std::move(model)), options)) {}

Predictor::Predictor(const std::filesystem::path& checkpoint, Model model, const PredictorOptions& options)
    : Predictor(load_checkpoint_weights(checkpoint).state.parameters, std::move(model), options) {}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Predictor::Impl& Predictor::impl() const {
  if (impl_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the Predictor was moved from; use the new object");
  }
  return *impl_;
}

Tensor Predictor::predict(const Tensor& inputs, std::int64_t batch_rows) {
  return predict(Batch{{"inputs", inputs}}, batch_rows);
}

Tensor Predictor::predict(const Batch& data, std::int64_t batch_rows) {
  Impl& own = impl();
  detail::check_prediction(static_cast<bool>(own.model), data, batch_rows);
  return detail::predict_rows(data, batch_rows, [&](std::uint64_t rows) { return own.link(data, rows); });
}

const std::string& Predictor::device_name() const {
  return impl().device_name;
}

}  // namespace yoke
