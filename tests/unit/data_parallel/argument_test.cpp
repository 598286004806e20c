// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/argument_test.cpp: invalid arguments of data_parallel and of a trainer's methods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/all_reduce.h>

#include <limits>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;
using ::testing::HasSubstr;

struct Arguments {
  DataParallelOptions options = options_for(2, 0.1F);
  Tensor inputs = tensor(some_numbers(12, 1), {4, 3});
  Tensor targets = tensor(some_numbers(4, 2), {4, 1});
  std::function<Tensor(const Tensor&, const Tensor&)> loss_of =
      [model = nn::linear(1)](const Tensor& x, const Tensor& y) { return mse(model(x), y); };

  void run(const std::function<void(Trainer&)>& body) const {
    data_parallel(options, inputs, targets, loss_of, body);
  }
};

struct InvalidArgument {
  const char* name;
  void (*change)(Arguments&);
  const char* message;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

void PrintTo(const InvalidArgument& invalid, std::ostream* out) {
  *out << invalid.name;
}

void create_layer_in_loss(Arguments& a) {
  a.loss_of = [](const Tensor& x, const Tensor& y) { return mse(nn::linear(1)(x), y); };
}

void create_layer_in_later_calls(Arguments& a) {
  a.options.batch_size = 3;  // batches of 2 + 1 and 1 + 0 rows, so that loss_of is called several times
  a.loss_of = [loss = a.loss_of, calls = std::make_shared<int>(0)](const Tensor& x, const Tensor& y) {
    return ++*calls == 1 ? loss(x, y) : mse(nn::linear(1)(x), y);
  };
}

void use_symbol_without_binding(Arguments& a) {
  a.loss_of = [loss = a.loss_of](const Tensor& x, const Tensor& y) {
    return loss(x, y) + cast(symbol_value({"batch", 0, 4, 1}), Type::kF32);
  };
}

void use_parameter_in_rate(Arguments& a) {
  a.options.learning_rate = Parameter("w", {}, Initializer::constant(1)).tensor();
}

void accumulate_too_much(Arguments& a) {
  a.options.shards = 4;
  a.options.accumulate = std::int64_t{1} << 62;  // 4 times as many are 0, modulo 2^64
}

void reproduce_with_bf16(Arguments& a) {
  a.options.reproducible = 4;
  a.options.wire = Wire::kBF16;
}

void reproduce_with_measured_weights(Arguments& a) {
  a.options.reproducible = 4;
  a.options.measure_row_weights = true;
}

void request_4097_shards(Arguments& a) {
  a.options.shards = std::nullopt;
  a.options.backend_name = "cc:4096,cc:1";
}

void use_backend_without_devices(Arguments& a) {
  const auto control = std::make_shared<test::Control>();
  control->device_count = 0;
  test::register_backend(*a.options.runtime, 0, control);
  a.options.backend_name = "test0";
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
const Dims kVector = {2};
const Dims kThreeRows = {3, 1};
const Dims kInputs = {4, 3};

const InvalidArgument kInvalidArguments[] = {
    {"NoShards", [](Arguments& a) { a.options.shards = 0; }, "data_parallel: shards is 0; choose 1 to 4096"},
    {"TooManyShards", [](Arguments& a) { a.options.shards = 4097; },
     "data_parallel: shards is 4097; choose 1 to 4096"},
    {"NoLearningRate", [](Arguments& a) { a.options.learning_rate = Tensor(); },
     "learning_rate is missing; set options.learning_rate"},
    {"LearningRateIsNotAScalar", [](Arguments& a) { a.options.learning_rate = zeros(Type::kF32, kVector); },
     "learning_rate has shape [2]; it must be a scalar"},
    {"LearningRateIsInfinite", [](Arguments& a) { a.options.learning_rate = kInfinity; },
     "learning_rate is inf; it must be a finite number that is at least 0"},
    {"LearningRateIsNegative", [](Arguments& a) { a.options.learning_rate = -0.5F; },
     "learning_rate is -0.5; it must be a finite number that is at least 0"},
    {"LearningRateNeedsAnArgument",
     [](Arguments& a) { a.options.learning_rate = placeholder("rate", Type::kF32, {}); },
     "learning_rate uses 'rate'; it may use numbers, host data, scalars and symbols"},
    {"LearningRateNeedsAParameter", use_parameter_in_rate, "learning_rate uses 'w'; it may use numbers"},
    {"LearningRateIsReduced",
     [](Arguments& a) { a.options.learning_rate = all_reduce(a.options.learning_rate, Reduction::kSum); },
     "uses all_reduce, which only the loss may use"},
    {"NoStepsAhead", [](Arguments& a) { a.options.steps_ahead = 0; }, "steps_ahead is 0; choose 1 to 64"},
    {"TooManyStepsAhead", [](Arguments& a) { a.options.steps_ahead = 65; },
     "steps_ahead is 65; choose 1 to 64"},
    {"UnknownPolicyForLostDevices",
     [](Arguments& a) { a.options.on_device_lost = static_cast<OnDeviceLost>(9); },
     "on_device_lost is 9; use kFail or kRedistribute"},
    {"UnknownPrecision", [](Arguments& a) { a.options.precision = static_cast<Precision>(9); },
     "precision is 9; use kF32, kBF16 or kF16"},
    {"UnknownReduction", [](Arguments& a) { a.options.reduction = static_cast<Reduction>(9); },
     "reduction is 9; choose Reduction::kMean or kSum"},
    {"TooManyMicroBatches", accumulate_too_much, "accumulate is 4611686018427387904; choose 1 to 4096"},
    {"BatchSizeIsNegative", [](Arguments& a) { a.options.batch_size = -1; },
     "batch_size -1 is out of range for data of 4 rows; choose 1 to 4"},
    {"ReproducibleIsTheLeastNumber", [](Arguments& a) { a.options.reproducible = kLeast; },
     "reproducible is -9223372036854775808; choose a power of two up to 4096"},
    {"ReproducibleIsTooLarge", [](Arguments& a) { a.options.reproducible = 8192; },
     "reproducible is 8192; choose a power of two up to 4096"},
    {"ReproducibleWithRoundedGradients", reproduce_with_bf16,
     "reproducible is 4, which needs the wire format full"},
    {"ReproducibleWithMeasuredWeights", reproduce_with_measured_weights,
     "measure_row_weights and reproducible are set; set only one of them"},
    {"BindingHasAReservedName",
     [](Arguments& a) {
       a.options.bindings = {{"seed", 0, 4, 1}};
     },
     "the binding name 'seed' is duplicate or reserved"},
    {"BindingsHaveTheSameName",
     [](Arguments& a) {
       a.options.bindings = {{"batch", 0, 4, 1}, {"batch", 0, 2, 1}};
     },
     "the binding name 'batch' is duplicate or reserved"},
    {"BindingHasNoName",
     [](Arguments& a) {
       a.options.bindings = {{"", 0, 4, 1}};
     },
     "a binding has no name"},
    {"BindingHasNoStep",
     [](Arguments& a) {
       a.options.bindings = {{"batch", 0, 4, 0}};
     },
     "the range of binding 'batch' is empty"},
    {"BindingHasAnEmptyRange",
     [](Arguments& a) {
       a.options.bindings = {{"batch", 4, 4, 1}};
     },
     "the range of binding 'batch' is empty"},
    {"InputsAreAScalar", [](Arguments& a) { a.inputs = tensor<float>({1}, {}); },
     "inputs must not be a scalar; axis 0 is the batch"},
    {"BatchIsLargerThanTheData", [](Arguments& a) { a.options.batch_size = 5; },
     "batch_size 5 is out of range for data of 4 rows; choose 1 to 4"},
    {"NumbersOfRowsDiffer", [](Arguments& a) { a.targets = tensor(some_numbers(3, 2), kThreeRows); },
     "inputs has 4 rows, but targets has 3"},
    {"InputsAreNotHostData", [](Arguments& a) { a.inputs = placeholder("x", Type::kF32, kInputs); },
     "inputs must be host data (a literal)"},
    {"LossIsNotAScalar", [](Arguments& a) { a.loss_of = [](auto& x, auto&) { return x * x; }; },
     "loss_of returned a tensor of shape [2, 3]; it must return a floating-point scalar"},
    {"LossIsAnInteger",
     [](Arguments& a) { a.loss_of = [](auto& x, auto&) { return cast(sum(x), Type::kI32); }; },
     "loss_of returned a tensor of shape []; it must return a floating-point scalar"},
    {"LossHasNoParameters", [](Arguments& a) { a.loss_of = [](auto& x, auto&) { return sum(x); }; },
     "does not depend on any Parameter, so there is nothing to train"},
    {"LossCreatesLayers", create_layer_in_loss, "create the layers outside of it"},
    {"LossCreatesLayersLater", create_layer_in_later_calls, "create the layers outside of it"},
    {"SymbolHasNoBinding", use_symbol_without_binding,
     "the symbol 'batch' has no value; add it to options.bindings"},
    {"UnknownBackend", [](Arguments& a) { a.options.backend_name = "cudaa"; }, "cudaa", ErrorCode::kNotFound},
    {"UnknownBackendListsBackends", [](Arguments& a) { a.options.backend_name = "cudaa"; }, "cc",
     ErrorCode::kNotFound},
    {"BackendListWithoutCounts", [](Arguments& a) { a.options.backend_name = "cc:1,null"; },
     "every backend of a list needs a number of shards"},
    {"BackendCountIsNotANumber", [](Arguments& a) { a.options.backend_name = "cc:x"; },
     "the colon must be followed by a number of shards"},
    {"BackendCountIsTooLarge", [](Arguments& a) { a.options.backend_name = "cc:4097"; },
     "the colon must be followed by a number of shards, 1 to 4096"},
    {"BackendCountHasAUnit", [](Arguments& a) { a.options.backend_name = "cc:2x"; },
     "backend 'cc:2x': the colon must be followed by a number of shards"},
    {"BackendCountIsZero", [](Arguments& a) { a.options.backend_name = "cc:0"; },
     "backend 'cc:0': the colon must be followed by a number of shards"},
    {"BackendHasNoName", [](Arguments& a) { a.options.backend_name = "cc:1,:1"; },
     "backend_name 'cc:1,:1': a name is missing"},
    {"BackendsRequestTooManyShards", request_4097_shards, "'cc:4096,cc:1' requests more than 4096 shards"},
    {"BackendHasNoDevices", use_backend_without_devices, "backend 'test0' has no devices: no card",
     ErrorCode::kUnavailable},
    {"BackendCountContradictsShards", [](Arguments& a) { a.options.backend_name = "cc:3"; },
     "requests 3 shards, but options.shards is 2"},
    {"DeviceOptionOfAnotherBackend",
     [](Arguments& a) {
       a.options.device_options = {{"null.threads", std::int64_t{1}}};
     },
     "device option 'null.threads': 'null' is not a backend of this run; its backends: "},
    {"SeedOutOfRange", [](Arguments& a) { a.options.base_seed = -1; }, "base_seed -1 is out of range"},
    {"SeedIsTooLarge", [](Arguments& a) { a.options.base_seed = (std::int64_t{1} << 62) - 4096; },
     "base_seed 4611686018427383808 is out of range [0, 2^62 - 4097]"},
};

class InvalidArgumentTest : public ::testing::TestWithParam<InvalidArgument> {};

TEST_P(InvalidArgumentTest, IsAnErrorBeforeTraining) {
  Arguments arguments;
  GetParam().change(arguments);
  EXPECT_THAT(error_of([&] { arguments.run([](Trainer&) { FAIL() << "training started"; }); }),
              is_error(GetParam().code, GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(DataParallel, InvalidArgumentTest, ::testing::ValuesIn(kInvalidArguments),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(LayersOfLossOf, MayBeCreatedInTheFirstCallAndKept) {
  Arguments a;
  a.loss_of = [model = std::make_shared<nn::Module>()](const Tensor& x, const Tensor& y) {
    if (!*model) {
      *model = nn::linear(1);
    }
    return mse((*model)(x), y);
  };
  a.run([](Trainer& trainer) { EXPECT_EQ(trainer.owner_params().size(), 2U); });
}

TEST(EmptyFunctions, AreRefused) {
  const Arguments a;
  EXPECT_THAT(error_of([&] { data_parallel(a.options, a.inputs, a.targets, nullptr, [](Trainer&) {}); }),
              is_error(ErrorCode::kInvalidArgument, "data_parallel: loss_of is an empty function"));
  EXPECT_THAT(error_of([&] { data_parallel(a.options, a.inputs, a.targets, a.loss_of, nullptr); }),
              is_error(ErrorCode::kInvalidArgument, "data_parallel: body is an empty function"));
}

TEST(SetBatch, RejectsAnotherShapeAndTrainingCanContinue) {
  Arguments().run([](Trainer& trainer) {
    EXPECT_THAT(error_of([&] {
                  trainer.set_batch(tensor(some_numbers(15, 1), {5, 3}), tensor(some_numbers(5, 1), {5, 1}));
                }).what(),
                HasSubstr("inputs must be host data of shape [4, 3]"));
    trainer.step();
  });
}

TEST(SetBatch, RefusesFewerRowsUnlessTheyVary) {
  Arguments().run([](Trainer& trainer) {
    EXPECT_THAT(error_of([&] {
                  trainer.set_batch(tensor(some_numbers(9, 1), {3, 3}), tensor(some_numbers(3, 1), {3, 1}));
                }),
                is_error(ErrorCode::kInvalidArgument, "inputs must be host data of shape [4, 3]",
                         "other numbers of rows need options.varying_rows"));
  });
}

TEST(SetBatch, OfAnotherNumberOfRowsHasTheOtherDimensionsOfTheOriginalData) {
  Arguments a;
  a.options.varying_rows = true;
  a.run([](Trainer& trainer) {
    const Tensor three = tensor(some_numbers(9, 1), {3, 3});
    const Tensor targets = tensor(some_numbers(3, 1), {3, 1});
    trainer.set_batch(three, targets);
    const Tensor invalid[] = {
        Tensor(),
        tensor<float>({1}, {}),
        tensor(some_numbers(3, 1), {3}),
        tensor(some_numbers(6, 1), {3, 2}),
        tensor(std::vector<double>(9), {3, 3}),
        placeholder("x", Type::kF32, {3, 3}),
    };
    for (const Tensor& one : invalid) {
      EXPECT_THAT(
          error_of([&] { trainer.set_batch(one, targets); }),
          is_error(ErrorCode::kInvalidArgument, "inputs must be host data of shape [4, 3] and type f32",
                   "like the original data, or with another number of rows"));
    }
    // The fields may be in another order; the first one has fewer rows.
    EXPECT_THAT(
        error_of([&] {
          trainer.set_batch(Batch{{"targets", targets}, {"inputs", tensor(some_numbers(6, 1), {2, 3})}});
        }),
        is_error(ErrorCode::kInvalidArgument, "inputs has 2 rows, targets has 3 rows"));
    trainer.step();
  });
}

TEST(ReadValues, ReportsAMissingTensorByName) {
  Arguments().run([](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { trainer.read_values("nothing"); }),
                is_error(ErrorCode::kNotFound, "'nothing'"));
  });
}

}  // namespace
}  // namespace yoke::testing
