// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/routine_refusals.cpp: the group 'routine': bindings, workspaces and symbol values
// that must be refused, with nothing linked, queued or written.
#include <algorithm>

#include "groups.h"
#include "program/run/batch.h"
#include "program/run/counter.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

// Bindings of the counter's program that are right, to be spoiled one at a time.
struct Bound3 {
  explicit Bound3(const Counter& counter)
      : x(counter.device(), Counter::kReach * counter.element_byte_count()),
        state(counter.device(), Counter::kCount * counter.element_byte_count()),
        y(counter.device(), Counter::kCount * counter.element_byte_count()),
        bindings{{x.get(), 0}, {state.get(), 0}, {y.get(), 0}} {
    if (counter.info().workspace_byte_count != 0) {
      workspace = Buffer(counter.device(), counter.info().workspace_byte_count);
    }
  }
  Buffer x, state, y, workspace;
  std::vector<yoke_binding> bindings;
};

Answer try_link(const Counter& counter, const std::vector<yoke_binding>& bindings, yoke_buffer* workspace,
                std::uint32_t entry = 0) {
  const Plugin& plugin = counter.device().plugin();
  yoke_routine* raw = nullptr;
  const Answer answer = plugin.call<&yoke_program_api::routine_link>(
      counter.code().get(), entry, bindings.data(), static_cast<std::uint32_t>(bindings.size()), workspace,
      std::uint64_t{0}, &raw);
  const Routine guard(plugin, answer.ok() ? raw : nullptr);
  check(answer.ok() || raw == nullptr, "routine_link refused, but touched out_routine");
  return answer;
}

void wrong_bindings(Kit& kit) {
  const Counter counter(kit.device());
  const Bound3 good(counter);
  const std::uint64_t element = counter.element_byte_count();
  const auto spoiled = [&](std::int32_t code, const std::string& what, auto&& spoil) {
    std::vector<yoke_binding> bindings = good.bindings;
    spoil(bindings);
    const Answer answer = try_link(counter, bindings, good.workspace.get());
    code == YOKE_UNKNOWN ? expect_refused(answer, what) : expect_code(answer, code, what);
  };
  expect_ok(try_link(counter, good.bindings, good.workspace.get()), "linking good bindings");
  spoiled(YOKE_INVALID_ARGUMENT, "linking with a binding too few",
          [](auto& bindings) { bindings.pop_back(); });
  spoiled(YOKE_INVALID_ARGUMENT, "linking with a binding too many",
          [](auto& bindings) { bindings.push_back(bindings[0]); });
  spoiled(YOKE_INVALID_ARGUMENT, "linking with no bindings", [](auto& bindings) { bindings.clear(); });
  spoiled(YOKE_OUT_OF_RANGE, "linking a buffer that is too small",
          [&](auto& bindings) { bindings[0].buffer = good.y.get(); });
  spoiled(YOKE_OUT_OF_RANGE, "linking a range that ends an element behind its buffer",
          [&](auto& bindings) { bindings[2].offset = element; });
  spoiled(YOKE_OUT_OF_RANGE, "linking a range that begins behind its buffer",
          [&](auto& bindings) { bindings[2].offset = 1000 * element; });
  spoiled(YOKE_OUT_OF_RANGE, "linking at an offset that overflows with the size",
          [&](auto& bindings) { bindings[2].offset = ~std::uint64_t{0} - 64 * element + 1; });
  spoiled(YOKE_UNKNOWN, "linking no buffer at all", [](auto& bindings) { bindings[1].buffer = nullptr; });
  spoiled(YOKE_UNKNOWN, "linking two written arguments to the same range",
          [](auto& bindings) { bindings[2] = bindings[1]; });
  spoiled(YOKE_UNKNOWN, "linking a written argument to the range of an in argument",
          [](auto& bindings) { bindings[1] = bindings[0]; });
  if (element > 1) {
    const Buffer wide(kit.device(), (Counter::kReach + 1) * element);
    spoiled(YOKE_INVALID_ARGUMENT, "linking at an offset that is no multiple of the element's size",
            [&](auto& bindings) {
              bindings[0] = {wide.get(), 1};
            });
  }
  expect_code(try_link(counter, good.bindings, good.workspace.get(), 1), YOKE_OUT_OF_RANGE,
              "linking entry 1 of a text of one program");
}

void overlaps_in_part(Kit& kit) {
  const Counter counter(kit.device());
  const Bound3 good(counter);
  const std::uint64_t element = counter.element_byte_count();
  const Buffer both(kit.device(), 4 * Counter::kCount * element);
  for (const std::uint64_t shift : {std::uint64_t{1}, Counter::kCount / 2, Counter::kCount - 1}) {
    std::vector<yoke_binding> bindings = good.bindings;
    bindings[1] = {both.get(), 0};
    bindings[2] = {both.get(), shift * element};
    expect_refused(try_link(counter, bindings, good.workspace.get()),
                   text("linking two written arguments ", shift, " elements apart in one buffer"));
  }
  std::vector<yoke_binding> bindings = good.bindings;
  bindings[1] = {both.get(), 0};
  bindings[2] = {both.get(), Counter::kCount * element};
  expect_ok(try_link(counter, bindings, good.workspace.get()),
            "linking two arguments side by side in one buffer");
}

