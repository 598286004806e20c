// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/tensor_arguments_test.cpp: functions of tensors and parameters with null, empty and moved-from
// arguments. argument_kinds.py checks that the tests of this folder try each kind.
#include <yoke/program/text.h>
#include <yoke/yoke.h>

#include <cmath>
#include <utility>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;

const Tensor kNone;
const Tensor kMatrix = placeholder("m", Type::kF32, {2, 3});

TEST(TensorArguments, AccessorsOfAnEmptyTensor) {
  EXPECT_FALSE(kNone);
  EXPECT_EQ(kNone.node(), nullptr);
  EXPECT_FALSE(Tensor(std::shared_ptr<const detail::Node>()));
  EXPECT_TRUE(kNone.is(Tensor()));
  EXPECT_ERROR(kEmpty, (void)kNone.type());
  EXPECT_ERROR(kEmpty, (void)kNone.dims());
  EXPECT_ERROR(kEmpty, (void)kNone.rank());
  EXPECT_ERROR(kEmpty, (void)kNone.element_count());
  EXPECT_ERROR(kEmpty, (void)kNone.byte_count());
  EXPECT_ERROR(kEmpty, (void)kNone.name());
  EXPECT_ERROR(kEmpty, (void)kNone.source());
  EXPECT_ERROR(kEmpty, (void)kNone.is_leaf());
  EXPECT_ERROR(kEmpty, (void)kNone.host_bytes());
  EXPECT_ERROR(kEmpty, (void)kNone.named("x"));
  EXPECT_TRUE(kMatrix.named("").name().empty());
  EXPECT_ERROR(kInvalid, (void)kNone.at({"row", 0, 2, 1}));
  EXPECT_ERROR(kInvalid, (void)kMatrix.at({}));
  EXPECT_EQ(dims_text({}), "[]");
  EXPECT_EQ(element_count({}), 1U);
}

TEST(TensorArguments, Leaves) {
  EXPECT_EQ(placeholder("", Type::kF32, {}).rank(), 0U);
  EXPECT_ERROR(kInvalid, (void)placeholder("x", Type::kF32, {0}));
  EXPECT_ERROR(kInvalid, (void)literal(Type::kF32, {}, {}));
  EXPECT_EQ(tensor<float>({1}, {}).rank(), 0U);
  EXPECT_THAT(error_of([] { (void)literal(Type::kF32, {2}, {}); }),
              is_error(kInvalid, "a literal of f32[2] needs 8 bytes, but got 0"));
  EXPECT_THAT(error_of([] { (void)tensor<float>({}, {2}); }), is_error(kInvalid, "a literal of f32[2]"));
  EXPECT_THAT(error_of([] { (void)scalar("", 1); }), is_error(kInvalid, "scalar: it needs a name"));
  EXPECT_ERROR(kEmpty, (void)Scalar().value());
  EXPECT_ERROR(kEmpty, Scalar().set(1));
  EXPECT_FALSE(Scalar().tensor());
  EXPECT_ERROR(kInvalid, (void)symbol_value({}));
  EXPECT_ERROR(kInvalid, (void)rows(kNone, {"row", 0, 2, 1}, 1));
  EXPECT_ERROR(kInvalid, (void)rows(kMatrix, {"row", 0, 2, 1}, 0));
  EXPECT_EQ(seed_symbol().low, step_symbol().low);
  EXPECT_EQ(type_of<float>(), Type::kF32);
}

// Every operand of every elementwise operation of ops.def.
TEST(TensorArguments, ElementwiseOperations) {
#define YOKE_TEST_1(function) EXPECT_ERROR(kInvalid, (void)function(kNone));
#define YOKE_TEST_2(function)                          \
  EXPECT_ERROR(kInvalid, (void)function(kNone, 1.0F)); \
  EXPECT_ERROR(kInvalid, (void)function(1.0F, kNone));
#define YOKE_TEST_3(function)                                \
  EXPECT_ERROR(kInvalid, (void)function(kNone, 1.0F, 1.0F)); \
  EXPECT_ERROR(kInvalid, (void)function(1.0F, kNone, 1.0F)); \
  EXPECT_ERROR(kInvalid, (void)function(1.0F, 1.0F, kNone));
#define YOKE_OP(id, function, text, arity, ...) YOKE_TEST_##arity(function)
#include <yoke/program/ops.def>
#undef YOKE_TEST_1
#undef YOKE_TEST_2
#undef YOKE_TEST_3
  EXPECT_ERROR(kInvalid, (void)square(kNone));
  EXPECT_ERROR(kInvalid, (void)relu(kNone));
  EXPECT_ERROR(kInvalid, (void)cast(kNone, Type::kF32));
  EXPECT_ERROR(kInvalid, (void)stop_gradient(kNone));
}

