// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_variants.cpp: programs that differ in one thing, compiled one after the other,
// so that a cache with an incomplete key mixes them up.
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "groups.h"
#include "program/corpus.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

struct Change {
  std::string_view from;
  std::string_view to;
};

// A program and changes of it. The name of the program and those of its tensors stay the same.
struct Family {
  std::string_view body;
  DataKind kind;
  std::span<const Change> changes;
  std::string_view symbols = {};
};

constexpr std::string_view kProduct =
    "arg x : f32[16, 16] in\n arg w : f32[16, 16] in\n arg y : f32[16, 16] inout\n y[i, j] for[i:9, j:7] = "
    "sum[k:5] x[i, "
    "k] * w[k, j]\n";
constexpr Change kProductChanges[] = {{"i:9", "i:10"},
                                      {"i:9", "i:8"},
                                      {"j:7", "j:8"},
                                      {"j:7", "j:6"},
                                      {"k:5", "k:6"},
                                      {"k:5", "k:4"},
                                      {"x[i, k]", "x[k, i]"},
                                      {"w[k, j]", "w[j, k]"},
                                      {"y[i, j]", "y[j, i]"},
                                      {"x[i, k]", "x[i + 1, k]"},
                                      {"x[i, k]", "x[i, k + 1]"},
                                      {"w[k, j]", "w[k, j + 1]"},
                                      {"y[i, j]", "y[i + 1, j]"},
                                      {"w[k, j]", "w[2*k, j]"},
                                      {"w[k, j]", "w[-k + 5, j]"},
                                      {"x[i, k]", "x[-i + 8, k]"},
                                      {"w[k, j]", "w[k, 2*j]"},
                                      {" = sum", " += sum"},
                                      {" = sum", " max= sum"},
                                      {" = sum", " min= sum"},
                                      {"sum[", "max["},
                                      {"sum[", "prod["},
                                      {"k] * w", "k] + w"},
                                      {"k] * w", "k] - w"},
                                      {"w[k, j]\n", "x[k, j]\n"},
                                      {"x[i, k]", "w[i, k]"},
                                      {"w[k, j]\n", "w[k, j] * 2\n"},
                                      {"w[k, j]\n", "abs(w[k, j])\n"},
                                      {"x : f32[16, 16]", "x : f32[16, 17]"},
                                      {"w : f32[16, 16]", "w : f32[17, 20]"},
                                      {"y : f32[16, 16]", "y : f32[16, 19]"},
                                      {"f32", "f64"},
                                      {"f32", "i32"}};

constexpr std::string_view kBatch =
    "arg x : f32[6, 8, 8] in\n arg w : f32[6, 8, 8] in\n arg y : f32[6, 8, 8] inout\n y[b, i, j] for[b:4, "
    "i:6, j:7] = "
    "sum[k:5] x[b, i, k] * w[b, k, j]\n";
constexpr Change kBatchChanges[] = {{"b:4", "b:5"},
                                    {"w[b, k", "w[0, k"},
                                    {"x[b, i", "x[0, i"},
                                    {"w[b, k", "w[b + 1, k"},
                                    {"w[b, k", "w[-b + 5, k"},
                                    {"w[b, k, j]", "w[k, b, j]"},
                                    {"x[b, i, k]", "x[i, b, k]"},
                                    {"y[b, i, j]", "y[i, b, j]"}};

constexpr std::string_view kMap =
    "arg x : f32[40] in\n arg z : f32[40] in\n arg y : f32[40] inout\n y[i] for[i:33] = max(x[i] * 2.5 + "
    "z[i], 0)\n";
constexpr Change kMapChanges[] = {
    {"i:33", "i:34"},      {"i:33", "i:32"},          {"2.5", "2.25"},         {"2.5", "-2.5"},
    {" + z", " - z"},      {" + z", " * z"},          {"* 2.5", "/ 2.5"},      {"max(", "min("},
    {", 0)", ", 1)"},      {"x[i]", "x[i + 1]"},      {"x[i]", "x[-i + 33]"},  {"z[i]", "x[i]"},
    {"z[i]", "z[0]"},      {"x[i] *", "abs(x[i]) *"}, {"y[i]", "y[i + 2]"},    {" = max", " += max"},
    {" = max", " *= max"}, {" = max", " max= max"},   {" = max", " min= max"}, {"f32", "f64"}};

constexpr std::string_view kCompare =
    "arg x : f32[40] in\n arg z : f32[40] in\n arg y : f32[40] out\n y[i] = select(x[i] < z[i], x[i], 1)\n";
constexpr Change kCompareChanges[] = {{" < ", " <= "},           {" < ", " > "},        {" < ", " >= "},
                                      {" < ", " == "},           {" < ", " != "},       {", 1)", ", 2)"},
                                      {"x[i], 1", "z[i], x[i]"}, {"x[i], 1", "1, x[i]"}};

