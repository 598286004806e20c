// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_variants.cpp: programs that differ in one thing, compiled one after the other,
// so that a cache with an incomplete key mixes them up.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

#include "groups.h"
#include "program/corpus.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"
#include "program/variants.h"

namespace yoke::conformance {
namespace {

// A program whose variants are compiled.
struct Base {
  std::string_view body;
  DataKind kind = DataKind::kDyadic;
  std::string_view symbols = {};
};

constexpr Base kBases[] = {
    {"arg x : f32[16, 16] in\n arg w : f32[16, 16] in\n arg y : f32[16, 16] inout\n y[i, j] for[i:9, j:7] = "
     "sum[k:5] x[i, k] * w[k, j]\n"},
    {"arg x : f32[6, 8, 8] in\n arg w : f32[6, 8, 8] in\n arg y : f32[6, 8, 8] inout\n y[b, i, j] for[b:4, "
     "i:6, j:7] = sum[k:5] x[b, i, k] * w[b, k, j]\n"},
    {"arg x : f32[40] in\n arg z : f32[40] in\n arg y : f32[40] inout\n y[i] for[i:33] = max(x[i] * 2.5 + "
     "z[i], 0)\n"},
    {"arg x : f32[40] in\n arg z : f32[40] in\n arg y : f32[40] out\n y[i] = select(x[i] < z[i], x[i], 1)\n"},
    {"arg x : i32[40] in\n arg y : i32[40] inout\n y[i] = x[i] / 3\n", DataKind::kEdges},
    {"arg x : f32[40] in\n arg y : f32[40] out\n y[i] = f32(i32(x[i] * 300))\n"},
    {"arg x : f32[13, 13] in\n arg y : f32[13] inout\n y[i] for[i:11] = sum[k:12] x[k, i]\n",
     DataKind::kUnit},
    {"arg x : f32[12, 13] in\n arg y : i32[12] out\n y[i] = argmax[k:12] x[i, k]\n"},
    {"arg x : f32[30] in\n arg idx : i32[30] in  # below 30\n arg y : f32[25] out\n y[i] = (x[idx[i]] else "
     "0)\n"},
    {"arg x : f32[30] in\n arg idx : i32[30] in  # below 25\n arg y : f32[25] inout\n y[idx[i]] += x[i]\n"},
    {"arg x : f32[30] in\n arg w : f32[3] in\n arg y : f32[30] out\n y[i] = sum[k:3] (x[i + k - 1] * w[k] "
     "else 0)\n"},
    {"arg x : f32[30] in\n arg y : f32[60] out\n y[i] = (x[(i + 1) / 2] else 0)\n"},
    {"arg x : f32[60] in\n arg y : f32[30] out\n y[i] = x[i + s] * f32(s)\n", DataKind::kDyadic,
     "symbol s in 0..9"},
    {"arg x : f32[30] in\n arg y : f32[30] inout\n repeat t in 0..4 {\n y[i] = y[i] * 0.5 + x[i]\n }\n"},
    {"arg y : u32[30] out\n y[i] = random_bits(7, 1, i)\n"},
    {"arg x : f32[30] in\n arg y : f32[30] out\n arg z : f32[30] out\n temp t : f32[30]\n t[i] = x[i] * 2\n "
     "y[i] = t[i] + x[i]\n z[i] = y[i] - 1\n"},
    {"arg x : f64[30] in\n arg y : f64[30] out\n y[i] = (x[i] + 0.1) * 2.5 - select(x[i] < 0.75, 1, 3)\n"},
    {"arg x : i64[30] in\n arg y : i64[30] inout\n y[i] += select(x[i] == 3, 4294967296, i * 5 + s)\n",
     DataKind::kDyadic, "symbol s in -4..9 step 3, symbol r in 0..2"},
    {"arg x : f32[6, 20] in\n temp m : f32[6]\n arg y : f32[6, 20] out\n @fused[i] {\n m[i] = max[j] x[i, "
     "j]\n y[i, j] = x[i, j] - m[i]\n }\n"},
    {"arg x : f32[40] in\n arg p : i32[30] in  # below 20\n arg q : i32[30] in  # below 20\n arg h : f32[20] "
     "inout\n arg y : f32[30] out\n repeat t in 0..6 step 2 {\n h[i] = (x[i + t] * 0.5 + x[i + s] else 2)\n "
     "}\n y[i] = (h[p[i]] - h[q[i]] else 1)\n",
     DataKind::kDyadic, "symbol s in 0..9 step 4"},
    {"arg x : f16[20, 9] in\n arg w : f16[9] in\n arg y : f16[20] inout\n y[i] += sum:f32[k] x[i, k] * "
     "w[k]\n"},
    {"arg x : u8[64] in\n arg y : u8[64] out\n arg z : bool[64] out\n y[i] = (x[i] << 3) / 7\n z[i] = x[i] < "
     "5 || x[i] == 9\n",
     DataKind::kEdges}};

// One program with its own code, memory and routine.
struct Variant {
  Variant(Device& on, Arena::Pool& pool, Case drawn)
      : device(on),
        one(std::move(drawn)),
        code(compile(device, text_of({&one, 1}))),
        arena(device, pool, one, code, 0, describe_entry(device.plugin(), code).workspace_byte_count, 0),
        routine(link(device.plugin(), code, 0, arena)) {
    check_description(device, code, 0, one);
    refuse_others();
  }

