// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/runtime_arguments_test.cpp: functions of the runtime's public headers with null, empty and
// moved-from arguments. argument_kinds.py checks that no kind is missing.
#include <yoke/runtime/closest.h>
#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/dlpack.h>
#include <yoke/runtime/feed.h>
#include <yoke/runtime/parallel.h>
#include <yoke/runtime/passes.h>

#include <utility>

#include "training.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;

const TensorSpec kSpec{YOKE_TYPE_F32, {4}};

RuntimeOptions with(const std::function<void(RuntimeOptions&)>& change) {
  RuntimeOptions options = Rig::with_defaults({});
  change(options);
  return options;
}

TEST(RuntimeArguments, OptionsOfTheRuntime) {
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.wait_timeout = {}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.free_host_memory = [](void*) {}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_options[""] = {"a=1"}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_options["cc"] = {""}; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.layers.names = "nothing"; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.allow_list = "/none"; })));
  EXPECT_ERROR(kInvalid, Runtime(with([](auto& options) { options.plugin_dirs = {""}; })));
}

TEST(RuntimeArguments, FunctionsOfTheRuntime) {
  Runtime runtime(with([](auto&) {}));
  EXPECT_ERROR(ErrorCode::kNotFound, runtime.backend(""));
  EXPECT_ERROR(ErrorCode::kNotFound, runtime.backend({}));
  EXPECT_ERROR(kInvalid, runtime.register_backend("", entry_of(0)));
  EXPECT_ERROR(kInvalid, runtime.register_backend("test0", nullptr));
  runtime.log(LogLevel::kError, {});
  EXPECT_ERROR(kEmpty, (void)open_plugin_file({}));
}

TEST(RuntimeArguments, AMovedFromRuntimeIsAnError) {
  Runtime runtime(with([](auto&) {}));
  const Runtime taken(std::move(runtime));
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, (void)runtime.options());
  EXPECT_ERROR(kEmpty, (void)runtime.list_backends());
  EXPECT_ERROR(kEmpty, (void)runtime.backend("cc"));
  EXPECT_ERROR(kEmpty, runtime.register_backend("test0", entry_of(0)));
  EXPECT_ERROR(kEmpty, (void)runtime.fallbacks());
  EXPECT_ERROR(kEmpty, (void)runtime.validation());
  EXPECT_ERROR(kEmpty, runtime.log(LogLevel::kError, "x"));
  EXPECT_ERROR(kEmpty, (void)runtime.logs(LogLevel::kError));
  EXPECT_ERROR(kEmpty, (void)compile_count(runtime));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(taken.fallbacks().empty());
}

// A misspelled name is found by the first program, even if the program needs no fallback.
TEST(RuntimeArguments, AnUnknownFallbackBackendIsAnError) {
  for (const char* name : {"nope", "no such name"}) {
    Rig rig(Streams::kWorker, with([&](auto& options) { options.fallback_backend = name; }));
    EXPECT_THAT(error_of([&] { compile(rig.device, kDouble); }),
                is_error(ErrorCode::kNotFound, "RuntimeOptions::fallback_backend: no backend '", name));
  }
  Rig none(Streams::kWorker, with([](auto& options) { options.fallback_backend = ""; }));
  EXPECT_NE(compile(none.device, kDouble), nullptr);
}

TEST(RuntimeArguments, BackendsAndDevices) {
  Rig rig;
  EXPECT_ERROR(kInvalid, (void)rig.backend->extension<yoke_peer_api>(nullptr));
  EXPECT_EQ(rig.backend->extension<yoke_peer_api>(""), nullptr);
  const std::vector<std::string> empty_text = {""};
  EXPECT_ERROR(kInvalid, (void)rig.backend->parse_options(empty_text));
  EXPECT_TRUE(rig.backend->parse_options({}).empty());
  const std::vector<Option> nameless = {{"", std::int64_t{1}}};
  EXPECT_ERROR(kInvalid, (void)rig.backend->open_device(0, nameless));
  EXPECT_NE(rig.backend->open_device(0, {}), nullptr);
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)rig.backend->open_device(99));
  EXPECT_ERROR(ErrorCode::kOutOfRange, (void)rig.backend->device_info(99));
  const auto second = rig.backend->open_device(1);
  EXPECT_FALSE(second->is_same(*rig.device));
  EXPECT_TRUE(second->can_access(*rig.device));
}

TEST(RuntimeArguments, Buffers) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Buffer(nullptr, 4));
  EXPECT_ERROR(kInvalid, Buffer::import(nullptr, {}));
  EXPECT_ERROR(ErrorCode::kUnimplemented, Buffer::import(rig.device, {}));
  const auto empty = std::make_shared<Buffer>(rig.device, 0);
  rig.stream()->copy({empty, 0, 0}, {rig.buffer(4).buffer, 4, 0});

  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  Rig importing(control);
  EXPECT_ERROR(kInvalid, Buffer::import(importing.device, {.byte_count = 4}));
}