constexpr std::string_view kInteger = "arg x : i32[40] in\n arg y : i32[40] inout\n y[i] = x[i] / 3\n";
constexpr Change kIntegerChanges[] = {{"i32", "u32"}, {"i32", "i64"}, {"i32", "u8"},  {"/ 3", "/ 4"},
                                      {"/", "%"},     {"/", ">>"},    {"/", "<<"},    {"/", "&"},
                                      {"/", "|"},     {"/", "^"},     {" = ", " += "}};

constexpr std::string_view kCast = "arg x : f32[40] in\n arg y : f32[40] out\n y[i] = f32(i32(x[i] * 300))\n";
constexpr Change kCastChanges[] = {{"i32(", "u8("},   {"i32(", "i64("}, {"i32(", "f16("},
                                   {"i32(", "bf16("}, {"i32(", "u32("}, {"i32(", "bool("}};

constexpr std::string_view kReduce =
    "arg x : f32[13, 13] in\n arg y : f32[13] inout\n y[i] for[i:11] = sum[k:12] x[k, i]\n";
constexpr Change kReduceChanges[] = {{"k:12", "k:11"},       {"i:11", "i:12"},
                                     {"x[k, i]", "x[i, k]"}, {"x[k, i]", "x[k + 1, i]"},
                                     {"sum", "max"},         {"sum", "min"},
                                     {"sum", "prod"},        {" = ", " += "},
                                     {" = ", " max= "},      {"x[k, i]\n", "abs(x[k, i])\n"},
                                     {"x[k, i]", "x[k, 0]"}, {"sum", "sum:f64"}};

constexpr std::string_view kBest =
    "arg x : f32[12, 13] in\n arg y : i32[12] out\n y[i] = argmax[k:12] x[i, k]\n";
constexpr Change kBestChanges[] = {
    {"argmax", "argmin"}, {"i32", "i64"}, {"x[i, k]", "x[i, -k + 12]"}, {"k:12", "k:13"}};

constexpr std::string_view kGather =
    "arg x : f32[30] in\n arg idx : i32[30] in  # below 30\n arg y : f32[25] out\n y[i] = (x[idx[i]] else "
    "0)\n";
constexpr Change kGatherChanges[] = {
    {"else 0", "else 1"}, {"idx[i]]", "idx[i + 1]]"}, {"idx : i32", "idx : i64"}};

constexpr std::string_view kScatter =
    "arg x : f32[30] in\n arg idx : i32[30] in  # below 25\n arg y : f32[25] inout\n y[idx[i]] += x[i]\n";
constexpr Change kScatterChanges[] = {
    {"+=", "max="}, {"+=", "min="}, {"x[i]\n", "x[i] * 2\n"}, {"idx : i32", "idx : i64"}};

constexpr std::string_view kGuard =
    "arg x : f32[30] in\n arg w : f32[3] in\n arg y : f32[30] out\n y[i] = sum[k:3] (x[i + k - 1] * w[k] "
    "else 0)\n";
constexpr Change kGuardChanges[] = {{"else 0", "else 1"},
                                    {"k - 1", "k - 2"},
                                    {"i + k", "2*i + k"},
                                    {"k:3", "k:2"},
                                    {"i + k - 1", "i - k + 1"}};

constexpr std::string_view kDivided =
    "arg x : f32[30] in\n arg y : f32[60] out\n y[i] = (x[(i + 1) / 2] else 0)\n";
constexpr Change kDividedChanges[] = {{"/ 2", "/ 3"}, {"i + 1", "i + 2"}, {"else 0", "else 5"}};

constexpr std::string_view kSymbol = "arg x : f32[60] in\n arg y : f32[30] out\n y[i] = x[i + s]\n";
constexpr Change kSymbolChanges[] = {{"i + s", "2*s + i"},
                                     {"i + s", "i - s + 9"},
                                     {"x[i + s]\n", "x[i] * f32(s)\n"},
                                     {"x[i + s]\n", "x[i + s] * f32(s)\n"}};

constexpr std::string_view kRepeat =
    "arg x : f32[30] in\n arg y : f32[30] inout\n repeat t in 0..4 {\n y[i] = y[i] * 0.5 + x[i]\n }\n";
constexpr Change kRepeatChanges[] = {
    {"0..4", "0..5"}, {"0..4", "0..4 step 2"}, {"0.5", "0.25"}, {"x[i]\n", "f32(t)\n"}, {"x[i]\n", "x[t]\n"}};

constexpr std::string_view kRandom = "arg y : u32[30] out\n y[i] = random_bits(7, 1, i)\n";
constexpr Change kRandomChanges[] = {
    {"7", "8"}, {"1,", "2,"}, {"i)", "i + 1)"}, {"i)", "2 * i)"}, {"(7, 1", "(1, 7"}};

constexpr std::string_view kTwo =
    "arg x : f32[30] in\n arg y : f32[30] out\n arg z : f32[30] out\n temp t : f32[30]\n t[i] = x[i] * 2\n "
    "y[i] = t[i] + x[i]\n "
    "z[i] = y[i] - 1\n";