// Two arguments that are only read may share their bytes.
void shared_inputs(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);  // Unsupported where nothing runs
  const std::string type(program::type_name(counter.type()));
  const Code code =
      compile(device, "yoke.program 1\nprogram both() {\n  arg a : " + type + "[8] in\n  arg b : " + type +
                          "[8] in\n  arg y : " + type + "[8] out\n  y[i] = a[i] + b[-i + 7]\n}\n");
  const std::uint64_t element = counter.element_byte_count();
  const yoke_entry_info info = describe_entry(device, code, 0);
  const Buffer in(device, 10 * element);
  const Buffer out(device, 8 * element);
  Buffer workspace;
  if (info.workspace_byte_count != 0) {
    workspace = Buffer(device, info.workspace_byte_count);
  }
  for (const std::uint64_t shift : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}}) {
    const yoke_binding bindings[] = {{in.get(), 0}, {in.get(), shift * element}, {out.get(), 0}};
    yoke_routine* raw = nullptr;
    expect_ok(device.plugin().call<&yoke_program_api::routine_link>(code.get(), 0U, &bindings[0], 3U,
                                                                    workspace.get(), std::uint64_t{0}, &raw),
              text("linking two in arguments ", shift, " elements apart in one buffer"));
    const Routine routine(device.plugin(), raw);
    launch(device, routine, {}, nullptr);
  }
}

void workspaces(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const GeneratorOptions options = generator_options(device);
  BatchRunner runner(device);
  Tally tally;
  Arena::Pool pool;
  std::uint64_t wanted = 0;
  for (std::uint64_t index = 0; index < 24; ++index) {
    const Case one = generate_case(kit.settings().seed, index, options);
    if (runner.supported({&one, 1}, tally).empty()) {
      continue;
    }
    const Code code = compile(device, text_of({&one, 1}));
    const yoke_entry_info info = describe_entry(device, code, 0);
    if (info.workspace_byte_count == 0) {
      continue;
    }
    ++wanted;
    const Arena arena(device, pool, one, 0, 0);
    const auto try_with = [&](yoke_buffer* workspace, std::uint64_t offset) {
      yoke_routine* raw = nullptr;
      const Answer answer = device.plugin().call<&yoke_program_api::routine_link>(
          code.get(), 0U, arena.bindings().data(), static_cast<std::uint32_t>(arena.bindings().size()),
          workspace, offset, &raw);
      const Routine guard(device.plugin(), answer.ok() ? raw : nullptr);
      return answer;
    };
    expect_code(
        try_with(nullptr, 0), YOKE_INVALID_ARGUMENT,
        text("linking without the workspace of ", info.workspace_byte_count, " bytes that the entry wants"));
    const Buffer small(device, info.workspace_byte_count - 1);
    expect_code(try_with(small.get(), 0), YOKE_OUT_OF_RANGE, "linking a workspace that is a byte too small");
    const Buffer exact(device, info.workspace_byte_count);
    expect_ok(try_with(exact.get(), 0), "linking a workspace of the size that the entry wants");
    expect_code(try_with(exact.get(), 64), YOKE_OUT_OF_RANGE,
                "linking a workspace whose offset leaves too little");
  }
  kit.note(text(wanted, " of 24 programs want a workspace"));
}

void symbol_values(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 5);
  run.launch(4);
  const auto refused = [&](const std::vector<std::int64_t>& values, std::int32_t code,
                           const std::string& what) {
    const Answer answer = counter.device().plugin().call<&yoke_program_api::routine_launch>(
        nullptr, run.routine(), values.data(), static_cast<std::uint32_t>(values.size()));
    expect_code(answer, code, what);
  };
  refused({0}, YOKE_OUT_OF_RANGE, "launching with a symbol below its range");
  refused({-1}, YOKE_OUT_OF_RANGE, "launching with a negative value");
  refused({10}, YOKE_OUT_OF_RANGE, "launching with a symbol at the end of its range, which is excluded");
  refused({13}, YOKE_OUT_OF_RANGE, "launching with a symbol above its range");
  refused({INT64_MAX}, YOKE_OUT_OF_RANGE, "launching with the largest value");
  refused({INT64_MIN}, YOKE_OUT_OF_RANGE, "launching with the smallest value");
  refused({2}, YOKE_OUT_OF_RANGE, "launching with a symbol off its step");
  refused({}, YOKE_INVALID_ARGUMENT, "launching with a symbol too few");
  refused({4, 4}, YOKE_INVALID_ARGUMENT, "launching with a symbol too many");
  run.check_values();  // nothing of that was run
  run.launch(7);
  run.check_values();  // and the routine goes on
}

// A refused launch on a stream queues nothing, and does not poison it.
void symbol_values_on_stream(Kit& kit) {
  Device& device = kit.device();
  Stream stream(device);
  const Counter counter(device);
  CounterRun run(counter, 6);
  run.launch(1, &stream);
  const std::int64_t wrong = 11;
  expect_code(
      device.plugin().call<&yoke_program_api::routine_launch>(stream.get(), run.routine(), &wrong, 1U),
      YOKE_OUT_OF_RANGE, "launching with a symbol outside of its range");
  run.launch(4, &stream);
  stream.synchronize();
  run.check_values();
}

}  // namespace

std::vector<Test> routine_refusal_tests() {
  return {
      {"wrong-bindings",
       "wrong counts, ranges, alignments and overlaps are refused, and nothing is linked",
       {10, 26},
       wrong_bindings},
      {"overlaps",
       "a written range that overlaps another in part is refused; one that touches it is not",
       {26},
       overlaps_in_part},
      {"shared-inputs", "arguments that are only read may share their bytes", {26}, shared_inputs},
      {"workspaces", "the workspace that an entry asks for is checked, and enough", {26}, workspaces, 2},
      {"symbol-values",
       "a symbol's value outside of its range or off its step is refused, with nothing written",
       {10, 26},
       symbol_values},
      {"refused-on-stream",
       "a refused launch queues nothing and leaves its stream as it was",
       {19, 26},
       symbol_values_on_stream},
  };
}

}  // namespace yoke::conformance