TEST(RuntimeArguments, Programs) {
  Rig rig;
  EXPECT_ERROR(kInvalid, compile(nullptr, kDouble));
  EXPECT_ERROR(kInvalid, compile(rig.device, ""));
  EXPECT_ERROR(kInvalid, compile(rig.device, {}));
  const auto code = compile(rig.device, kDouble);
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry(""));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)code->entry_number({}));
  EXPECT_ERROR(kInvalid, Routine::link(nullptr, 0, {}));
  EXPECT_ERROR(kInvalid, Routine::link(code, 0, {}));
  EXPECT_ERROR(kInvalid, Routine::link(code, 0, {BufferView(), BufferView()}));
  EXPECT_ERROR(ErrorCode::kOutOfRange, Routine::link(code, 1, {}));

  EXPECT_TRUE(passes::optimize({}).program.statements.empty());
  EXPECT_TRUE(passes::run(passes::Pass::kFuse, {}).statements.empty());
}

TEST(RuntimeArguments, Streams) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Stream::create(nullptr));
  const auto stream = rig.stream();
  const BufferView view = rig.buffer(16);
  EXPECT_ERROR(kInvalid, stream->from_host({}, nullptr));
  EXPECT_ERROR(kInvalid, stream->from_host(view, nullptr));
  EXPECT_ERROR(kInvalid, stream->to_host(nullptr, {}));
  EXPECT_ERROR(kInvalid, stream->to_host(nullptr, view));
  EXPECT_ERROR(kInvalid, stream->copy({}, {}));
  EXPECT_ERROR(kInvalid, stream->copy(view, {}));
  EXPECT_ERROR(kInvalid, stream->fill({}, nullptr, 0));
  EXPECT_ERROR(kInvalid, stream->fill(view, nullptr, 4));
  const std::uint32_t zero = 0;
  EXPECT_ERROR(kInvalid, stream->fill(view, &zero, 0));
  const auto twice = compile(rig.device, kDouble);
  EXPECT_ERROR(kInvalid, Routine::link(twice, 0, {view, rig.buffer(16)}, view.buffer));
  const auto routine = Routine::link(twice, 0, {view, rig.buffer(16)}, rig.buffer(16).buffer);
  const std::vector<std::int64_t> surplus = {1};
  EXPECT_ERROR(kInvalid, stream->launch(*routine, surplus));
  EXPECT_ERROR(kInvalid, stream->join({}));
  EXPECT_ERROR(kInvalid, stream->host_callback({}));
  stream->begin_step(-1);
  stream->wait_for(Event());
  EXPECT_TRUE(Event().is_done());
  Event().wait();
  stream->wait(std::chrono::nanoseconds(-1));
  EXPECT_TRUE(stream->is_idle());
  sync_device(*rig.device);
  EXPECT_EQ(debug_info(*stream).stream, stream->name());
  EXPECT_EQ(debug_info(*stream).stream_id, stream->id());
  EXPECT_EQ(debug_info(Runtime()).size(), 0U);
  EXPECT_FALSE(debug_table({}).empty());
  EXPECT_EQ(debug_json({}), "[]");
}