constexpr Change kTwoChanges[] = {{"t[i] = x[i] * 2", "t[i] = x[-i + 29] * 2"},
                                  {"y[i] = t[i] + x[i]", "y[i] = t[i] + t[-i + 29]"},
                                  {"z[i] = y[i] - 1", "z[i] = t[i] - 1"},
                                  {"z[i] = y[i]", "z[i] = y[-i + 29]"}};

constexpr Family kFamilies[] = {{kProduct, DataKind::kDyadic, kProductChanges},
                                {kBatch, DataKind::kDyadic, kBatchChanges},
                                {kMap, DataKind::kDyadic, kMapChanges},
                                {kCompare, DataKind::kDyadic, kCompareChanges},
                                {kInteger, DataKind::kEdges, kIntegerChanges},
                                {kCast, DataKind::kDyadic, kCastChanges},
                                {kReduce, DataKind::kUnit, kReduceChanges},
                                {kBest, DataKind::kDyadic, kBestChanges},
                                {kGather, DataKind::kDyadic, kGatherChanges},
                                {kScatter, DataKind::kDyadic, kScatterChanges},
                                {kGuard, DataKind::kDyadic, kGuardChanges},
                                {kDivided, DataKind::kDyadic, kDividedChanges},
                                {kSymbol, DataKind::kDyadic, kSymbolChanges, "symbol s in 0..9"},
                                {kRepeat, DataKind::kDyadic, kRepeatChanges},
                                {kRandom, DataKind::kDyadic, kRandomChanges},
                                {kTwo, DataKind::kDyadic, kTwoChanges}};

std::string changed(std::string_view body, const Change& change) {
  std::string text(body);
  for (std::size_t at = 0; (at = text.find(change.from, at)) != std::string::npos; at += change.to.size()) {
    text.replace(at, change.from.size(), change.to);
  }
  return text;
}

// One program with its own code, memory and routine.
struct Variant {
  Variant(Device& device, Arena::Pool& pool, Case drawn)
      : one(std::move(drawn)),
        code(compile(device, text_of({&one, 1}))),
        arena(device, pool, one, code, 0, describe_entry(device.plugin(), code).workspace_byte_count, 0),
        routine(link(device.plugin(), code, 0, arena)) {}

  void run(const Plugin& plugin, std::uint64_t round) {
    const std::vector<std::int64_t>& symbols = one.launches[round % one.launches.size()];
    arena.upload(initial_arguments(one, round));
    launch(plugin, routine, symbols);
    const std::string wrong = compare_results(one, symbols, arena.download(), round);
    check(wrong.empty(), "after programs that differ from it in one thing were compiled: ", wrong, "\n",
          text_of({&one, 1}));
  }

  Case one;
  Code code;
  Arena arena;
  Routine routine;
};

// The programs of a family that the device can run. With a small --programs, the first program and some of the others.
std::vector<Case> programs_of(Kit& kit, const Family& family, std::uint64_t type_mask) {
  std::vector<std::string> bodies = {std::string(family.body)};
  for (const Change& change : family.changes) {
    bodies.push_back(changed(family.body, change));
  }
  const std::uint64_t most = share_of_programs(kit, 60, 3);
  Random random = kit.random(family.changes.size());
  while (bodies.size() > most) {
    bodies.erase(bodies.begin() + 1 + static_cast<std::ptrdiff_t>(random.below(bodies.size() - 1)));
  }
  std::vector<Case> cases;
  BatchRunner runner(kit.device());
  Tally tally;
  for (const std::string& body : bodies) {
    Case one = corpus_case(text("yoke.program 1\nprogram variant(", family.symbols, ") {\n ", body, "}\n"),
                           kit.settings().seed);
    for (Data& data : one.data) {
      data.kind = data.kind == DataKind::kDyadic ? family.kind : data.kind;
    }
    if (uses_only(one, type_mask) && !runner.supported({&one, 1}, tally).empty()) {
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

void one_difference(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t type_mask = generator_options(device).type_mask;
  std::size_t count = 0;
  for (const Family& family : kFamilies) {
    kit.progress(std::string(family.body.substr(0, 60)));
    Arena::Pool pool;
    std::vector<std::unique_ptr<Variant>> variants;
    for (Case& one : programs_of(kit, family, type_mask)) {
      variants.push_back(std::make_unique<Variant>(device, pool, std::move(one)));
    }
    count += variants.size();
    for (const auto& variant : variants) {
      variant->run(device.plugin(), 0);
    }
    for (auto variant = variants.rbegin(); variant != variants.rend(); ++variant) {
      (*variant)->code.reset();
      (*variant)->run(device.plugin(), 1);
    }
    // New objects, which may have the addresses of destroyed ones.
    for (std::size_t i = variants.size(); i-- > variants.size() / 2;) {
      Case one = variants[i]->one;
      variants[i].reset();
      variants[i] = std::make_unique<Variant>(device, pool, std::move(one));
      variants[i]->run(device.plugin(), 2);
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
           "programs that differ in one extent, index, type, constant or operator have their own results, "
           "however they "
           "are compiled, destroyed and compiled again",
           {26},
           one_difference,
           3}};
}

}  // namespace yoke::conformance
