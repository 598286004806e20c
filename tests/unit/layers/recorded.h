// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/recorded.h: records a run of the fake backend, and replays it.
#pragma once

#include "replay/replay.h"
#include "rig.h"
#include "test_files.h"
#include "trace_bytes.h"

namespace yoke::test {

inline constexpr const char* kScale = R"(yoke.program 1
program scale(symbol row in 0..8 step 4) {
  arg x : f32[8, 4] in
  arg y : f32[4, 4] out
  y[n, o] = x[row + n, o] * 2.0
}
)";

class Recorded : public ::testing::TestWithParam<Streams> {
 protected:
  RuntimeOptions options(const std::string& names, bool with_data) const {
    RuntimeOptions all;
    all.layers = {.names = names,
                  .use_environment = false,
                  .fail_calls = false,
                  .trace_file = folder_ / "run.yoketrace",
                  .trace_data = with_data};
    return all;
  }
  std::vector<std::byte> file() const { return read_bytes(folder_ / "run.yoketrace"); }

  // Copies, a launch with a symbol, a wait between streams, a fill. Returns the output.
  static std::vector<float> work(const Rig& rig) {
    std::vector<float> input(32);
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>(i) * 0.25F;
    }
    const auto x = buffer_of<float>(rig.device, 32);
    const auto y = buffer_of<float>(rig.device, 16);
    const auto first = rig.stream();
    const auto second = rig.stream();
    const auto routine = link(rig.device, kScale, {x, y});
    const float zero = 0;
    first->fill(y, &zero, sizeof(zero));
    first->from_host(x, input.data());
    const std::int64_t row[] = {4};
    first->launch(*routine, row);
    second->wait_for(first->record());
    return read<float>(*second, y);
  }
  // Returns the trace of work().
  std::vector<std::byte> record(bool with_data, const std::string& names = "trace") {
    {
      const Rig rig(GetParam(), options(names, with_data));
      EXPECT_EQ(work(rig)[0], 8.0F);
      for (const Violation& one : rig.runtime.validation().first) {
        ADD_FAILURE() << one.rule << " " << one.call << ": " << one.text;
      }
    }
    return file();  // closed with the last object of the runtime
  }
  static replay::Report run(const std::vector<std::byte>& bytes, Streams on) {
    return run(bytes, Rig::make_control(on));
  }
  static replay::Report run(const std::vector<std::byte>& bytes, std::shared_ptr<Control> on) {
    RuntimeOptions plain;
    plain.layers.use_environment = false;
    Runtime runtime(Rig::with_defaults(plain));
    register_backend(runtime, 1, std::move(on));
    replay::Options replay_options;
    replay_options.backend = "test1";
    return replay::run(runtime, bytes, replay_options);
  }

  TemporaryFolder folder_;
};

}  // namespace yoke::test
