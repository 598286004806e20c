// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine_refusals.cpp: bindings,
// workspaces and symbol values that must be rejected.
#include "groups.h"
#include "modelled.h"
#include "program/run/batch.h"
#include "program/run/counter.h"
#include "program/run/random_programs.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

using Bindings = std::vector<yoke_binding>;

Answer try_link(const Plugin& plugin, const Code& code, const Bindings& bindings,
                const yoke_binding& workspace, std::uint32_t entry = 0) {
  yoke_routine* raw = nullptr;
  Answer answer = plugin.routine_link(code.get(), entry, bindings, workspace, &raw);
  const Routine owner(plugin, answer.ok() ? raw : nullptr);
  check(answer.ok() || raw == nullptr, "routine_link failed but wrote its out-parameter");
  return answer;
}

// Valid bindings of the counter program. The tests change one thing at a time.
struct ValidBindings {
  explicit ValidBindings(const Counter& of)
      : counter(of),
        x(of.device(), of.reach() * of.element_byte_count()),
        state(of.device(), Counter::kCount * of.element_byte_count()),
        y(of.device(), Counter::kCount * of.element_byte_count()),
        workspace(workspace_for(of.device(), of.code())),
        bindings{binding(x), binding(state), binding(y)} {}
  Answer link(const Bindings& changed, std::uint32_t entry = 0) const {
    return try_link(counter.device().plugin(), counter.code(), changed, binding(workspace), entry);
  }

  const Counter& counter;
  Buffer x, state, y, workspace;
  Bindings bindings;
};

void invalid_bindings(Kit& kit) {
  const Counter counter(kit.device());
  const ValidBindings valid(counter);
  const std::uint64_t element = counter.element_byte_count();
  const Buffer small(kit.device(), (counter.reach() - 1) * element);
  constexpr std::int32_t kAnyError = YOKE_STATUS_UNKNOWN;
  const auto expect = [&](std::int32_t code, const std::string& what, auto&& change) {
    Bindings bindings = valid.bindings;
    change(bindings);
    const Answer answer = valid.link(bindings);
    code == kAnyError ? expect_refused(answer, what) : expect_code(answer, code, what);
  };
  expect_ok(valid.link(valid.bindings), "linking valid bindings");
  expect(YOKE_STATUS_INVALID_ARGUMENT, "linking with one binding too few",
         [](auto& bindings) { bindings.pop_back(); });
  expect(YOKE_STATUS_INVALID_ARGUMENT, "linking with one binding too many",
         [](auto& bindings) { bindings.push_back(bindings[0]); });
  expect(YOKE_STATUS_INVALID_ARGUMENT, "linking without bindings", [](auto& bindings) { bindings.clear(); });
  expect(YOKE_STATUS_OUT_OF_RANGE, "linking a buffer that is too small",
         [&](auto& bindings) { bindings[0].buffer = small.get(); });
  expect(YOKE_STATUS_OUT_OF_RANGE, "linking a range that exceeds its buffer by one element",
         [&](auto& bindings) { bindings[2].offset = element; });
  expect(YOKE_STATUS_OUT_OF_RANGE, "linking a range that starts past the end of its buffer",
         [&](auto& bindings) { bindings[2].offset = 1000 * element; });
  expect(YOKE_STATUS_OUT_OF_RANGE, "linking at an offset whose sum with the size overflows",
         [&](auto& bindings) { bindings[2].offset = ~std::uint64_t{0} - 64 * element + 1; });
  expect(kAnyError, "linking a NULL buffer", [](auto& bindings) { bindings[1].buffer = nullptr; });
  expect(kAnyError, "linking two written arguments to the same range",
         [](auto& bindings) { bindings[2] = bindings[1]; });
  expect(kAnyError, "linking a written argument to the range of an `in` argument",
         [](auto& bindings) { bindings[1] = bindings[0]; });
  if (element > 1) {
    const Buffer wide(kit.device(), (counter.reach() + 1) * element);
    expect(YOKE_STATUS_INVALID_ARGUMENT, "linking at an offset that is not a multiple of the element size",
           [&](auto& bindings) { bindings[0] = binding(wide, 1); });
  }
  expect_code(valid.link(valid.bindings, 1), YOKE_STATUS_OUT_OF_RANGE,
              "linking entry 1 of a text with one program");
}

void overlaps(Kit& kit) {
  const Counter counter(kit.device());
  const ValidBindings valid(counter);
  const std::uint64_t element = counter.element_byte_count();
  const Buffer both(kit.device(), 4 * Counter::kCount * element);
  Bindings bindings = valid.bindings;
  bindings[1] = binding(both);
  for (const std::uint64_t shift : {std::uint64_t{1}, Counter::kCount / 2, Counter::kCount - 1}) {
    bindings[2] = binding(both, shift * element);
    expect_refused(valid.link(bindings),
                   text("linking two written arguments to ranges that start ", shift, " elements apart"));
  }
  bindings[2] = binding(both, Counter::kCount * element);
  expect_ok(valid.link(bindings), "linking two arguments to adjacent ranges of one buffer");
}

