// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/collectives.cpp: yoke.collectives/1: results, order, bits.
#include <algorithm>
#include <cstring>
#include <thread>

#include "groups.h"
#include "sized.h"
#include "team.h"

namespace yoke::conformance {
namespace {

using Shape = Exercise::Shape;

// The types of bits 1 << YOKE_TYPE_*.
std::vector<std::int32_t> types_of(std::uint64_t bits) {
  std::vector<std::int32_t> types;
  for (std::int32_t type = YOKE_TYPE_F64; type <= YOKE_TYPE_BOOL; ++type) {
    if ((bits >> static_cast<unsigned>(type) & 1U) != 0) {
      types.push_back(type);
    }
  }
  return types;
}

void perform(Team& team, const Shape& shape) {
  const Exercise exercise(team, shape);
  expect_ok(team.queue(exercise.rows()), "queuing " + exercise.words());
  team.synchronize();
  exercise.check_targets();
}

// Every count with the first type of `bits`, a few with the others.
void perform_types(Team& team, Shape shape, std::uint64_t bits) {
  for (const std::int32_t type : types_of(bits)) {
    shape.type = type;
    for (const std::uint64_t count : {1U, 333U}) {
      shape.count = count;
      perform(team, shape);
    }
  }
  for (const std::uint64_t count : {0U, 2U, 4096U, 70001U}) {
    shape.count = count;
    perform(team, shape);
  }
}

void perform_reductions(Kit& kit, std::int32_t kind) {
  Team team(kit);
  const yoke_collectives_info info = describe_collectives(*team[0].device);
  perform_types(team, {.kind = kind}, info.sum_types);
  if (info.order_types != 0) {
    perform_types(team, {.kind = kind, .reduction = YOKE_REDUCTION_MAX}, info.order_types);
    perform_types(team, {.kind = kind, .reduction = YOKE_REDUCTION_MIN}, info.order_types);
  }
  kit.note(text(team.size(), " members"));
}

void description(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_collectives_api>();
  check(plugin.has_table<yoke_stream_api>(), "a backend with collectives must have streams");
  const Device& device = kit.device();
  const yoke_collectives_info info = describe_collectives(device);
  check(info.sum_order >= YOKE_SUM_ORDER_ANY && info.sum_order <= YOKE_SUM_ORDER_RANKS, "sum_order is ",
        info.sum_order, ", which is not a YOKE_SUM_ORDER_ value");
  check(info.sum_types != 0, "the collectives sum no type");
  for (const std::uint64_t bits : {info.sum_types, info.order_types}) {
    check((bits & ~std::uint64_t{0x3fe}) == 0, "the types have bits that are not 1 << YOKE_TYPE_*");
  }
  check_sized<yoke_collectives_info>("collectives_describe", [&](yoke_collectives_info* out) {
    return plugin.call<&yoke_collectives_api::collectives_describe>(device.get(), out);
  });
}

void all_reduce(Kit& kit) {
  perform_reductions(kit, YOKE_COLLECTIVE_ALL_REDUCE);
}

void reduce_scatter(Kit& kit) {
  perform_reductions(kit, YOKE_COLLECTIVE_REDUCE_SCATTER);
}

void all_gather(Kit& kit) {
  Team team(kit);
  perform_types(team, {.kind = YOKE_COLLECTIVE_ALL_GATHER}, ~std::uint64_t{0});
}

void broadcast(Kit& kit) {
  Team team(kit);
  for (std::uint32_t root = 0; root < team.size(); ++root) {
    perform_types(team, {.kind = YOKE_COLLECTIVE_BROADCAST, .root = root}, ~std::uint64_t{0});
  }
}

void in_place(Kit& kit) {
  Team team(kit);
  const std::int32_t type = types_of(describe_collectives(*team[0].device).sum_types)[0];
  for (std::int32_t kind = YOKE_COLLECTIVE_ALL_REDUCE; kind <= YOKE_COLLECTIVE_BROADCAST; ++kind) {
    for (const std::uint64_t count : {1U, 64U, 5000U}) {
      Shape shape{.kind = kind, .type = type, .root = team.size() - 1, .count = count, .is_in_place = true};
      const Exercise exercise(team, shape);
      expect_ok(team.queue(exercise.rows()), "queuing " + exercise.words());
      team.synchronize();
      exercise.check_targets();
    }
  }
}

// Sums of floats whose bits depend on the order of the terms.
struct Floats {
  Floats(Kit& kit, Team& team) {
    Random random = kit.random();
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      std::vector<float> values(kCount);
      for (float& value : values) {
        value = static_cast<float>((random.unit() - 0.5) * (random.chance(3) ? 1e4 : 1.0));
      }
      sources.push_back(values);
    }
  }
  // All-reduces the floats and returns what each member received.
  std::vector<std::vector<float>> run(Team& team) const {
    std::vector<Buffer> buffers;
    std::vector<yoke_collective> rows;
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      buffers.emplace_back(*team[rank].device, kCount * sizeof(float));
      buffers.back().write(0, std::as_bytes(std::span(sources[rank])));
      yoke_collective row{};
      row.communicator = team[rank].communicator.get();
      row.stream = team[rank].stream->get();
      row.source = row.target = buffers.back().get();
      row.count = kCount;
      row.kind = YOKE_COLLECTIVE_ALL_REDUCE;
      row.type = YOKE_TYPE_F32;
      row.reduction = YOKE_REDUCTION_SUM;
      rows.push_back(row);
    }
    expect_ok(team.queue(rows), "queuing an all_reduce of floats");
    team.synchronize();
    std::vector<std::vector<float>> results(team.size(), std::vector<float>(kCount));
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      buffers[rank].read(0, std::as_writable_bytes(std::span(results[rank])));
    }
    return results;
  }

  static constexpr std::uint64_t kCount = 20000;
  std::vector<std::vector<float>> sources;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void bits(Kit& kit) {
  Team team(kit);
  const yoke_collectives_info info = describe_collectives(*team[0].device);
  if ((info.sum_types >> unsigned{YOKE_TYPE_F32} & 1U) == 0) {
    unsupported("the device does not sum f32");
  }
  const Floats floats(kit, team);
  const std::vector<std::vector<float>> first = floats.run(team);
  for (std::uint32_t rank = 1; rank < team.size(); ++rank) {
    check(same_bits(first[rank], first[0]), "members 0 and ", rank, " received different bits");
  }
  std::vector<float> by_rank = floats.sources[0];
  for (std::uint32_t rank = 1; rank < team.size(); ++rank) {
    std::transform(by_rank.begin(), by_rank.end(), floats.sources[rank].begin(), by_rank.begin(),
                   [](float sum, float value) { return sum + value; });
  }
  for (std::uint64_t i = 0; i < Floats::kCount; ++i) {
    check(std::abs(first[0][i] - by_rank[i]) <= 1e-2F, "element ", i, " of a sum is ", first[0][i],
          ", expected ", by_rank[i]);
  }
  check(info.sum_order != YOKE_SUM_ORDER_RANKS || same_bits(first[0], by_rank),
        "sum_order is YOKE_SUM_ORDER_RANKS, but a sum is not ((rank 0 + rank 1) + rank 2) + ...");
  for (int round = 0; round < 20 && info.sum_order != YOKE_SUM_ORDER_ANY; ++round) {
    check(same_bits(floats.run(team)[0], first[0]), "a repeated sum gives different bits");
  }
}