  // Values of symbols that the ranges and steps of other variants allow.
  void refuse_others() {
    for (std::size_t i = 0; i < one.program.launch_symbol_count(); ++i) {
      const program::Symbol& symbol = one.program.symbols[i];
      const std::int64_t last = one.launches.back()[i];
      for (const std::int64_t value : {symbol.low - 1, symbol.low + 1, last + 1, last + symbol.step}) {
        std::vector<std::int64_t> values = one.launches[0];
        values[i] = value;
        if (value < symbol.low || value > last || (value - symbol.low) % symbol.step != 0) {
          expect_code(device.plugin().routine_launch(nullptr, routine.get(), values),
                      YOKE_STATUS_OUT_OF_RANGE,
                      text("launching with ", symbol.name, " = ", value, ":\n", text_of({&one, 1})));
        }
      }
    }
  }

  void run(std::uint64_t round) {
    const std::vector<std::int64_t>& symbols = one.launches[round % one.launches.size()];
    const Contents start = initial_arguments(one, round);
    arena.upload(start);
    launch(device.plugin(), routine, symbols);
    const std::string wrong = compare_results(one, symbols, arena.download(), round, start);
    check(wrong.empty(), "after programs that differ from it in one thing were compiled: ", wrong, "\n",
          text_of({&one, 1}));
  }

  Device& device;
  Case one;
  Code code;
  Arena arena;
  Routine routine;
};

// The program and a random choice of its variants that the device can run, in random order.
std::vector<Case> programs_of(Kit& kit, const Base& base, std::uint64_t type_mask) {
  Case first = corpus_case(text("yoke.program 1\nprogram variant(", base.symbols, ") {\n ", base.body, "}\n"),
                           kit.settings().seed);
  for (Data& data : first.data) {
    data.kind = data.kind == DataKind::kDyadic ? base.kind : data.kind;
  }
  std::vector<program::Program> variants = variants_of(first.program);
  Random random = kit.random(base.body.size());
  for (std::size_t i = variants.size(); i > 1; --i) {
    std::swap(variants[i - 1], variants[random.below(i)]);
  }
  const std::uint64_t most = share_of_programs(kit, 40, 3);
  variants.resize(std::min<std::size_t>(variants.size(), most));
  variants.insert(variants.begin(), first.program);
  Tally tally;
  BatchRunner runner(kit.device());
  std::vector<Case> cases;
  for (program::Program& variant : variants) {
    Case one = first;
    one.launches = launches_of(variant);
    one.program = std::move(variant);
    if (uses_only(one, type_mask) && !runner.supported({&one, 1}, tally).empty()) {
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

// Another device of the same kind, if the plugin has one.
std::unique_ptr<Device> other_device(Kit& kit) {
  const std::uint32_t count = kit.plugin().device_count();
  if (count < 2) {
    return nullptr;
  }
  auto other =
      std::make_unique<Device>(kit, kit.plugin(), (kit.settings().device + 1) % count, kit.device_options());
  const yoke_device_info mine = kit.device().info();
  const yoke_device_info its = other->info();
  const bool is_alike = its.type_mask == mine.type_mask && std::string_view(its.name) == mine.name;
  return is_alike ? std::move(other) : nullptr;
}

void one_difference(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t type_mask = generator_options(device).type_mask;
  const std::unique_ptr<Device> other = other_device(kit);
  const TimeLimit limit(kit);
  std::size_t count = 0;
  double bases = 0;
  for (const Base& base : kBases) {
    bases += 1;
    kit.progress(std::string(base.body.substr(0, 60)));
    Arena::Pool pool;
    Arena::Pool other_pool;
    std::vector<std::unique_ptr<Variant>> variants;
    for (Case& one : programs_of(kit, base, type_mask)) {
      if (variants.size() > 5 && limit.is_over(bases / static_cast<double>(std::size(kBases)))) {
        break;
      }
      if (other && variants.size() % 4 == 1) {
        variants.push_back(std::make_unique<Variant>(*other, other_pool, one));
      }
      variants.push_back(std::make_unique<Variant>(device, pool, std::move(one)));
    }
    count += variants.size();
    for (const auto& variant : variants) {
      variant->run(0);
    }
    for (auto variant = variants.rbegin(); variant != variants.rend(); ++variant) {
      (*variant)->code.reset();
      (*variant)->run(1);
    }
    // New objects, which may have the addresses of destroyed ones.
    for (std::size_t i = variants.size(); i-- > variants.size() / 2;) {
      Case one = variants[i]->one;
      Device& same = variants[i]->device;
      variants[i].reset();
      variants[i] = std::make_unique<Variant>(same, &same == &device ? pool : other_pool, std::move(one));
      variants[i]->run(2);
    }
  }
  if (count == 0) {
    unsupported("the device runs none of the programs of this test");
  }
  kit.note(text(count, " programs"));
}

}  // namespace

std::vector<Test> program_variant_tests() {
  return {{"one-difference",
           "programs that differ in one name, extent, index, type, digit, operator or other attribute have "
           "their own "
           "results and descriptions, however they are compiled, destroyed and compiled again",
           {26},
           one_difference,
           3}};
}

}  // namespace yoke::conformance
