// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/recorded.h: a run whose trace the test gets, and the replay of one.
#pragma once

#include <yoke/runtime/trace.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "rig.h"
#include "test_files.h"

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
  std::vector<std::byte> file() const {
    std::ifstream in(folder_ / "run.yoketrace", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    return {begin, begin + bytes.size()};
  }

  // Copies, launches with a symbol, a wait between streams, a fill; gives back what came out.
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
  // A recorded run, as the bytes of its file.
  std::vector<std::byte> record(bool with_data, const std::string& names = "trace") {
    {
      const Rig rig(GetParam(), options(names, with_data));
      EXPECT_EQ(work(rig)[0], 8.0F);
      violations_ = rig.runtime.validation().violations;
      for (const Violation& one : rig.runtime.validation().first) {
        ADD_FAILURE() << one.rule << " " << one.call << ": " << one.text;
      }
    }
    return file();  // closed with the last object of the runtime
  }
  ReplayReport run(const std::vector<std::byte>& bytes, Streams on) const {
    return run(bytes, Rig::make_control(on));
  }
  ReplayReport run(const std::vector<std::byte>& bytes, std::shared_ptr<Control> on) const {
    RuntimeOptions plain;
    plain.layers.use_environment = false;
    Runtime runtime(Rig::with_defaults(plain));
    register_backend(runtime, 1, std::move(on));
    ReplayOptions replay_options;
    replay_options.backend = "test1";
    return replay(runtime, bytes, replay_options);
  }

  TemporaryFolder folder_;
  std::uint64_t violations_ = 0;
};

}  // namespace yoke::test
