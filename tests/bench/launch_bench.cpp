// SPDX-License-Identifier: Apache-2.0
// tests/bench/launch_bench.cpp: the host's cost of one launch through
// the SDK, compared with a bare function call.
//
// The plugin is `null`, whose launches do nothing, so that only the checks of the SDK and the calls remain.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <yoke/backend.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace {

constexpr char kProgram[] =
    "yoke.program 1\n"
    "program step(symbol row in 0..6000 step 100) {\n"
    "  arg x : f32[6000] in\n"
    "  arg y : f32[100] out\n"
    "  y[i] = x[row + i]\n"
    "}\n";

void require(std::int32_t status, const char* call) {
  if (status != YOKE_STATUS_OK) {
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(status));
  }
}

template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

// The null plugin with a device, a stream and a linked routine.
class NullLaunch {
 public:
  NullLaunch() {
    void* const file = ::dlopen(YOKE_BENCH_NULL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) {
      throw std::runtime_error(::dlerror());
    }
    const auto entry = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL));
    yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
    args.host = &host_;
    require(entry(&args, &plugin_, nullptr), "the entry function");
    backend_ = static_cast<const yoke_backend_api*>(plugin_->get_table(plugin_, YOKE_BACKEND_TABLE));
    streams_ = static_cast<const yoke_stream_api*>(plugin_->get_table(plugin_, YOKE_STREAM_TABLE));
    programs_ = static_cast<const yoke_program_api*>(plugin_->get_table(plugin_, YOKE_PROGRAM_TABLE));

    const auto device_args = sized<yoke_device_args>();
    require(backend_->device_open(plugin_, &device_args, &device_, nullptr), "device_open");
    const auto stream_args = sized<yoke_stream_args>();
    require(streams_->stream_create(device_, &stream_args, &stream, nullptr), "stream_create");
    link();
  }
  ~NullLaunch() {
    programs_->routine_destroy(routine_);
    programs_->code_destroy(code_);
    backend_->buffer_destroy(x_.buffer);
    backend_->buffer_destroy(y_.buffer);
    streams_->stream_destroy(stream);
    backend_->device_close(device_, nullptr);
    plugin_->destroy(plugin_);
  }
  NullLaunch(const NullLaunch&) = delete;
  NullLaunch& operator=(const NullLaunch&) = delete;

  std::int32_t launch(yoke_stream* on, std::int64_t row) const {
    return programs_->routine_launch(on, routine_, &row, 1, nullptr);
  }

  yoke_stream* stream = nullptr;

 private:
  void link() {
    auto text = sized<yoke_compile_args>();
    text.format = YOKE_PROGRAM_FORMAT;
    text.version = YOKE_PROGRAM_VERSION;
    text.text = kProgram;
    text.byte_count = sizeof kProgram - 1;
    require(programs_->code_compile(device_, &text, &code_, nullptr), "code_compile");
    for (yoke_binding* binding : {&x_, &y_}) {
      auto args = sized<yoke_buffer_args>();
      args.byte_count = binding->byte_count;
      args.kind = YOKE_MEMORY_DEVICE;
      require(backend_->buffer_create(device_, &args, &binding->buffer, nullptr), "buffer_create");
    }
    const yoke_binding bindings[] = {x_, y_};
    auto args = sized<yoke_link_args>();
    args.bindings = bindings;
    args.binding_count = 2;
    args.binding_stride = sizeof(yoke_binding);
    require(programs_->routine_link(code_, &args, &routine_, nullptr), "routine_link");
  }

  yoke_host_api host_ = YOKE_HOST_API_INIT;
  yoke_plugin* plugin_ = nullptr;
  const yoke_backend_api* backend_ = nullptr;
  const yoke_stream_api* streams_ = nullptr;
  const yoke_program_api* programs_ = nullptr;
  yoke_device* device_ = nullptr;
  yoke_code* code_ = nullptr;
  yoke_binding x_ = {nullptr, 0, 6000 * sizeof(float), 0};
  yoke_binding y_ = {nullptr, 0, 100 * sizeof(float), 0};
  yoke_routine* routine_ = nullptr;
};

// A function with the arguments of routine_launch that does nothing.
std::int32_t do_nothing(yoke_stream*, yoke_routine*, const std::int64_t*, std::uint32_t, yoke_error*) {
  return YOKE_STATUS_OK;
}

void bare_call(benchmark::State& state) {
  auto* volatile function = &do_nothing;  // the compiler must not inline it
  std::int64_t row = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(function(nullptr, nullptr, &row, 1, nullptr));
    row = (row + 100) % 6000;
  }
}
BENCHMARK(bare_call);

void sdk_launch(benchmark::State& state) {
  const NullLaunch null;
  yoke_stream* const stream = state.range(0) != 0 ? null.stream : nullptr;
  if (null.launch(stream, 100) != YOKE_STATUS_OK || null.launch(stream, 50) != YOKE_STATUS_OUT_OF_RANGE) {
    state.SkipWithError("the launch is not checked");
    return;
  }
  std::int64_t row = 0;
  std::int32_t failures = 0;
  for (auto _ : state) {
    failures |= null.launch(stream, row);
    row = (row + 100) % 6000;
  }
  if (failures != YOKE_STATUS_OK) {
    state.SkipWithError("a launch failed");
  }
}
BENCHMARK(sdk_launch)->ArgName("stream")->Arg(0)->Arg(1);

}  // namespace