TEST(TensorArguments, Reductions) {
  EXPECT_ERROR(kInvalid, (void)sum(kNone));
  EXPECT_ERROR(kInvalid, (void)mean(kNone));
  EXPECT_ERROR(kInvalid, (void)prod(kNone));
  EXPECT_ERROR(kInvalid, (void)max(kNone));
  EXPECT_ERROR(kInvalid, (void)min(kNone));
  EXPECT_ERROR(kInvalid, (void)any(kNone));
  EXPECT_ERROR(kInvalid, (void)all(kNone));
  EXPECT_ERROR(kInvalid, (void)argmax(kNone));
  EXPECT_ERROR(kInvalid, (void)argmin(kNone));
  EXPECT_ERROR(kInvalid, (void)einsum("", std::vector<Tensor>()));
  EXPECT_ERROR(kInvalid, (void)einsum("ij,jk", std::vector<Tensor>{kMatrix, kNone}));
  EXPECT_ERROR(kInvalid, (void)einsum({}, kNone));
  EXPECT_ERROR(kInvalid, (void)einsum("ij->i", kNone));
  EXPECT_ERROR(kInvalid, (void)matmul(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)matmul(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)cumsum(kNone));
  EXPECT_ERROR(kInvalid, (void)cumprod(kNone));
}

TEST(TensorArguments, ShapeOperations) {
  EXPECT_ERROR(kInvalid, (void)reshape(kNone, {2}));
  EXPECT_ERROR(kInvalid, (void)reshape(kMatrix, {}));
  EXPECT_ERROR(kInvalid, (void)flatten(kNone));
  EXPECT_ERROR(kInvalid, (void)transpose(kNone));
  EXPECT_ERROR(kInvalid, (void)permute(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)permute(kMatrix, {}));
  EXPECT_ERROR(kInvalid, (void)squeeze(kNone, 0));
  EXPECT_ERROR(kInvalid, (void)unsqueeze(kNone, 0));
  EXPECT_ERROR(kInvalid, (void)broadcast_to(kNone, {2}));
  EXPECT_ERROR(kInvalid, (void)broadcast_to(kMatrix, {}));
  EXPECT_ERROR(kInvalid, (void)slice(kNone, 0, 0, 1));
  EXPECT_ERROR(kInvalid, (void)slice(kMatrix, 0, 0, 0));
  EXPECT_ERROR(kInvalid, (void)slice(kMatrix, 0, 0, 1, 0));
  EXPECT_ERROR(kInvalid, (void)split(kNone, 2));
  EXPECT_ERROR(kInvalid, (void)split(kMatrix, 0));
  EXPECT_ERROR(kInvalid, (void)split(kMatrix, Dims()));
  EXPECT_ERROR(kInvalid, (void)flip(kNone));
  EXPECT_ERROR(kInvalid, (void)roll(kNone, 1));
  EXPECT_ERROR(kInvalid, (void)concat({}, 0));
  EXPECT_ERROR(kInvalid, (void)concat({kMatrix, kNone}, 0));
  EXPECT_ERROR(kInvalid, (void)stack({}));
  EXPECT_ERROR(kInvalid, (void)stack({kMatrix, kNone}));
  EXPECT_ERROR(kInvalid, (void)pad(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)pad(kMatrix, {}));
  EXPECT_ERROR(kInvalid, (void)windows(kNone, 0, 1));
  EXPECT_ERROR(kInvalid, (void)windows(kMatrix, 0, 0));
  EXPECT_ERROR(kInvalid, (void)windows(kMatrix, 0, 1, 0));
  EXPECT_ERROR(kInvalid, (void)windows(kMatrix, 0, 1, 1, 0));
  EXPECT_ERROR(kInvalid, (void)dynamic_slice(kNone, {}, {}));
  EXPECT_ERROR(kInvalid, (void)dynamic_slice(kMatrix, {}, {}));
  EXPECT_ERROR(kInvalid, (void)dynamic_slice(kMatrix, {Start(kNone), 0}, {1, 1}));
  EXPECT_ERROR(kInvalid, (void)dynamic_slice(kMatrix, {Symbol(), 0}, {1, 1}));
  EXPECT_ERROR(kInvalid, (void)dynamic_slice(kMatrix, {0, 0}, {0, 0}));
  EXPECT_ERROR(kInvalid, (void)take(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)take(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)take_along_axis(kNone, kMatrix, 0));
  EXPECT_ERROR(kInvalid, (void)take_along_axis(kMatrix, kNone, 0));
  EXPECT_ERROR(kInvalid, (void)one_hot(kNone, 2));
  EXPECT_ERROR(kInvalid, (void)one_hot(cast(kMatrix, Type::kI32), 0));
  EXPECT_ERROR(kInvalid, (void)full(Type::kF32, {0}, 1));
  EXPECT_ERROR(kInvalid, (void)zeros(Type::kF32, {0}));
  EXPECT_EQ(full(Type::kF32, {}, 1).rank(), 0U);
  EXPECT_EQ(zeros(Type::kF32, {}).rank(), 0U);
  EXPECT_ERROR(kInvalid, (void)iota({}, 0));
}

