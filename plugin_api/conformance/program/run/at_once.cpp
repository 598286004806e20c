// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/at_once.cpp: launches are queued first and checked afterwards.
#include "at_once.h"

#include <yoke/program/text.h>

#include <memory>

#include "batch.h"
#include "random_programs.h"

namespace yoke::conformance {
namespace {

constexpr std::size_t kStreams = 4;

std::vector<Case> supported_of(Device& device, const std::vector<Case>& cases) {
  device.plugin().table<yoke_program_api>();
  const std::uint64_t type_mask = generator_options(device).type_mask;
  std::vector<Case> usable;
  for (const Case& one : cases) {
    if (uses_only(one, type_mask)) {
      usable.push_back(one);
    }
  }
  Tally tally;
  std::vector<Case> found;
  if (!usable.empty()) {
    for (const std::size_t number : BatchRunner(device).supported(usable, tally)) {
      found.push_back(usable[number]);
      ++tally.programs;
    }
  }
  require_some(tally);
  return found;
}

// One case linked to its own memory, with the inputs of its own round.
struct Linked {
  Linked(Device& device, Arena::Pool& pool, const Code& code, std::uint32_t entry, const Case& drawn,
         std::uint64_t number)
      : one(drawn),
        round(number),
        symbols(drawn.launches[number % drawn.launches.size()]),
        start(initial_arguments(drawn, number)),
        info(describe_entry(device.plugin(), code, entry)),
        arena(device, pool, drawn, code, entry, info.workspace_byte_count, number),
        routine(link(device.plugin(), code, entry, arena)) {}

  void check_results() {
    const std::vector<Bytes> now = arena.download();
    if (!first.empty() && info.deterministic != 0) {
      check(now == first,
            "a deterministic entry gives different bits than in its first launch while others run at the "
            "same time:\n",
            program::print(one.program));
      return;
    }
    const std::string wrong = compare_results(one, symbols, now, round, start);
    check(wrong.empty(), "a routine that ran at the same time as others: ", wrong, "\n",
          program::print(one.program));
    first = now;
  }

  const Case& one;
  std::uint64_t round;
  const std::vector<std::int64_t>& symbols;
  std::vector<Bytes> start;
  yoke_entry_info info;
  Arena arena;
  Routine routine;
  std::vector<Bytes> first;
};

}  // namespace

void run_at_once(Kit& kit, const std::vector<Case>& drawn, int rounds) {
  Device& device = kit.device();
  const std::vector<Case> cases = supported_of(device, drawn);
  const Code code = compile(device, text_of(cases));
  std::vector<Stream> streams;
  if (device.plugin().has_table<yoke_stream_api>()) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams.emplace_back(device);
    }
  }
  Arena::Pool pool;
  std::vector<std::vector<std::unique_ptr<Linked>>> linked(kStreams);
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    for (std::uint32_t i = 0; i < cases.size(); ++i) {
      linked[stream].push_back(std::make_unique<Linked>(device, pool, code, i, cases[i], stream));
    }
  }
  const auto launch_all = [&](std::size_t stream, std::size_t shift) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Linked& each = *linked[stream][(i + shift) % cases.size()];
      expect_ok(device.plugin().routine_launch(streams.empty() ? nullptr : streams[stream].get(),
                                               each.routine.get(), each.symbols),
                "queueing a launch");
    }
  };
  for (int round = 0; round < rounds; ++round) {
    kit.progress(text("round ", round, " of ", rounds));
    for (const auto& each : linked) {
      for (const auto& one : each) {
        one->arena.upload(one->start);
      }
    }
    // The same entries at the same time in even rounds, others in odd ones.
    const auto start = [&](unsigned stream) { launch_all(stream, round % 2 == 0 ? 0 : stream * 3 + 1); };
    if (streams.empty() || round % 3 == 2) {
      run_threads(kStreams, start);
    } else {
      for (unsigned stream = 0; stream < kStreams; ++stream) {
        start(stream);
      }
    }
    for (const Stream& stream : streams) {
      stream.synchronize();
    }
    for (const auto& each : linked) {
      for (const auto& one : each) {
        one->check_results();
      }
    }
  }
  kit.note(text(cases.size(), " programs, ", kStreams, " routines of each, ", rounds, " rounds"));
}

void run_queued(Kit& kit, const std::vector<Case>& drawn) {
  constexpr std::uint64_t kRounds = 4;
  Device& device = kit.device();
  const std::vector<Case> cases = supported_of(device, drawn);
  const Code code = compile(device, text_of(cases));
  Arena::Pool pool;
  for (std::uint32_t entry = 0; entry < cases.size(); ++entry) {
    const Case& one = cases[entry];
    const Linked linked(device, pool, code, entry, one, 0);
    std::vector<std::vector<Bytes>> results(kRounds);
    std::optional<Stream> stream = stream_if_any(device);
    const auto& bindings = linked.arena.bindings();
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      std::vector<Bytes> start = initial_arguments(one, round);
      results[round] = start;
      for (std::size_t i = 0; i < bindings.size(); ++i) {
        expect_ok(device.plugin().from_host(raw_of(stream), bindings[i].buffer, bindings[i].offset,
                                            start[i].data(), start[i].size(), nullptr),
                  "queueing new inputs");
      }
      if (stream) {
        stream->keep(std::move(start));
      }
      expect_ok(device.plugin().routine_launch(raw_of(stream), linked.routine.get(),
                                               one.launches[round % one.launches.size()]),
                "queueing a launch");
      for (std::size_t i = 0; i < bindings.size(); ++i) {
        expect_ok(device.plugin().to_host(raw_of(stream), bindings[i].buffer, bindings[i].offset,
                                          results[round][i].data(), results[round][i].size()),
                  "queueing a copy of the results");
      }
    }
    if (stream) {
      stream->synchronize();
    }
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::string wrong =
          compare_results(one, one.launches[round % one.launches.size()], results[round], round);
      check(wrong.empty(), "round ", round, " of ", kRounds,
            ", each of which queued new inputs, a launch and a copy of the results: ", wrong, "\n",
            program::print(one.program));
    }
  }
  kit.note(text(cases.size(), " programs, ", kRounds, " rounds each"));
}

}  // namespace yoke::conformance