TEST(RuntimeArguments, Contexts) {
  Rig rig;
  EXPECT_ERROR(kInvalid, Context(nullptr));
  Context context(rig.stream());
  EXPECT_ERROR(kInvalid, context.allocate("", kSpec));
  EXPECT_ERROR(kInvalid, context.init_zeros("", kSpec));
  EXPECT_ERROR(kInvalid, context.allocate("x", {YOKE_TYPE_F32, {0}}));
  EXPECT_ERROR(kInvalid, context.allocate("x", {0, {4}}));
  EXPECT_ERROR(kInvalid, context.adopt("x", kSpec, {}));
  EXPECT_ERROR(ErrorCode::kNotFound, (void)context.tensor(""));
  EXPECT_ERROR(ErrorCode::kNotFound, context.from_host("", {}));
  EXPECT_ERROR(ErrorCode::kNotFound, context.to_host("", {}));
  EXPECT_ERROR(kInvalid, context.init_from_host("x", kSpec, {}));
  EXPECT_ERROR(kInvalid, context.init_from_host("", kSpec, std::vector<std::byte>(16)));
  EXPECT_ERROR(kInvalid, context.adopt("", kSpec, rig.buffer(16)));
  EXPECT_ERROR(ErrorCode::kNotFound, context.set_constant(""));
  EXPECT_FALSE(context.has(""));
  EXPECT_FALSE(context.has("x"));
  context.allocate("x", kSpec);
  EXPECT_ERROR(kInvalid, context.from_host("x", {}));
  EXPECT_ERROR(kInvalid, context.to_host("x", {}));
  EXPECT_ERROR(ErrorCode::kNotFound, context.init_from_device("", context));
  EXPECT_ERROR(kInvalid, (void)context.child(nullptr, ChildAccess::kReadWrite));
  EXPECT_ERROR(kInvalid, context.link(nullptr, "twice"));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link(compile(rig.device, kDouble), ""));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link(compile(rig.device, kDouble), "twice"));
  const auto code = compile(rig.device, kDouble);
  const Transfer transfer = device_to_device("x", MergeUse::kCopy, context, context);
  EXPECT_ERROR(kInvalid, context.link_merge(nullptr, "twice", "x", transfer));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link_merge(code, "", "x", transfer));
  EXPECT_ERROR(ErrorCode::kNotFound, context.link_merge(code, "twice", "", transfer));
  EXPECT_ERROR(kInvalid, context.link_merge(code, "twice", "x", Transfer()));
  EXPECT_FALSE(device_to_device("", MergeUse::kNone, context, context));
  EXPECT_ERROR(ErrorCode::kNotFound, device_to_device("", MergeUse::kCopy, context, context));
}