TEST(TensorArguments, LossesAndRandomNumbers) {
  EXPECT_ERROR(kInvalid, (void)gelu(kNone));
  EXPECT_ERROR(kInvalid, (void)softmax(kNone));
  EXPECT_ERROR(kInvalid, (void)log_softmax(kNone));
  EXPECT_ERROR(kInvalid, (void)mse(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)mse(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)hinge(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)hinge(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)mae(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)mae(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)kl_divergence(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)kl_divergence(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)cross_entropy(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)cross_entropy(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)binary_cross_entropy(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)binary_cross_entropy(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)huber(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)huber(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)gelu_tanh(kNone));
  EXPECT_ERROR(kInvalid, (void)silu(kNone));
  EXPECT_ERROR(kInvalid, (void)softplus(kNone));
  EXPECT_ERROR(kInvalid, (void)leaky_relu(kNone));
  EXPECT_ERROR(kInvalid, (void)accuracy(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)accuracy(kMatrix, kNone));
  EXPECT_EQ(random_bits({}).rank(), 0U);
  EXPECT_EQ(normal({}).rank(), 0U);
  EXPECT_ERROR(kInvalid, (void)random_bits({0}));
  EXPECT_ERROR(kInvalid, (void)uniform({0}));
  EXPECT_ERROR(kInvalid, (void)normal({0}));
}

TEST(TensorArguments, FunctionsOfLayers) {
  const Tensor image = placeholder("image", Type::kF32, {1, 3, 3, 2});
  EXPECT_ERROR(kInvalid, (void)conv(kNone, image));
  EXPECT_ERROR(kInvalid, (void)conv(image, kNone));
  EXPECT_ERROR(kInvalid, (void)conv_transpose(kNone, image));
  EXPECT_ERROR(kInvalid, (void)conv_transpose(image, kNone));
  EXPECT_ERROR(kInvalid, (void)max_pool(kNone, 2));
  EXPECT_ERROR(kInvalid, (void)max_pool(image, {}));
  EXPECT_ERROR(kInvalid, (void)average_pool(image, {}));
  EXPECT_ERROR(kInvalid, (void)adaptive_average_pool(image, {}));
  EXPECT_TRUE(PerAxis({}).numbers().empty());
  EXPECT_TRUE(ConvPadding({}).numbers().numbers().empty());
  EXPECT_TRUE(ConvPadding::same().is_same());
  EXPECT_EQ(ConvPadding::valid().numbers().numbers(), (std::vector<std::uint64_t>{0}));
  EXPECT_ERROR(kInvalid, (void)average_pool(kNone, 2));
  EXPECT_ERROR(kInvalid, (void)average_pool(image, 0));
  EXPECT_ERROR(kInvalid, (void)adaptive_average_pool(kNone, 1));
  EXPECT_ERROR(kInvalid, (void)global_average_pool(kNone));
  EXPECT_ERROR(kInvalid, (void)global_max_pool(kNone));
  EXPECT_ERROR(kInvalid, (void)layer_norm(kNone));
  EXPECT_ERROR(kInvalid, (void)layer_norm(image, {}, {}, 1e-5, 5));
  EXPECT_ERROR(kInvalid, (void)rms_norm(kNone));
  EXPECT_ERROR(kInvalid, (void)group_norm(kNone, 1));
  EXPECT_ERROR(kInvalid, (void)group_norm(image, 0));
  EXPECT_ERROR(kInvalid, (void)channel_moments(kNone));
  EXPECT_ERROR(kInvalid, (void)batch_norm(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)batch_norm(image, {}));
  EXPECT_ERROR(kInvalid, (void)attention(kNone, image, image));
  EXPECT_ERROR(kInvalid, (void)attention(image, kNone, image));
  EXPECT_ERROR(kInvalid, (void)attention(image, image, kNone));
  EXPECT_ERROR(kInvalid, (void)rotary(kNone));
  EXPECT_ERROR(kInvalid, (void)sinusoidal_positions(0, 2));
}

