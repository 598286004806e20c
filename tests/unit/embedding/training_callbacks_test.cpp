// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/training_callbacks_test.cpp: callbacks of models, loops, optimizers and step plans that throw
// once. The exception reaches the caller, and the same objects then work.
#include <yoke/program/text.h>
#include <yoke/runtime/gradient_sum.h>
#include <yoke/yoke.h>

#include <fstream>
#include <map>

#include "training.h"

namespace yoke::test {
namespace {

struct Thrown {};  // not a std::exception, so nothing in between can handle it by accident

// What a callback calls: throws in its call number `at`, counted from 0.
class Trap {
 public:
  explicit Trap(int at = 0) : calls_left_(std::make_shared<int>(at)) {}
  void operator()() const {
    if ((*calls_left_)-- == 0) {
      throw Thrown();
    }
  }

 private:
  std::shared_ptr<int> calls_left_;
};

using Cases = std::vector<std::pair<const char*, std::function<void(const Trap& trap)>>>;

// Each case runs twice with the same trap: it throws, and then works. `check` follows each run.
void throws_then_works(
    const Cases& cases, const std::function<void()>& check = [] {}) {
  for (const auto& [name, call] : cases) {
    SCOPED_TRACE(name);
    const Trap trap;
    EXPECT_THROW(call(trap), Thrown);
    check();
    EXPECT_NO_THROW(call(trap));
    check();
  }
}

// ---- expressions ----

TEST(ThrowingCallbacks, OfModelsLeaveNoTrace) {
  const Tensor x = placeholder("x", Type::kF32, {2, 3, 4});
  const Tensor heads = placeholder("heads", Type::kF32, {1, 2, 3, 4});
  const auto text_of = [&] { return program::print(forward(cumsum(x * 2.0F)).program); };
  const std::string expected = text_of();
  throws_then_works(
      {{"nn::function",
        [&](const Trap& trap) {
          (void)nn::sequential(nn::relu(), nn::function([&](const Tensor& y) {
                                 trap();
                                 return y;
                               }))(x);
        }},
       {"BlockOptions::activation",
        [&](const Trap& trap) {
          const auto activation = [trap](const Tensor& y) {
            trap();
            return relu(y);
          };
          (void)nn::encoder_block(4, 2, {.activation = activation})(x);
        }},
       {"BlockOptions::norm",
        [&](const Trap& trap) {
          const auto norm = [trap] {
            trap();
            return nn::Module(nn::layer_norm());
          };
          (void)nn::decoder_block(4, 2, {.norm = norm})(x, x);
        }},
       {"AttentionOptions::dropout",
        [&](const Trap& trap) {
          const auto dropout = [trap](const Tensor& weights) {
            trap();
            return weights;
          };
          (void)attention(heads, heads, heads, {.dropout = dropout});
        }},
       {"CompositeOptions::backward",
        [&](const Trap& trap) {
          const auto forward = [](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{in[0] * in[0]};
          };
          const auto backward = [&](const auto& in, const auto&, const auto& gradient) {
            trap();
            return std::vector<Tensor>{in[0] * gradient[0]};
          };
          const CompositeOptions square = {.name = "square", .forward = forward, .backward = backward};
          (void)gradients(sum(composite(square, {x})[0]), {x});
        }},
       {"a composite in a scan",
        [&](const Trap& trap) {
          const auto forward = [&](const std::vector<Tensor>& in) {
            trap();
            return std::vector<Tensor>{in[0] * in[0]};
          };
          const auto body = [&](const auto& carry, const auto& row) {
            return Scan{{carry[0] + composite({.name = "one", .forward = forward}, {row[0]})[0]}, {}};
          };
          (void)scan(body, {zeros(Type::kF32, {3, 4})}, {x});
        }}},
      [&] { EXPECT_EQ(text_of(), expected); });
}

TEST(ThrowingCallbacks, OfTablesAndBatchesOfPrograms) {
  const auto file = std::filesystem::temp_directory_path() / ("yoke-throws-" + std::to_string(::getpid()));
  std::ofstream(file) << "1 2\n3 4\n";
  const Rig rig;
  const auto options = [](const Trap& trap) {
    return datasets::TableOptions{.check = [trap](const datasets::Table&) { trap(); }};
  };
  using datasets::LabelColumn;
  throws_then_works(
      {{"read_csv",
        [&](const Trap& trap) { (void)datasets::read_csv(file, "", LabelColumn::kOptional, options(trap)); }},
       {"read_columns",
        [&](const Trap& trap) {
          (void)datasets::read_columns(file, "", LabelColumn::kRequired, options(trap));
        }},
       {"compile_batch", [&](const Trap& trap) {
          const auto batch = compile_batch(rig.device, {forward(kInputs + 1.0F)}, [&](auto&, auto) {
            trap();
            return true;
          });
          EXPECT_TRUE(batch.is_compiled.at(0));
        }}});
  std::filesystem::remove(file);
}

// ---- loops ----

TEST(ThrowingCallbacks, OfLoopsRestoreTheBindings) {
  const Rig rig;
  const Symbol row{"row", 0, 3, 1};
  std::vector<Binding> bindings = {{row, 7}};
  const Lowered lowered = forward(kInputs[row]);
  Context context(rig.stream());
  allocate_missing(context, lowered);
  const LinkedRoutine routine =
      context.link(compile(rig.device, program::print(lowered.program)), "forward", context_names(lowered));
  const auto loop = [&](const std::function<void()>& worker, const std::function<void()>& sync) {
    const std::vector<std::function<void()>> workers = {[] {}, worker};
    std::vector<std::vector<Binding>> own = {bindings, bindings};
    round_robin(workers, own, bindings, [&](std::uint32_t) { sync(); });
  };
  throws_then_works(
      {{"a worker", [&](const Trap& trap) { loop(trap, [] {}); }},
       {"sync after a round", [&](const Trap& trap) { loop([] {}, trap); }},
       {"dry_sync", [&](const Trap& trap) { round_robin_dry_run(2, bindings, [&](auto) { trap(); }); }},
       {"after_each", [&](const Trap& trap) { sync_run(context, routine, lowered, bindings, trap); }}},
      [&] { EXPECT_EQ(bindings[0].value, 7); });
  const Trap last(1);
  EXPECT_THROW(loop([] {}, last), Thrown);  // in the sync of the incomplete round
  EXPECT_EQ(bindings[0].value, 7);
}

TEST(ThrowingCallbacks, PostSyncOfAParallelUpdate) {
  const Rig rig;
  const Symbol batch{"batch", 0, 4, 1};
  const Parameter w("w", {}, Initializer::zeros());
  w.set_values(bytes(std::vector<float>{0}));
  const Tensor x = tensor<float>({1, 1, 1, 1}, {4}, "x");
  const GradUpdate update = grad_update(x[batch] * w.tensor());  // the gradient is 1
  const Lowered sgd = sgd_update(update, 1.0F);
  const auto code = compile(rig.device, program::print(update.lowered.program));
  ParallelUpdate run;
  for (int k = 0; k < 2; ++k) {
    Context& context = run.contexts.emplace_back(rig.stream());
    allocate_missing(context, update.lowered);
    all_host_to_device(context, update.lowered);
    run.grad_updates.push_back(context.link(code, "gradient", context_names(update.lowered)));
  }
  run.sgd_update = run.contexts[0].link(compile(rig.device, program::print(sgd.program)), "sgd_update",
                                        context_names(sgd));
  run.bindings->push_back({batch, 0});
  const Trap trap;
  run.post_sync = [trap](std::uint32_t) { trap(); };
  const std::function<void()> epoch = parallel_update(run, update);
  EXPECT_THROW(epoch(), Thrown);
  EXPECT_EQ(run.bindings->at(0).value, 0);
  EXPECT_EQ(get(run.contexts[1], "w"), std::vector<float>{-2});  // the round itself has run
  epoch();
  EXPECT_EQ(get(run.contexts[1], "w"), std::vector<float>{-6});
}

TEST(ThrowingCallbacks, OfTheExampleLoop) {
  const Training run;
  const nn::Module layer = nn::linear(1);
  Trap in_model(-1);
  const auto model = [&](const Tensor& x) {
    in_model();
    return layer(x);
  };
  const auto train = [&](const std::function<void(ExampleLoop&)>& change) {
    ExampleLoop loop{.options = run.options, .epochs = 2};
    loop.options.learning_rate = {};
    change(loop);
    const auto loss = [](const Tensor& output, const Tensor& expected) { return mse(output, expected); };
    return example_train_loop(loop, kInputs, kTargets, model, loss);
  };
  const auto callback = [](const Trap& trap) { return [trap](auto&&...) { trap(); }; };
  throws_then_works(
      {{"per_batch", [&](const Trap& trap) { train([&](auto& loop) { loop.per_batch = callback(trap); }); }},
       {"per_epoch", [&](const Trap& trap) { train([&](auto& loop) { loop.per_epoch = callback(trap); }); }},
       {"lr_schedule",
        [&](const Trap& trap) {
          train([&](auto& loop) {
            loop.lr_schedule = [trap](const Tensor&, const Tensor& step) {
              trap();
              return step * 0.0F;
            };
          });
        }},
       {"model", [&](const Trap& trap) {
          in_model = trap;
          train([](auto&) {});
        }}});
  const ExampleResult result = train([](auto&) {});
  in_model = Trap();
  EXPECT_THROW((void)result.infer_callback(kInputs), Thrown);
  EXPECT_EQ(result.infer_callback(kInputs).size(), 3U);
}

// ---- predictions ----

TEST(ThrowingCallbacks, OfPredictors) {
  const Training run;
  Trap trap;
  const nn::Module layer = nn::linear(1);
  const auto model = [&](const Tensor& x) {
    trap();
    return layer(x);
  };
  run([&](Trainer& trainer) {
    trainer.step();
    EXPECT_THROW((void)trainer.predict([&](const Tensor&) -> Tensor { throw Thrown(); }, kInputs), Thrown);
    const auto times_two = [](const Tensor& x) { return x * 2.0F; };
    EXPECT_EQ(host_values(trainer.predict(times_two, kInputs)),
              host_values(tensor<float>({2, 4, 6, 8, 10, 12}, {3, 2})));
    trainer.step();
    EXPECT_EQ(trainer.step_count(), 2);
  });
  const std::vector<NamedArray> values = {{"weight", Type::kF32, {1, 2}, std::vector<std::byte>(8)},
                                          {"bias", Type::kF32, {1}, std::vector<std::byte>(4)}};
  Predictor predictor(values, model,
                      {.backend_name = run.options.backend_name, .runtime = run.options.runtime});
  EXPECT_THROW((void)predictor.predict(kInputs), Thrown);
  EXPECT_EQ(host_values(predictor.predict(kInputs)), std::vector<double>(3, 0));
  trap = Trap();
  EXPECT_EQ(predictor.predict(kInputs).dims(), (Dims{3, 1}));  // already compiled
  EXPECT_THROW((void)predictor.predict(kInputs, 1), Thrown);
  EXPECT_EQ(host_values(predictor.predict(kInputs, 1)), std::vector<double>(3, 0));
}

// ---- optimizers and step plans ----

TEST(ThrowingCallbacks, OfAnOptimizerRule) {
  const Tensor value = placeholder("w", Type::kF32, {2});
  for (const char* part : {"update", "term", "number"}) {
    SCOPED_TRACE(part);
    std::map<std::string, Trap> traps = {{"update", Trap(-1)}, {"term", Trap(-1)}, {"number", Trap(-1)}};
    OptimizerRule rule{.name = "rule", .update = [&](const UpdateOperands& now) {
                         traps.at("update")();
                         const Tensor step = now.learning_rate * now.gradient * cast(now.number, Type::kF32);
                         return std::vector<Update>{{now.value, now.value - step}};
                       }};
    rule.term = [&](const Tensor& gradient) {
      traps.at("term")();
      return cast(gradient * gradient, Type::kF64);
    };
    rule.number = [&](const Tensor& total) {
      traps.at("number")();
      return sqrt(total);
    };
    Training run;
    run.options.optimizer = Optimizer(rule);
    traps.at(part) = Trap();
    EXPECT_THROW(run([](Trainer&) { FAIL() << "training started"; }), Thrown);
    run([](Trainer& trainer) {
      trainer.step();
      EXPECT_GT(trainer.loss_value(), 0);
    });
    EXPECT_EQ(run.options.runtime->backend(run.control->name)->live_counts().buffers, 0U);
    traps.at("update") = Trap();
    EXPECT_THROW((void)run.options.optimizer.update({value, value, {}, 0.1F, scalar("n", 1, Type::kF64)}),
                 Thrown);
  }
}

// One weight array of 64 elements, which is one piece of a StepNumber.
StepProgram update_program(const UpdateShape&) {
  return {
      "yoke.program 1\nprogram update() {\n  arg value : f32[64] inout\n  arg gradient_0 : f32[64] in\n"
      "  arg number : f64[] in\n  value[i] = value[i] - gradient_0[i] * f32(number[])\n}\n",
      "update"};
}
StepProgram measure_program(const UpdateShape&) {
  return {
      "yoke.program 1\nprogram measure() {\n  arg gradient_0 : f32[64] in\n  arg pieces : f64[1] out\n"
      "  pieces[i] = sum[j:64] f64(gradient_0[64*i + j])\n}\n",
      "measure"};
}
StepProgram combine_program() {
  return {
      "yoke.program 1\nprogram combine() {\n  arg pieces_0 : f64[1] in\n  arg number : f64[] out\n"
      "  number[] = sum[i:1] pieces_0[i]\n}\n",
      "combine"};
}

TEST(ThrowingCallbacks, OfStepPlans) {
  const Rig rig;
  const std::vector<Context> shards = {Context(rig.stream()), Context(rig.stream())};
  const std::vector<SymbolTable> tables(2);
  const StepOptions options = {.merge = MergeStrategy::kOwner,
                               .placement = Placement::kOwner,
                               .overlap = Overlap::kOn,
                               .has_number = true};
  StepPlan plan(shards, 2, {{"w", {YOKE_TYPE_F32, {64}}}}, {}, options, nullptr);
  plan.allocate();
  plan.allocate_gradients();
  const Trap none(-1);
  const auto link = [&](const Trap& update, const Trap& measure, const Trap& combine) {
    const StepNumber number = {[&](const UpdateShape& shape) {
                                 measure();
                                 return measure_program(shape);
                               },
                               [&] {
                                 combine();
                                 return combine_program();
                               }};
    plan.link(
        [&](const UpdateShape& shape) {
          update();
          return update_program(shape);
        },
        tables, number);
  };
  EXPECT_THROW(link(Trap(), none, none), Thrown);
  EXPECT_ERROR(ErrorCode::kFailedPrecondition, plan.step(tables));  // it is not linked
  throws_then_works({{"UpdateOf", [&](const Trap& trap) { link(trap, none, none); }},
                     {"StepNumber::measure", [&](const Trap& trap) { link(none, trap, none); }},
                     {"StepNumber::combine", [&](const Trap& trap) { link(none, none, trap); }},
                     {"each_update", [&](const Trap& trap) { plan.each_update([&](auto&) { trap(); }); }},
                     {"each_measure", [&](const Trap& trap) { plan.each_measure([&](auto&) { trap(); }); }},
                     {"each_merge", [&](const Trap& trap) { plan.each_merge([&](auto, auto&) { trap(); }); }},
                     {"each_sum", [&](const Trap& trap) {
                        GradientSum::each_sum(plan.arenas(), 1, [&](auto&) { trap(); });
                      }}});
  // The gradient of each shard is 1 / 64: the sum of all elements of both is 2.
  for (const Context& shard : shards) {
    fill(*shard.stream(), shard.tensor("gradient/w").view, 1.0F / 64);
  }
  plan.step(tables);
  for (const Context& shard : shards) {
    EXPECT_EQ(get(shard, "w"), std::vector<float>(64, -2.0F / 64 * 2));
  }
}

}  // namespace
}  // namespace yoke::test
