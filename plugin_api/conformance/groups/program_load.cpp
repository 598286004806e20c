// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_load.cpp: long reductions, which backends split over threads, give the same
// bits however busy the machine is.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <thread>

#include "groups.h"
#include "program/corpus.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

// Each result depends on the order of its terms. None reads what it has written before.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kLongSums[] = {
    "arg x : f32[16, 65536] in\n arg y : f32[16] out\n y[i] = sum[k] x[i, k]\n",
    "arg x : f32[700000] in\n arg y : f32[] out\n arg z : f32[] out\n y[] = sum[k] x[k]\n z[] = sum[k] x[k] "
    "* x[k]\n",
    "arg x : f32[30000, 9] in\n arg y : f32[9] out\n y[i] = sum[k] x[k, i]\n",
    "arg x : f32[3, 40000] in\n arg w : f32[40000, 5] in\n arg y : f32[3, 5] out\n y[i, j] = sum[k] x[i, k] "
    "* w[k, j]\n",
    "arg x : f32[64, 1300] in\n arg w : f32[1300, 48] in\n arg y : f32[64, 48] out\n y[i, j] = sum[k] x[i, "
    "k] * w[k, j]\n",
    "arg x : f32[40, 40, 40] in\n arg y : f32[] out\n y[] = sum[i, j, k] x[i, j, k]\n",
    "arg x : f32[100000] in\n arg bin : i32[100000] in  # below 16\n arg y : f32[16] out\n y[i] = 0\n "
    "y[bin[k]] += x[k]\n",
    "arg x : f32[90, 2000] in\n arg y : f32[90] out\n temp m : f32[90]\n m[i] = max[k] x[i, k]\n y[i] = "
    "sum[k] exp(x[i, k] - "
    "m[i])\n"};
// NOLINTEND(bugprone-suspicious-missing-comma)

// The text with numbers above 1,000 divided by `divisor`.
std::string smaller(std::string_view body, std::uint64_t divisor) {
  std::string made;
  for (std::size_t at = 0; at < body.size();) {
    std::size_t end = at;
    std::uint64_t number = 0;
    for (; end < body.size() && body[end] >= '0' && body[end] <= '9'; ++end) {
      number = number * 10 + static_cast<std::uint64_t>(body[end] - '0');
    }
    made += number > 1000 ? std::to_string(number / divisor)
                          : std::string(body.substr(at, std::max<std::size_t>(end - at, 1)));
    at = std::max(end, at + 1);
  }
  return made;
}

struct Repeated {
  Repeated(Device& device, Arena::Pool& pool, const Code& code, std::uint32_t entry, const Case& drawn)
      : one(drawn),
        info(describe_entry(device.plugin(), code, entry)),
        arena(device, pool, drawn, code, entry, info.workspace_byte_count, 0),
        routine(link(device.plugin(), code, entry, arena)),
        arguments(drawn.program.arguments()) {
    arena.upload(initial_arguments(drawn));
  }

  // Queues copies of the outputs.
  void read(const Stream* stream, const Plugin& plugin) {
    now.clear();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (one.program.tensors[arguments[i]].role != program::Role::kOut) {
        continue;
      }
      const yoke_binding& from = arena.bindings()[i];
      now.emplace_back(from.byte_count);
      expect_ok(plugin.to_host(stream == nullptr ? nullptr : stream->get(), from.buffer, from.offset,
                               now.back().data(), from.byte_count),
                "queueing a copy of the results");
    }
  }
  void check_same(int round) {
    if (first.empty()) {
      first = now;
    }
    check(now == first, "a deterministic entry gives different bits in launch ", round,
          " than in its first one, while the machine was busy:\n", text_of({&one, 1}));
  }

  const Case& one;
  yoke_entry_info info;
  Arena arena;
  Routine routine;
  std::vector<std::uint32_t> arguments;
  std::vector<Bytes> first;
  std::vector<Bytes> now;
};

// Threads that use the processor in bursts, so that threads of the backend are delayed at random.
class Load {
 public:
  Load() {
    for (unsigned i = 0; i < 2; ++i) {
      threads_.emplace_back([this, i] {
        for (unsigned turn = i; !is_over_; ++turn) {
          const auto begin = Clock::now();
          while (ns_since(begin) < std::uint64_t{turn % 7 + 1} * 100'000) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds(turn % 5 * 60));
        }
      });
    }
  }
  ~Load() {
    is_over_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

std::vector<Case> long_sums(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t type_mask = generator_options(device).type_mask;
  BatchRunner runner(device);
  Tally tally;
  std::vector<Case> cases;
  const std::uint64_t divisor =
      kit.settings().programs < 1000 ? 16 : 1;  // a small --programs means a slow backend
  for (const std::string_view body : kLongSums) {
    Case one = corpus_case(
        text("yoke.program 1\nprogram sum", cases.size(), "() {\n ", smaller(body, divisor), "}\n"),
        kit.settings().seed);
    for (Data& data : one.data) {
      data.kind = data.kind == DataKind::kDyadic ? DataKind::kUniform : data.kind;
    }
    if (uses_only(one, type_mask) && !runner.supported({&one, 1}, tally).empty()) {
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

void same_bits_under_load(Kit& kit) {
  Device& device = kit.device();
  const std::vector<Case> cases = long_sums(kit);
  if (cases.empty()) {
    unsupported("the device runs none of the programs of this test");
  }
  const Code code = compile(device, text_of(cases));
  Arena::Pool pool;
  std::vector<std::unique_ptr<Repeated>> all;
  std::vector<Stream> streams;
  for (std::uint32_t entry = 0; entry < cases.size(); ++entry) {
    auto made = std::make_unique<Repeated>(device, pool, code, entry, cases[entry]);
    if (made->info.deterministic != 0) {
      all.push_back(std::move(made));
    }
  }
  for (std::size_t i = 0; i < all.size() && device.plugin().has_table<yoke_stream_api>(); ++i) {
    streams.emplace_back(device);
  }
  const int rounds = static_cast<int>(share_of_programs(kit, 32, 3));
  const Load load;
  for (int round = 0; round < rounds; ++round) {
    kit.progress(text("round ", round, " of ", rounds));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Stream* stream = streams.empty() ? nullptr : &streams[i];
      expect_ok(device.plugin().routine_launch(stream == nullptr ? nullptr : stream->get(),
                                               all[i]->routine.get(), {}),
                "queueing a launch");
      all[i]->read(stream, device.plugin());
    }
    for (const Stream& stream : streams) {
      stream.synchronize();
    }
    for (const auto& one : all) {
      one->check_same(round);
    }
  }
  kit.note(text(all.size(), " of ", cases.size(), " entries are deterministic; ", rounds, " rounds"));
}

}  // namespace

std::vector<Test> program_load_tests() {
  return {
      {"same-bits-under-load",
       "a deterministic entry gives the same bits in every launch while other launches and threads keep the "
       "machine busy",
       {26},
       same_bits_under_load,
       3}};
}

}  // namespace yoke::conformance