TEST(TensorArguments, GradientsAndLowering) {
  EXPECT_ERROR(kInvalid, (void)gradients(kNone, {kMatrix}));
  EXPECT_ERROR(kInvalid, (void)gradients(sum(kMatrix), {kNone}));
  EXPECT_TRUE(gradients(sum(kMatrix), std::vector<Tensor>()).empty());
  EXPECT_ERROR(kInvalid, (void)lower("p", {{"y", kNone}}));
  EXPECT_ERROR(kInvalid, (void)lower("p", {}, {{kNone, kMatrix}}));
  EXPECT_ERROR(kInvalid, (void)lower("p", {}, {{kMatrix, kNone}}));
  const Lowered nameless = lower("", {{"", kMatrix + 1.0F}});
  EXPECT_NO_THROW(program::parse_and_verify(program::print(nameless.program)));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)nameless.find(kNone));
  EXPECT_EQ(program_identifier(""), nameless.program.name);
  EXPECT_FALSE(Sgd().needs_state());
  EXPECT_ERROR(kInvalid, (void)sgd_one(kNone, kMatrix, kNone, 0.1F, {}));
  EXPECT_ERROR(kInvalid, (void)sgd_one(kMatrix, kNone, kNone, 0.1F, {}));
  EXPECT_ERROR(kInvalid, (void)sgd_one(kMatrix, kMatrix, kNone, kNone, {}));
  EXPECT_ERROR(kInvalid, (void)sgd_one(kMatrix, kMatrix, kNone, 0.1F, {.momentum = 0.9}));
}

TEST(TensorArguments, OptimizersAndOutputFiles) {
  EXPECT_TRUE(Optimizer().states().empty());
  EXPECT_ERROR(kInvalid, Optimizer("", {}, {}));
  EXPECT_ERROR(kInvalid, (void)Optimizer(OptimizerRule()));
  const auto no_update = [](const Tensor&, const Tensor&, const std::vector<Tensor>&, const Tensor&) {
    return std::vector<Update>();
  };
  EXPECT_ERROR(kInvalid, Optimizer("name", {""}, no_update));
  EXPECT_ERROR(kInvalid, (void)Optimizer(Adam()).update(kMatrix, kMatrix, std::vector<Tensor>(2), 0.1F));
  EXPECT_ERROR(kInvalid, (void)Optimizer().update(kNone, kMatrix, {}, 0.1F));
  EXPECT_ERROR(kInvalid, (void)Optimizer().update(kMatrix, kNone, {}, 0.1F));
  EXPECT_ERROR(kInvalid, (void)Optimizer().update(kMatrix, kMatrix, {}, kNone));
  EXPECT_ERROR(kInvalid, (void)Optimizer().update(UpdateOperands{}));
  EXPECT_EQ(Optimizer().rule().name, "sgd");
  EXPECT_EQ(Optimizer().group_of(""), 0U);
  EXPECT_ERROR(kInvalid, (void)clip_by_value({}, 0));
  EXPECT_ERROR(kInvalid, (void)clip_by_global_norm({}, 0));
  EXPECT_EQ(moving_average({}, 0).states().size(), 1U);
  EXPECT_TRUE(with_groups({}, {}).rule().patterns.empty());
  EXPECT_ERROR(ErrorCode::kNotFound, (void)optimizer_by_name(""));
  EXPECT_ERROR(kInvalid, OutputFile(""));
}

TEST(TensorArguments, CompositesAndScans) {
  EXPECT_ERROR(kInvalid, (void)composite({}, {kMatrix}));
  EXPECT_ERROR(kInvalid, (void)composite({.name = "one", .forward = {}}, {kMatrix}));
  const auto with = [](std::vector<Tensor> outputs) {
    return CompositeOptions{.name = "one", .forward = [outputs](const auto&) { return outputs; }};
  };
  EXPECT_ERROR(kInvalid, (void)composite(with({kMatrix}), {kNone}));
  EXPECT_EQ(composite(with({kMatrix}), {}).size(), 1U);
  EXPECT_ERROR(kInvalid, (void)composite(with({kNone}), {kMatrix}));
  EXPECT_ERROR(kInvalid, (void)composite(with({}), {kMatrix}));
  EXPECT_ERROR(kInvalid, (void)scan({}, {kMatrix}, {kMatrix}));
  const auto same = [](const auto& carry, const auto&) { return Scan{carry, {}}; };
  EXPECT_ERROR(kInvalid, (void)scan(same, {kNone}, {kMatrix}));
  EXPECT_TRUE(scan(same, {}, {kMatrix}).carry.empty());
  EXPECT_ERROR(kInvalid, (void)scan(same, {kMatrix}, {kNone}));
  EXPECT_ERROR(kInvalid, (void)scan(same, {kMatrix}, {}));
  EXPECT_ERROR(kInvalid, (void)scan(same, {kMatrix}, {}, 0));
  const auto nothing = [](const auto&, const auto&) { return Scan{{kNone}, {}}; };
  EXPECT_ERROR(kInvalid, (void)scan(nothing, {kMatrix}, {kMatrix}));
}

