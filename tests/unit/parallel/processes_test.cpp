// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/processes_test.cpp: groups with members in several processes.
#include <yoke/runtime/parallel.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "native_rig.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

// Two processes of a group, as two threads: each knows only its own members. This backend does not reach other
// processes, but it does not know which thread a member is from.
class Processes : public Native {
 protected:
  // Runs `work` for each process, with the ranks {0, 1} and {2, ...}, and returns their errors.
  std::vector<std::string> run(std::uint32_t size,
                               const std::function<void(std::uint32_t process, ProcessGroup)>& work) {
    const std::vector<std::byte> id = create_group_id(*devices[0]);
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (std::uint32_t process = 0; process < 2; ++process) {
      threads.emplace_back([&, process] {
        try {
          work(process, {2 * process, size, id});
        } catch (const Error& error) {
          errors[process] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return errors;
  }
  // The members of one process.
  static std::span<const Context> here(std::span<const Context> all, const ProcessGroup& group) {
    return group.first_rank == 0 ? all.first(2) : all.subspan(2);
  }
};

TEST_F(Processes, HaveTheResultsOfOneProcess) {
  for (const std::uint64_t count :
       {64U * 5U, 400U, 63U}) {  // parts of the same size, of different sizes, and one only
    for (const Case& one : kCases) {
      const std::vector<Context> mine = members(5, YOKE_TYPE_F32, count);
      const std::vector<Context> theirs = members(5, YOKE_TYPE_F32, count);
      const std::vector<std::string> errors = run(5, [&](std::uint32_t, const ProcessGroup& group) {
        const auto collectives = Collectives::create(MergeStrategy::kAuto, here(mine, group),
                                                     MergeUse::kStreaming, nullptr, Wire::kFull, group);
        EXPECT_EQ(collectives->size(), 5U);
        one.link(*collectives, {0, count}).run();
        collectives->barrier().run();
      });
      ASSERT_THAT(errors, ::testing::Each("")) << one.name;
      one.link(*Collectives::create(MergeStrategy::kOwner, theirs), {0, count}).run();
      const std::vector<Slice> parts = slices(count, sizeof(float), 5);
      for (std::uint32_t k = 0; k < 5; ++k) {
        const std::vector<std::byte> got = contents(mine[k]);
        const std::vector<std::byte> expected = contents(theirs[k]);
        for (std::uint32_t part = 0; part < 5; ++part) {
          if (one.is_defined(k, part)) {
            EXPECT_TRUE(
                std::equal(got.begin() + static_cast<std::ptrdiff_t>(parts[part].begin * sizeof(float)),
                           got.begin() + static_cast<std::ptrdiff_t>(parts[part].end * sizeof(float)),
                           expected.begin() + static_cast<std::ptrdiff_t>(parts[part].begin * sizeof(float))))
                << one.name << " of " << count << ", member " << k << ", part " << part;
          }
        }
      }
    }
  }
}

// Work after the barrier sees what the other process wrote before it.
TEST_F(Processes, WaitForEachOtherAtABarrier) {
  const std::vector<Context> all = members(3);
  const auto control = register_backend(runtime, 0, Rig::make_control(Streams::kNative));
  const auto device = runtime.backend(control->name)->open_device(0);
  const auto elsewhere = Stream::create(device);
  const BufferView buffer = buffer_of<float>(device, 1);
  control->is_blocked = true;
  const std::vector<std::string> errors = run(3, [&](std::uint32_t process, const ProcessGroup& group) {
    const auto collectives = Collectives::create(MergeStrategy::kNative, here(all, group),
                                                 MergeUse::kStreaming, nullptr, Wire::kFull, group);
    if (process == 1) {
      test::fill(*elsewhere, buffer, 1.0F);
      all[2].stream()->wait_for(elsewhere->record());
    }
    const LinkedCollective barrier = collectives->barrier();
    barrier.run();
    EXPECT_FALSE(all[2 * process].stream()->is_idle());
    if (process == 0) {
      std::this_thread::sleep_for(20ms);
      EXPECT_FALSE(all[1].stream()->is_idle());
      control->is_blocked = false;
    }
    for (const Context& member : here(all, group)) {
      member.stream()->wait();
    }
  });
  EXPECT_THAT(errors, ::testing::Each(""));
}

TEST_F(Processes, AreRefusedWhereTheGroupCannotWork) {
  const std::vector<Context> all = members(2);
  const std::vector<std::byte> id = create_group_id(*devices[0]);
  const auto create = [&](MergeStrategy strategy, const ProcessGroup& group) {
    return error_of(
        [&] { Collectives::create(strategy, all, MergeUse::kStreaming, nullptr, Wire::kFull, group); });
  };
  EXPECT_THAT(
      create(MergeStrategy::kTree, {0, 4, id}),
      is_error(ErrorCode::kInvalidArgument, "merge strategy tree works in one process only; use native"));
  EXPECT_THAT(create(MergeStrategy::kAuto, {3, 4, id}),
              is_error(ErrorCode::kInvalidArgument, "ranks 3 to 4 of 4 members"));
  EXPECT_THAT(create(MergeStrategy::kAuto, {4, 4, id}),
              is_error(ErrorCode::kInvalidArgument, "ranks 4 to 5"));
  EXPECT_THAT(create(MergeStrategy::kAuto, {0, 4, {}}),
              is_error(ErrorCode::kInvalidArgument, "an id of 0 bytes", "create_group_id()"));
  EXPECT_THAT(create(MergeStrategy::kAuto, {0, 4, std::vector<std::byte>(YOKE_GROUP_ID_BYTES)}),
              is_error(ErrorCode::kInvalidArgument, "the id of the group is not from group_id_create"));
  const auto control = register_backend(runtime, 0, std::make_shared<Control>());
  EXPECT_THAT(error_of([&] { create_group_id(*runtime.backend(control->name)->open_device(0)); }),
              is_error(ErrorCode::kFailedPrecondition, "'test0' does not offer yoke.collectives/1"));
  const auto plan = [&](std::uint32_t merging, StepOptions options) {
    options.processes = {0, 4, id};
    return error_of([&] { StepPlan(all, merging, {{"w", {YOKE_TYPE_F32, {4}}}}, {}, options, nullptr); });
  };
  EXPECT_THAT(plan(1, {}),
              is_error(ErrorCode::kInvalidArgument, "all shards of a group over processes", "1 of 2"));
  EXPECT_THAT(plan(2, {.placement = Placement::kOwner}),
              is_error(ErrorCode::kInvalidArgument, "placement owner works in one process only"));
  EXPECT_THAT(plan(2, {.merge = MergeStrategy::kRing}),
              is_error(ErrorCode::kInvalidArgument, "merge strategy ring works in one process only"));
  EXPECT_THAT(plan(2, {.wire = Wire::kBF16}), is_error(ErrorCode::kInvalidArgument, "native"));
}

// A process that does not come makes the others fail by their deadline.
TEST(MissingProcess, IsAnErrorAtTheDeadline) {
  RuntimeOptions options = mutant_options();
  options.wait_timeout = 100ms;
  Runtime runtime(options);
  const auto device = runtime.backend("mutant")->open_device(0);
  const std::vector<Context> all = {Context(Stream::create(device))};
  EXPECT_THAT(error_of([&] {
                Collectives::create(MergeStrategy::kNative, all, MergeUse::kStreaming, nullptr, Wire::kFull,
                                    {1, 3, create_group_id(*device)});
              }),
              is_error(ErrorCode::kDeadlineExceeded, "member 1 of 3", "have not joined"));
}

// This backend does not tell the others that a member failed, so they wait until their own deadline.
TEST_F(Processes, EndByTheirDeadlineIfAMemberOfAnotherFails) {
  const std::vector<Context> all = members(3);  // rank 2 is on device 0
  arm(0, YOKE_FAULT_COPY);
  const std::vector<std::byte> bytes = some_bytes(YOKE_TYPE_F32, 1000, 9);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> errors = run(3, [&](std::uint32_t process, const ProcessGroup& group) {
    const auto collectives = Collectives::create(MergeStrategy::kNative, here(all, group),
                                                 MergeUse::kStreaming, nullptr, Wire::kFull, group);
    const LinkedCollective sum = collectives->all_reduce("g");
    if (process == 1) {
      all[2].from_host("g", bytes);
    }
    sum.run();
    try {
      all[2 * process].stream()->wait(1s);
    } catch (const Error&) {
      all[2 * process].stream()->abort();  // so that nothing waits for it any longer
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("did not finish within 1000 ms"));
  EXPECT_THAT(errors[1], HasSubstr("because a fault was armed"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

// Members of one process may have slices of one buffer, but not the same memory.
TEST_F(Processes, BroadcastToSlicesOfOneBuffer) {
  const auto memory = std::make_shared<Buffer>(devices[0], 512);
  std::vector<Context> all;
  for (std::uint32_t k = 0; k < 3; ++k) {
    all.emplace_back(Stream::create(devices[k / 2]));
    const BufferView view =
        k < 2 ? BufferView{memory, std::uint64_t{256} * k, 16} : buffer_of<float>(devices[1], 4);
    all[k].adopt("g", {YOKE_TYPE_F32, {4}}, view);
    all[k].adopt("shared", {YOKE_TYPE_F32, {4}}, k < 2 ? BufferView{memory, 0, 16} : view);
    test::fill(*all[k].stream(), view, static_cast<float>(k + 1));
    all[k].stream()->wait();
  }
  const std::vector<std::string> errors = run(3, [&](std::uint32_t process, const ProcessGroup& group) {
    const auto collectives = Collectives::create(MergeStrategy::kNative, here(all, group),
                                                 MergeUse::kStreaming, nullptr, Wire::kFull, group);
    collectives->broadcast("g").run();
    for (const Context& member : here(all, group)) {
      member.stream()->wait();
    }
    if (process == 0) {
      EXPECT_THAT(error_of([&] { collectives->broadcast("shared"); }),
                  is_error(ErrorCode::kInvalidArgument, "'shared'", "over processes share memory"));
    }
  });
  ASSERT_THAT(errors, ::testing::Each(""));
  for (const Context& member : all) {
    EXPECT_EQ(get(member, "g"), std::vector<float>(4, 1));
  }
}

// Steps of SGD with momentum on gradients that depend on the rank: the parameters of all shards.
std::vector<std::vector<float>> stepped(std::span<Context> shards, const ProcessGroup& group,
                                        StepOptions options) {
  options.processes = group;
  options.bucket_byte_count = 512;
  const auto size = static_cast<std::uint32_t>(shards.size());
  StepPlan plan(shards, size, {{"a", {YOKE_TYPE_F32, {300}}}, {"b", {YOKE_TYPE_F32, {7}}}}, {"velocity"},
                options, nullptr);
  plan.allocate();
  plan.allocate_gradients();
  const std::vector<SymbolTable> tables(size);
  plan.link(
      [](const UpdateShape& shape) {
        const std::string n = std::to_string(shape.count);
        std::string sum = "gradient_0[i]";
        std::string arguments;
        for (std::uint32_t t = 0; t < shape.terms; ++t) {
          arguments += "  arg gradient_" + std::to_string(t) + " : f32[" + n + "] in\n";
          sum = t == 0 ? sum : sum + " + gradient_" + std::to_string(t) + "[i]";
        }
        return StepProgram{"yoke.program 1\nprogram update() {\n" + arguments + "  arg value : f32[" + n +
                               "] inout\n  arg velocity : f32[" + n +
                               "] inout\n  velocity[i] = velocity[i] * 0.5 + " + sum +
                               "\n  value[i] = value[i] - 0.1 * velocity[i]\n}\n",
                           "update"};
      },
      tables);
  for (std::uint32_t step = 0; step < 3; ++step) {
    for (std::uint32_t k = 0; k < size; ++k) {
      for (const std::string name : {"gradient/a", "gradient/b"}) {
        std::vector<float> values(shards[k].tensor(name).spec.dims[0]);
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = std::sin(static_cast<float>((group.first_rank + k + 1) * (i + 3) * (step + 1)));
        }
        shards[k].from_host(name, std::as_bytes(std::span(values)));
        shards[k].stream()->wait();
      }
    }
    plan.step(tables);
  }
  std::vector<std::vector<float>> result;
  for (const Context& shard : shards) {
    auto& values = result.emplace_back();
    for (const char* name : {"a", "b"}) {
      const auto part = read<float>(*shard.stream(), shard.tensor(name).view);
      values.insert(values.end(), part.begin(), part.end());
    }
  }
  return result;
}

TEST_F(Processes, TrainTheParametersOfOneProcess) {
  for (const std::uint32_t size : {3U, 4U}) {
    std::vector<Context> theirs = members(size);
    const auto expected =
        stepped(theirs, {}, {.merge = MergeStrategy::kNative, .placement = Placement::kEverywhere});
    for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
      std::vector<Context> mine = members(size);
      std::vector<std::vector<std::vector<float>>> got(2);
      const std::vector<std::string> errors =
          run(size, [&](std::uint32_t process, const ProcessGroup& group) {
            const std::span<Context> all = mine;
            got[process] = stepped(process == 0 ? all.first(2) : all.subspan(2), group, {.overlap = overlap});
          });
      ASSERT_THAT(errors, ::testing::Each(""));
      for (const auto& process : got) {
        for (const std::vector<float>& shard : process) {
          EXPECT_EQ(shard, expected[0]);
        }
      }
      ASSERT_EQ(got[1].size(), size - 2);
    }
  }
}

}  // namespace
}  // namespace yoke::test
