// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/argument_test.cpp: invalid arguments of data_parallel and of a trainer's methods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(ReadValues, ReportsAMissingTensorByName) {
  Arguments().run([](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { trainer.read_values("nothing"); }),
                is_error(ErrorCode::kNotFound, "'nothing'"));
  });
}

}  // namespace
}  // namespace yoke::testing