// A member's event must not be done before its result is written, nor before the others queue their parts.
void completion(Kit& kit) {
  Team team(kit);
  for (std::uint32_t round = 0; round < 30; ++round) {
    const std::uint32_t early = round % team.size();
    const Exercise exercise(team, {.kind = YOKE_COLLECTIVE_ALL_GATHER, .count = 3000, .salt = round});
    expect_ok(team.queue(exercise.row(early)), "queuing the part of one member");
    const Event event = team[early].stream->record();
    if (team.size() > 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(round < 3 ? 20 : 0));
      check(!event.done(),
            "the event after an all_gather is done, but the other members' parts were not queued");
      expect_code(event.wait(kMillisecond), YOKE_STATUS_DEADLINE_EXCEEDED,
                  "waiting for an event after a collective whose other members are missing");
    }
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      if (rank != early) {
        expect_ok(team.queue(exercise.row(rank)), "queuing the part of one member");
      }
    }
    expect_ok(event.wait(), "waiting for an event after a collective");
    exercise.check_target(early);
    team.synchronize();
    exercise.check_targets();
  }
}

// Work before and after a collective, without a wait of the host.
void stream_order(Kit& kit) {
  constexpr std::uint32_t kRounds = 20;
  Team team(kit);
  std::vector<std::unique_ptr<Exercise>> rounds;
  std::vector<Bytes> received;
  const Exercise exercise(team, {.kind = YOKE_COLLECTIVE_BROADCAST, .type = YOKE_TYPE_U8, .count = 5000});
  received.resize(std::size_t{kRounds} * team.size(), Bytes(5000));
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const yoke_collective root = exercise.row(0);
    Bytes sent(5000, static_cast<std::byte>(round + 1));
    team[0].stream->write(exercise.source_buffer(0), root.source_offset, std::move(sent));
    expect_ok(team.queue(exercise.rows()), "queuing a broadcast");
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      team[rank].stream->read(exercise.target_buffer(rank), exercise.row(rank).target_offset,
                              received[std::size_t{round} * team.size() + rank]);
    }
  }
  team.synchronize();
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
      check(
          received[std::size_t{round} * team.size() + rank] == Bytes(5000, static_cast<std::byte>(round + 1)),
          "member ", rank, " received the bytes of another round than ", round,
          ", although the source was written on the stream before the broadcast, and the target read after "
          "it");
    }
  }
}