void shared_inputs(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);  // throws Unsupported if the device cannot run it
  const std::string type(program::type_name(counter.type()));
  const auto form = [&](const char* index) {
    return "yoke.program 1\nprogram both() {\n  arg a : " + type + "[8] in\n  arg b : " + type +
           "[8] in\n  arg y : " + type + "[8] out\n  y[i] = a[i] + b[" + index + "]\n}\n";
  };
  const std::string reversed = form("-i + 7");
  const std::string in_order = form("i");
  const std::string_view forms[] = {reversed, in_order};
  const Code code = compile(device, forms[first_supported(device, forms, 1)]);
  const std::uint64_t unit = describe_argument(device, code, 0, 1).alignment;
  const std::uint64_t byte_count = 8 * counter.element_byte_count();
  const Buffer in(device, byte_count + 2 * unit);
  const Buffer out(device, byte_count);
  const Buffer workspace = workspace_for(device, code);
  for (const std::uint64_t offset : {std::uint64_t{0}, unit, 2 * unit}) {
    const yoke_binding bindings[] = {binding(in), binding(in, offset), binding(out)};
    launch(kit.plugin(), link(kit.plugin(), code, 0, bindings, binding(workspace)));
  }
}

void workspaces(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  Arena::Pool pool;
  std::uint64_t tried = 0;
  for (const Case& one : supported_cases(device, 24)) {
    const Code code = compile(device, text_of({&one, 1}));
    const std::uint64_t byte_count = describe_entry(plugin, code).workspace_byte_count;
    if (byte_count == 0) {
      continue;
    }
    ++tried;
    const Arena arena(device, pool, one, code, 0, 0, 0);
    const auto try_with = [&](const Buffer& workspace, std::uint64_t offset) {
      return try_link(plugin, code, arena.bindings(), {workspace.get(), offset, byte_count, 0});
    };
    expect_code(try_link(plugin, code, arena.bindings(), {}), YOKE_STATUS_INVALID_ARGUMENT,
                text("linking an entry that needs a ", byte_count, "-byte workspace with a NULL workspace"));
    const Buffer small(device, byte_count - 1);
    expect_code(try_with(small, 0), YOKE_STATUS_OUT_OF_RANGE,
                "linking a workspace that is one byte too small");
    const Buffer exact(device, byte_count);
    expect_ok(try_with(exact, 0), "linking a workspace of the required size");
    expect_code(try_with(exact, YOKE_BUFFER_ALIGNMENT), YOKE_STATUS_OUT_OF_RANGE,
                "linking a workspace of the required size at offset 256");
    const Buffer large(device, byte_count + YOKE_BUFFER_ALIGNMENT);
    expect_ok(try_with(large, YOKE_BUFFER_ALIGNMENT), "linking a workspace at offset 256");
    expect_code(try_with(large, YOKE_BUFFER_ALIGNMENT / 2), YOKE_STATUS_INVALID_ARGUMENT,
                "linking a workspace at offset 128");
  }
  kit.note(text(tried, " of 24 programs need a workspace"));
}

// Binds one argument at a time to the alignment that the plugin states, and to half of it.
void alignments(Kit& kit) {
  Device& device = kit.device();
  const Counter counter(device);
  const ValidBindings valid(counter);
  const std::uint64_t element = counter.element_byte_count();
  const Buffer room(device, (counter.reach() + 1) * element + std::uint64_t{2} * YOKE_BUFFER_ALIGNMENT);
  for (std::uint32_t i = 0; i < valid.bindings.size(); ++i) {
    const std::uint32_t alignment = describe_argument(device, counter.code(), 0, i).alignment;
    check(alignment >= element && alignment <= YOKE_BUFFER_ALIGNMENT && (alignment & (alignment - 1)) == 0,
          "the alignment of argument ", i, " is ", alignment, "; expected a power of two from ", element,
          " to ", YOKE_BUFFER_ALIGNMENT);
    Bindings bindings = valid.bindings;
    bindings[i] = binding(room, alignment);
    expect_ok(valid.link(bindings), text("linking argument ", i, " at its alignment of ", alignment));
    if (alignment > 1) {
      bindings[i] = binding(room, alignment + alignment / 2);
      expect_code(valid.link(bindings), YOKE_STATUS_INVALID_ARGUMENT,
                  text("linking argument ", i, ", whose alignment is ", alignment, ", at offset ",
                       alignment + alignment / 2));
    }
  }
}