TEST(TensorArguments, Parameters) {
  const Parameter none;
  const Parameter weight("w", {2}, Initializer::zeros());
  EXPECT_ERROR(kInvalid, Parameter("", {2}, Initializer::zeros()));
  EXPECT_ERROR(kInvalid, Parameter::deferred("", Initializer::zeros()));
  EXPECT_ERROR(kInvalid, weight.rename(""));
  EXPECT_ERROR(kEmpty, (void)none.name());
  EXPECT_ERROR(kEmpty, none.rename("w"));
  EXPECT_ERROR(kEmpty, (void)none.type());
  EXPECT_ERROR(kEmpty, (void)none.has_dims());
  EXPECT_ERROR(kEmpty, (void)none.dims());
  EXPECT_ERROR(kEmpty, none.set_dims({2}, ""));
  EXPECT_ERROR(kEmpty, (void)none.byte_count());
  EXPECT_ERROR(kEmpty, (void)none.initializer());
  EXPECT_ERROR(kEmpty, none.set_initializer(Initializer::zeros()));
  EXPECT_ERROR(kEmpty, (void)none.is_state());
  EXPECT_TRUE(Parameter::state("s", Initializer::zeros()).is_state());
  EXPECT_ERROR(kInvalid, Parameter::state("", Initializer::zeros()));
  EXPECT_ERROR(kEmpty, (void)none.order());
  EXPECT_ERROR(kEmpty, none.move_last());
  EXPECT_ERROR(kEmpty, (void)none.tensor());
  EXPECT_ERROR(kEmpty, (void)none.init_tensor(0));
  EXPECT_ERROR(kEmpty, (void)none.has_values());
  EXPECT_ERROR(kEmpty, (void)none.values());
  EXPECT_ERROR(kEmpty, (void)none.float_values());
  EXPECT_ERROR(kEmpty, none.set_values({}));
  EXPECT_ERROR(kEmpty, none.clear_values());
  EXPECT_TRUE(none.is(Parameter()));
  EXPECT_ERROR(kInvalid, weight.set_values({}));
  EXPECT_ERROR(kInvalid, (void)Parameter::of(kNone));
  EXPECT_TRUE(parameters_of(kNone).empty());
  EXPECT_TRUE(parameters_of(std::span<const Tensor>()).empty());
  const std::vector<Tensor> empty_tensor(1);
  EXPECT_TRUE(parameters_of(empty_tensor).empty());
  const Parameter deferred = Parameter::deferred("d", Initializer::zeros());
  deferred.set_dims({}, "user");
  EXPECT_TRUE(deferred.dims().empty());
  EXPECT_ERROR(ErrorCode::kNotFound, (void)Initializer::by_name(""));
  for (const Initializer& one :
       {Initializer::kaiming_uniform(), Initializer::kaiming_normal(), Initializer::xavier_uniform(),
        Initializer::xavier_normal(), Initializer::uniform(0, 0), Initializer::normal(0, 0),
        Initializer::constant(0)}) {
    EXPECT_ERROR(kInvalid, (void)one(Type::kF32, {0}, 0)) << static_cast<int>(one.kind());
  }
  EXPECT_EQ(fan_in({}), 1U);
  EXPECT_EQ(fan_out({}), 1U);
}

TEST(TensorArguments, DataAndFiles) {
  EXPECT_ERROR(ErrorCode::kNotFound, (void)datasets::read_mnist(""));
  EXPECT_ERROR(kInvalid, (void)datasets::half_moons(0, 0.1, 0));
  EXPECT_ERROR(kInvalid, (void)datasets::half_moons(1, std::nan(""), 0));
  EXPECT_THROW(save_npz("", {}), Error);
  EXPECT_THROW((void)load_npz(""), Error);
  EXPECT_THROW(check_can_save(""), Error);
  const std::vector<NamedArray> nameless(1);
  EXPECT_ERROR(kInvalid, save_npz("unused.npz", nameless));
}

}  // namespace
}  // namespace yoke::test