TEST(RuntimeArguments, TensorsOfDlpack) {
  auto control = std::make_shared<Control>();
  control->provides.memory = true;
  Rig rig(control);
  Context context(rig.stream());
  EXPECT_ERROR(kInvalid, (void)to_dlpack({}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack_unversioned({}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({{99, {4}}, rig.buffer(16)}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({kSpec, rig.buffer(15)}));
  EXPECT_ERROR(kInvalid, (void)to_dlpack({kSpec, {rig.buffer(16).buffer, 4, 16}}));
  EXPECT_ERROR(kInvalid, from_dlpack(context, "x", static_cast<dlpack::DLManagedTensor*>(nullptr)));
  EXPECT_ERROR(kInvalid, from_dlpack(context, "x", static_cast<dlpack::DLManagedTensorVersioned*>(nullptr)));
  dlpack::DLManagedTensor empty = {};
  EXPECT_ERROR(ErrorCode::kUnimplemented, from_dlpack(context, "x", &empty));
  dlpack::DLManagedTensorVersioned versioned = {};
  EXPECT_ERROR(ErrorCode::kUnimplemented, from_dlpack(context, "x", &versioned));
  alignas(YOKE_BUFFER_ALIGNMENT) float value = 0;
  empty.dl_tensor.data = &value;
  empty.dl_tensor.device.device_type = dlpack::kDLCPU;
  empty.dl_tensor.dtype = {dlpack::kDLFloat, 32, 1};
  EXPECT_ERROR(kInvalid, from_dlpack(context, "", &empty));
  versioned.version.major = 1;
  versioned.dl_tensor = empty.dl_tensor;
  EXPECT_ERROR(kInvalid, from_dlpack(context, "", &versioned));
}

TEST(RuntimeArguments, AMovedFromContextIsAnError) {
  Rig rig;
  Context context(rig.stream());
  context.allocate("x", kSpec);
  const auto code = compile(rig.device, kDouble);
  Context taken(std::move(context));
  // NOLINTBEGIN(bugprone-use-after-move): that is the test
  EXPECT_ERROR(kEmpty, (void)context.child());
  EXPECT_ERROR(kEmpty, (void)context.child(rig.stream(), ChildAccess::kRead));
  EXPECT_ERROR(kEmpty, (void)context.stream());
  EXPECT_ERROR(kEmpty, (void)context.has("x"));
  EXPECT_ERROR(kEmpty, (void)context.tensor("x"));
  EXPECT_ERROR(kEmpty, (void)context.names());
  EXPECT_ERROR(kEmpty, context.allocate("y", kSpec));
  EXPECT_ERROR(kEmpty, context.set_constant("x"));
  EXPECT_ERROR(kEmpty, context.adopt("y", kSpec, taken.tensor("x").view));
  EXPECT_ERROR(kEmpty, context.from_host("x", {}));
  EXPECT_ERROR(kEmpty, context.to_host("x", {}));
  EXPECT_ERROR(kEmpty, context.init_from_host("y", kSpec, {}));
  EXPECT_ERROR(kEmpty, context.init_zeros("y", kSpec));
  EXPECT_ERROR(kEmpty, context.init_from_device("x", taken));
  EXPECT_ERROR(kEmpty, taken.init_from_device("x", context));
  dlpack::DLManagedTensor foreign = {};
  foreign.dl_tensor.dtype = {dlpack::kDLFloat, 32, 1};
  foreign.dl_tensor.data = &foreign;
  EXPECT_ERROR(kEmpty, from_dlpack(context, "y", &foreign));
  EXPECT_ERROR(kEmpty, context.link(code, "twice"));
  EXPECT_ERROR(kEmpty, context.link_merge(code, "twice", "x", Transfer()));
  EXPECT_ERROR(kEmpty, device_to_device("x", MergeUse::kNone, context, taken));
  EXPECT_ERROR(kEmpty, device_to_device("x", MergeUse::kNone, taken, context));
  std::vector<Context> both = {taken, context};
  EXPECT_ERROR(kEmpty, (void)memory_is_shared(both));
  EXPECT_ERROR(kEmpty, (void)resolve_strategy(MergeStrategy::kAuto, both));
  EXPECT_ERROR(kEmpty, (void)Collectives::create(MergeStrategy::kOwner, both)->reduce("x"));
  EXPECT_ERROR(kEmpty, (void)Collectives::create(MergeStrategy::kOwner, both)->broadcast("x"));
  EXPECT_ERROR(kEmpty, StepPlan(both, 2, {{"x", kSpec}}, {}, {}, nullptr).allocate());
  EXPECT_ERROR(kEmpty, AllReduce(both, "x", "y", Reduction::kSum));
  EXPECT_ERROR(kEmpty, (void)costs_of(both));
  EXPECT_ERROR(kEmpty, (void)CollectiveTensor(context, "x"));
  EXPECT_ERROR(kEmpty, FeedStream(context, 1, 16));
  // NOLINTEND(bugprone-use-after-move)
}

TEST(RuntimeArguments, EmptyRoutinesAndTransfers) {
  const LinkedRoutine routine;
  EXPECT_ERROR(kEmpty, routine.run());
  EXPECT_ERROR(kEmpty, (void)routine.symbols());
  EXPECT_ERROR(kEmpty, (void)routine.name());
  EXPECT_ERROR(kEmpty, (void)routine.inputs());
  EXPECT_ERROR(kEmpty, (void)routine.constants());
  EXPECT_ERROR(kEmpty, (void)routine.outputs());
  EXPECT_ERROR(kEmpty, (void)routine.context());
  EXPECT_ERROR(kEmpty, (void)routine.merge_node());
  EXPECT_ERROR(kEmpty, (void)routine.stream());
  EXPECT_ERROR(kEmpty, (void)routine.routine());
  EXPECT_ERROR(kEmpty, Transfer().run());
  EXPECT_EQ(Transfer().use(), MergeUse::kNone);
}

TEST(RuntimeArguments, Layers) {
  LayerOptions options{.use_environment = false};
  EXPECT_EQ(layers::open_session(options, {}), nullptr);
  options.names = "nothing";
  EXPECT_ERROR(kInvalid, layers::open_session(options, {}));
  options.names = "validate";
  const auto session = layers::open_session(options, {});
  ASSERT_NE(session, nullptr);
  const yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  yoke_plugin* plugin = nullptr;
  EXPECT_EQ(layers::enter(session, nullptr, &args, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(nullptr, nullptr, &args, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(session, entry_of(0), nullptr, &plugin, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::enter(session, entry_of(0), &args, nullptr, nullptr), YOKE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(layers::validation(*session).violations, 0U);
  EXPECT_FALSE(layers::summary(*session).empty());
}

TEST(RuntimeArguments, NamesThatAreClose) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(closest("", {}), "");
  EXPECT_EQ(closest("x", {}), "");
  const std::vector<std::string> nameless(1);
  EXPECT_EQ(closest("x", nameless), "");
  EXPECT_EQ(did_you_mean("x", nameless), "");
  EXPECT_EQ(did_you_mean("x", {""}), "");
  EXPECT_EQ(did_you_mean("", {}), "");
  EXPECT_EQ(did_you_mean("tarin", {"train"}), "; did you mean 'train'?");
  EXPECT_EQ(did_you_mean("train", {"train"}), "");
}

TEST(RuntimeArguments, UnknownCodesHaveAName) {
  EXPECT_STREQ(code_name(static_cast<ErrorCode>(-1)), "UNKNOWN");
  EXPECT_STREQ(code_name(static_cast<ErrorCode>(99)), "UNKNOWN");
  EXPECT_EQ(Error(kInvalid, "").code(), kInvalid);
  EXPECT_EQ(TensorSpec{}.byte_count(), 4U);
  EXPECT_EQ((TensorSpec{99, {4}}).byte_count(), 0U);
}

}  // namespace
}  // namespace yoke::test