void symbol_values(Kit& kit) {
  const Counter counter(kit.device());
  CounterRun run(counter, 5);
  run.launch(4);
  std::optional<Stream> stream = stream_if_any(kit.device());
  const auto rejected = [&](const std::vector<std::int64_t>& values, std::int32_t code,
                            const std::string& what) {
    expect_code(kit.plugin().routine_launch(nullptr, run.routine(), values), code, what);
    if (stream) {
      run.launch(1, &*stream);
      expect_code(kit.plugin().routine_launch(stream->get(), run.routine(), values), code, what);
      run.launch(1, &*stream);
      stream->synchronize();
    }
  };
  rejected({0}, YOKE_STATUS_OUT_OF_RANGE, "launching with a symbol value below its range");
  rejected({-1}, YOKE_STATUS_OUT_OF_RANGE, "launching with a negative symbol value");
  rejected({10}, YOKE_STATUS_OUT_OF_RANGE, "launching with a symbol value at the excluded end of its range");
  rejected({13}, YOKE_STATUS_OUT_OF_RANGE, "launching with a symbol value above its range");
  rejected({INT64_MAX}, YOKE_STATUS_OUT_OF_RANGE, "launching with the largest symbol value");
  rejected({INT64_MIN}, YOKE_STATUS_OUT_OF_RANGE, "launching with the smallest symbol value");
  rejected({2}, YOKE_STATUS_OUT_OF_RANGE, "launching with a symbol value that is not a multiple of the step");
  rejected({}, YOKE_STATUS_INVALID_ARGUMENT, "launching with one symbol value too few");
  rejected({4, 4}, YOKE_STATUS_INVALID_ARGUMENT, "launching with one symbol value too many");
  run.check_values();  // no rejected launch has run
  run.launch(7);
  run.check_values();
}

// x, and y between guards, in one buffer each; `other` is not bound.
void failed_launch(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  const SmallProgram program(device);
  constexpr std::uint64_t kSize = kSmallCount * sizeof(float);
  Random random = kit.random();
  Modelled x(device, random, 3 * kSize);
  Modelled y(device, random, 3 * kSize);
  Modelled other(device, random, kSize);
  const Code code = compile(device, program.text());
  const Buffer workspace = workspace_for(device, code);
  const yoke_binding bindings[] = {{x.buffer.get(), kSize, kSize, 0}, {y.buffer.get(), kSize, kSize, 0}};
  const Routine routine = link(plugin, code, 0, bindings, binding(workspace));
  const auto check_memory = [&](const std::string& after) {
    x.check_same(after);
    other.check_same(after);
    const Bytes now = y.buffer.contents();  // the output itself is undefined
    std::copy_n(now.begin() + kSize, kSize, y.bytes.begin() + kSize);
    y.check_same(after);
  };
  arm_fault(plugin, device.get(), YOKE_FAULT_LAUNCH, 2);
  launch(plugin, routine);
  expect_code(plugin.routine_launch(nullptr, routine.get(), {}), YOKE_STATUS_UNAVAILABLE,
              "the launch for which a fault was armed");
  check_memory("after a failed launch with a NULL stream");
  launch(plugin, routine);
  if (!plugin.has_table<yoke_stream_api>()) {
    return;
  }
  Bytes unread(kSize);
  Stream stream(device);
  arm_fault(plugin, device.get(), YOKE_FAULT_LAUNCH, 2);
  for (int i = 0; i < 3; ++i) {
    expect_ok(plugin.routine_launch(stream.get(), routine.get(), {}), "queueing a launch");
  }
  stream.write(other.buffer, 0, Bytes(kSize, std::byte{1}));
  stream.read(x.buffer, 0, unread);
  expect_code(stream.wait(), YOKE_STATUS_UNAVAILABLE, "waiting for a stream with a failed launch");
  check_equal(stream.state(), YOKE_STATE_FAILED, "the state of a stream with a failed launch");
  check_memory("after a failed launch on a stream and copies that were queued after it");
  check(unread == Bytes(kSize), "a to_host that was queued after a failed launch was not skipped");
  Stream fresh(device);
  expect_ok(plugin.routine_launch(fresh.get(), routine.get(), {}), "queueing a launch on another stream");
  fresh.synchronize();
}

}  // namespace

std::vector<Test> routine_refusal_tests() {
  return {
      {"invalid-bindings",
       "routine_link rejects a wrong number of bindings, ranges out of bounds, misaligned offsets and "
       "overlaps",
       {10, 26},
       invalid_bindings},
      {"overlaps",
       "routine_link rejects a written range that overlaps another range, and accepts adjacent ranges",
       {26},
       overlaps},
      {"shared-inputs", "`in` arguments may overlap each other", {26}, shared_inputs},
      {"alignments", "routine_link checks the alignment that code_argument states", {42}, alignments},
      {"workspaces",
       "routine_link rejects a workspace that is too small or misaligned, and accepts the required size",
       {26, 42},
       workspaces,
       2},
      {"symbol-values",
       "routine_launch rejects invalid symbol values and queues nothing; the stream stays usable",
       {10, 19, 26},
       symbol_values},
      {"failed-launch",
       "a failed launch changes no memory but its outputs, and work queued after it is skipped",
       {19, 56},
       failed_launch},
  };
}

}  // namespace yoke::conformance