void threads(Kit& kit) {
  Team team(kit);
  std::vector<std::unique_ptr<Exercise>> exercises;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto kind = static_cast<std::int32_t>(i % 4 + 1);
    exercises.push_back(std::make_unique<Exercise>(
        team, Shape{.kind = kind, .root = i % team.size(), .count = 1 + i * 50, .salt = i}));
  }
  run_threads(team.size(), [&](unsigned rank) {
    for (const auto& exercise : exercises) {
      expect_ok(team.queue(exercise->row(rank)), "queuing on a thread per member");
    }
    team[rank].stream->synchronize();
  });
  for (const auto& exercise : exercises) {
    exercise->check_targets();
  }
}

void groups(Kit& kit) {
  Team first(kit);
  Team second(kit, first);
  const yoke_group_id a = make_group_id(*first[0].device);
  const yoke_group_id b = make_group_id(*first[0].device);
  check(!std::equal(std::begin(a.bytes), std::end(a.bytes), std::begin(b.bytes)),
        "two groups have the same id");
  for (std::uint32_t round = 0; round < 10; ++round) {
    const Exercise one(first, {.count = 500, .salt = round});
    const Exercise other(second, {.kind = YOKE_COLLECTIVE_ALL_GATHER, .count = 300, .salt = round + 1});
    std::vector<yoke_collective> rows = one.rows();
    for (const yoke_collective& row : other.rows()) {
      rows.push_back(row);
    }
    expect_ok(first.queue(rows), "queuing the collectives of two groups in one call");
    first.synchronize();
    second.synchronize();
    one.check_targets();
    other.check_targets();
  }
}

}  // namespace

std::vector<Test> collectives_tests() {
  return {
      {"description", "collectives_describe names types and an order of sums", {5, 62}, description},
      {"all-reduce", "every member receives the reduction of all sources", {62}, all_reduce, 2},
      {"reduce-scatter", "every member receives its part of the reduction", {62}, reduce_scatter, 2},
      {"all-gather", "every member receives the sources of all in the order of ranks", {62}, all_gather, 2},
      {"broadcast", "every member receives the source of the root", {62}, broadcast, 2},
      {"in-place", "source and target may be the same memory, as the header states", {62}, in_place},
      {"bits", "members receive the same bits, and sums have the order that is stated", {62}, bits},
      {"completion", "an event after a collective is done when its result is written", {18, 62}, completion},
      {"stream-order",
       "a collective starts after earlier work and before later work",
       {18, 62},
       stream_order},
      {"threads", "each member may queue on its own thread", {20, 62}, threads},
      {"groups", "groups with the same devices are independent; their ids differ", {62}, groups},
  };
}

}  // namespace yoke::conformance
