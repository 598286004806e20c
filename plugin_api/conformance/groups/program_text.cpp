// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_text.cpp: formats, verdicts,
// invalid texts, fingerprints and determinism.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

#include "groups.h"
#include "program/corpus.h"
#include "program/mutate.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"
#include "program/shrink.h"

namespace yoke::conformance {
namespace {

// can_compile and code_compile must both fail with one of `codes` and leave their out-parameters unchanged.
void expect_rejected(Device& device, const yoke_compile_args& program, const std::vector<std::int32_t>& codes,
                     bool says_line, const std::string& why) {
  std::vector<yoke_verdict> verdicts(4);
  std::uint32_t count = 4711;
  const Answer verdict = device.plugin().can_compile(device.get(), program, verdicts, &count);
  yoke_code* code = nullptr;
  const Answer compiled = device.plugin().code_compile(device.get(), program, &code);
  const Code guard(device.plugin(), compiled.ok() ? code : nullptr);
  for (const Answer* answer : {&verdict, &compiled}) {
    expect_refused(*answer, why);
    check(std::find(codes.begin(), codes.end(), answer->code) != codes.end(), why, ": ", answer->words(),
          "; expected ", code_name(codes[0]));
    const std::size_t at = answer->status.text.find("line ");
    check(!says_line || (at != std::string::npos &&
                         std::isdigit(static_cast<unsigned char>(
                             answer->status.text[std::min(at + 5, answer->status.text.size() - 1)])) != 0),
          why, ": the error text has no line number: ", answer->words());
  }
  check(code == nullptr && count == 4711, why, ": a call failed but wrote an out-parameter");
}

void formats(Kit& kit) {
  Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  std::uint32_t count = 0;
  expect_ok(plugin.call<&yoke_program_api::formats>(plugin.get(), 0U, std::uint64_t{sizeof(yoke_format)},
                                                    static_cast<yoke_format*>(nullptr), &count),
            "counting the formats");
  check(count >= 1, "the plugin has " YOKE_PROGRAM_TABLE " but lists no formats");
  std::vector<yoke_format> rows(count);
  expect_ok(plugin.call<&yoke_program_api::formats>(plugin.get(), count, std::uint64_t{sizeof(yoke_format)},
                                                    rows.data(), &count),
            "listing the formats");
  bool reads_ours = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    check(rows[i].format != nullptr && is_utf8(rows[i].format), "the name of format ", i,
          " is NULL or not UTF-8");
    reads_ours = reads_ours || (std::strcmp(rows[i].format, YOKE_PROGRAM_FORMAT) == 0 &&
                                rows[i].version == YOKE_PROGRAM_VERSION);
  }
  check(reads_ours, "the plugin does not list " YOKE_PROGRAM_FORMAT " version ", YOKE_PROGRAM_VERSION);
}

void unknown_formats(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::string bytes = "yoke.program 1\nprogram p() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n";
  yoke_compile_args program = program_text(bytes);
  const std::vector<std::int32_t> codes = {YOKE_STATUS_INVALID_ARGUMENT, YOKE_STATUS_UNIMPLEMENTED,
                                           YOKE_STATUS_NOT_FOUND};
  program.format = "org.example.nonsense";
  expect_rejected(device, program, codes, false, "a text of the format org.example.nonsense");
  program = program_text(bytes);
  program.version = 999;
  expect_rejected(device, program, codes, false, "a text of yoke.program version 999");
  expect_rejected(device, program_text(""), {YOKE_STATUS_INVALID_ARGUMENT}, false, "an empty text");
  expect_rejected(device, program_text(std::string_view("\0\0\0\0", 4)), {YOKE_STATUS_INVALID_ARGUMENT},
                  false, "a text of four zero bytes");
}

void invalid_texts(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const GeneratorOptions options = generator_options(device);
  const yoke_live_counts before = device.plugin().live_counts();
  const std::uint64_t used = device.memory().used_bytes;
  std::uint64_t refused = 0;
  for (std::uint64_t index = 0; refused < 400; ++index) {
    const Case one = generate_case(kit.settings().seed, index, {options.type_mask, false});
    Random random = kit.random(index);
    const auto invalid = mutate(text_of({&one, 1}), random);
    if (!invalid) {
      continue;
    }
    for (const char* const again : {"", " again"}) {  // a cache of texts may have kept it
      expect_rejected(device, program_text(invalid->text), {YOKE_STATUS_INVALID_ARGUMENT}, true,
                      text("an invalid text", again, " (", invalid->reason, "):\n", invalid->text));
    }
    ++refused;
  }
  check_equal(device.plugin().live_counts().codes, before.codes,
              "the number of live codes after 400 rejected texts");
  check_equal(device.memory().used_bytes, used, "used_bytes after 400 rejected texts");
  kit.note(text(refused, " invalid texts were rejected"));
}

void verdicts(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const Case one = generate_case(kit.settings().seed, 3, generator_options(device));
  const Case two = generate_case(kit.settings().seed, 4, generator_options(device));
  const std::vector<Case> cases = {one, two};
  const std::string bytes = text_of(cases);
  const yoke_compile_args program = program_text(bytes);
  const std::size_t total = one.program.statements.size() + two.program.statements.size();
  const auto can_compile = [&](std::span<yoke_verdict> rows) {
    std::uint32_t count = 0;
    expect_ok(device.plugin().can_compile(device.get(), program, rows, &count),
              text("can_compile with a capacity of ", rows.size(), " verdicts"));
    check_equal(count, total, "the number of verdicts of can_compile with a capacity of ", rows.size());
  };
  can_compile({});
  std::vector<yoke_verdict> rows(total + 1);
  rows[1].verdict = 4711;
  can_compile({rows.data(), 1});
  check_equal(rows[1].verdict, 4711, "the verdict past a capacity of 1");
  rows.assign(total + 1, yoke_verdict{});
  rows[total].verdict = 4711;
  can_compile({rows.data(), total});
  check_equal(rows[total].verdict, 4711, "the verdict past that of the last statement");
  BatchRunner runner(device);
  Tally tally;
  runner.supported(cases, tally);
}

void can_compile_creates_nothing(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::uint64_t used = device.memory().used_bytes;
  for (std::uint64_t index = 0; index < 8; ++index) {
    const Case one = generate_case(kit.settings().seed, index, generator_options(device));
    const std::string bytes = text_of({&one, 1});
    std::vector<yoke_verdict> rows(one.program.statements.size());
    std::uint32_t count = 0;
    expect_ok(device.plugin().can_compile(device.get(), program_text(bytes), rows, &count), "can_compile");
    yoke_live_counts live = device.plugin().live_counts();
    --live.devices;
    const std::string alive = alive_text(live);
    check(alive.empty(), "after can_compile, live_counts reports ", alive);
    check_equal(device.memory().used_bytes, used, "used_bytes after can_compile");
  }
}

// A name has at most 127 bytes.
void longest_names(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const auto text_with = [](const std::string& program, const std::string& x, const std::string& symbol) {
    return "yoke.program 1\nprogram " + program + "(symbol " + symbol + " in 0..4) {\n  arg " + x +
           " : f32[8] in\n  arg y : f32[8] out\n  y[i] = " + x + "[i] + f32(" + symbol + ")\n}\n";
  };
  const std::string longest(YOKE_NAME_CAPACITY - 1, 'n');
  const std::string bytes =
      text_with("p" + longest.substr(1), "x" + longest.substr(1), "s" + longest.substr(1));
  require_supported(device, bytes, 1);
  const Code code = compile(device, bytes);
  check_equal(std::string(describe_entry(device.plugin(), code).name), "p" + longest.substr(1),
              "the name of a program");
  check_equal(std::string(describe_argument(device, code, 0, 0).name), "x" + longest.substr(1),
              "the name of an argument");
  const std::string longer = longest + "n";
  for (const std::string& wrong :
       {text_with(longer, "x", "s"), text_with("p", longer, "s"), text_with("p", "x", longer)}) {
    expect_no_object<yoke_code>(YOKE_STATUS_INVALID_ARGUMENT, "compiling a text with a name of 128 bytes",
                                [&](yoke_code** out) {
                                  return device.plugin().code_compile(device.get(), program_text(wrong), out);
                                });
  }
}

// code_compile must fail with UNIMPLEMENTED for a program with an unsupported statement.
void unsupported_statements(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const GeneratorOptions options = generator_options(device);
  BatchRunner runner(device);
  Tally tally;
  std::uint64_t refused = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Case one = generate_case(kit.settings().seed, index, options);
    if (!runner.supported({&one, 1}, tally).empty()) {
      continue;
    }
    const std::string bytes = text_of({&one, 1});
    expect_no_object<yoke_code>(
        YOKE_STATUS_UNIMPLEMENTED,
        "compiling a program with a statement that can_compile reports as unsupported", [&](yoke_code** out) {
          return device.plugin().code_compile(device.get(), program_text(bytes), out);
        });
    ++refused;
  }
  kit.note(text(refused, " of 200 programs have an unsupported statement"));
}

void repeated_compile(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::vector<Case> cases = supported_cases(device, 4);
  const std::string bytes = text_of(cases);
  const yoke_live_counts before = device.plugin().live_counts();
  std::string fingerprint;
  for (int i = 0; i < 20; ++i) {
    const Code code = compile(device, bytes);
    check_equal(device.plugin().live_counts().codes, before.codes + 1,
                "the number of live codes after compiling once more");
    const std::string now = describe_entry(device.plugin(), code).fingerprint;
    check(!now.empty(), "the fingerprint of an entry is empty");
    check(fingerprint.empty() || now == fingerprint, "the same text, compiled twice, has the fingerprints ",
          fingerprint, " and ", now);
    fingerprint = now;
    kit.progress(text("compile ", i, " of 20"));
  }
  check_equal(device.plugin().live_counts().codes, before.codes,
              "the number of live codes after all were destroyed");
}

void fingerprints_differ(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const auto fingerprint = [&](const std::string& type, const std::string& value) {
    const std::string bytes = "yoke.program 1\nprogram p() {\n  arg x : " + type +
                              "[8] in\n  arg y : " + type + "[8] out\n  y[i] = " + value + "\n}\n";
    require_supported(device, bytes, 1);
    return std::string(describe_entry(device.plugin(), compile(device, bytes)).fingerprint);
  };
  const bool has_f32 = (generator_options(device).type_mask >> YOKE_TYPE_F32 & 1U) != 0;
  const std::string type = has_f32 ? "f32" : "i32";
  const std::string plain = fingerprint(type, "x[i] + 1");
  check(plain != fingerprint(type, "x[i] + 2"),
        "programs that differ in a constant have the same fingerprint ", plain);
  check(plain != fingerprint(type, "x[i] - 1"),
        "programs that differ in an operation have the same fingerprint ", plain);
  check(plain != fingerprint(type, "x[-i + 7] + 1"),
        "programs that differ in an index have the same fingerprint ", plain);
  check(plain == fingerprint(type, "x[i] + 1"), "the same program has two fingerprints");
}

// A text has a length and no terminating zero, so bytes after its end do not belong to it.
void text_ends(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::string bytes = text_of(supported_cases(device, 4));
  const std::string fingerprint = describe_entry(device.plugin(), compile(device, bytes)).fingerprint;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t room = (bytes.size() + page - 1) / page * page;
  void* const mapped =
      ::mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(mapped != MAP_FAILED, "mmap failed");
  auto* const start = static_cast<char*>(mapped);
  check(::mprotect(start + room, page, PROT_NONE) == 0, "mprotect failed");
  const auto compile_at = [&](char* at, const char* where) {
    std::copy(bytes.begin(), bytes.end(), at);
    const std::string_view text(at, bytes.size());
    require_supported(device, text, 64);
    check_equal(std::string(describe_entry(device.plugin(), compile(device, text)).fingerprint), fingerprint,
                "the fingerprint of a text ", where);
  };
  compile_at(start + room - bytes.size(), "at the end of a page");
  ::munmap(mapped, room + page);
  for (const char* rest : {"}\nprogram more() {\n", "\nprogram", "x", "# comment", "\xff\xfe"}) {
    std::string longer = bytes + rest;
    compile_at(longer.data(), "that is followed by other bytes");
  }
}

// Sums of many numbers that use all bits of their type, so that the result depends on the order of summation.
constexpr std::string_view kSums[] = {
    "arg y : f32[64] out\n  y[i] = sum[k] x[i, k]\n",
    "arg y : f32[300] out\n  y[k] = sum[i] x[i, k]\n",
    "arg y : f32[] out\n  y[] = sum[i, k] x[i, k]\n",
    "arg w : f32[300, 5] in\n  arg y : f32[64, 5] out\n  y[i, j] = sum[k] x[i, k] * w[k, j]\n",
    "arg y : f32[64] out\n  y[i] = sum:f64[k] exp(f64(x[i, k]))\n",
    "arg bin : i32[64] in  # below 4\n  arg y : f32[4] inout\n  y[bin[i]] += sum[k] x[i, k]\n"};

std::vector<Case> inexact_sums(Device& device) {
  std::vector<Case> cases;
  for (const std::string_view sum : kSums) {
    Case one =
        corpus_case(text("yoke.program 1\nprogram total() {\n  arg x : f32[64, 300] in\n  ", sum, "}\n"),
                    device.kit().settings().seed);
    for (Data& data : one.data) {
      data.kind = data.kind == DataKind::kDyadic ? DataKind::kUniform : data.kind;
    }
    one.program.name += std::to_string(cases.size());
    cases.push_back(std::move(one));
  }
  return cases;
}

// A deterministic entry must have the same results, bit for bit, in every launch, link, memory layout and stream.
void deterministic_entries(Kit& kit) {
  constexpr double kShrinkSeconds = 10;
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  std::vector<Case> cases = supported_cases(device, share_of_programs(kit, 16, 24));
  const std::vector<Case> sums = inexact_sums(device);
  cases.insert(cases.begin(), sums.begin(), sums.end());
  BatchRunner runner(device);
  Tally tally;
  for (const Case& one : cases) {
    kit.progress(one.program.name);
    const std::string difference = runner.difference(one, tally);
    if (difference.empty()) {
      continue;
    }
    // Differences may be rare, so a smaller program counts if one of several tries shows one.
    const auto differs = [&](const Case& small) {
      Tally unused;
      std::string found;
      for (int i = 0; i < 3 && found.empty(); ++i) {
        found = runner.difference(small, unused);
      }
      return found;
    };
    const Case small =
        shrink(one, [&](const Case& smaller) { return !differs(smaller).empty(); }, {kShrinkSeconds, 2000});
    const std::string last = differs(small);
    fail(failure_text(small, one,
                      "a deterministic entry gives different bits: " + (last.empty() ? difference : last)));
  }
  require_some(tally);
  kit.note(text(tally.programs, " of ", cases.size(), " entries are deterministic"));
}

}  // namespace

std::vector<Test> program_text_tests() {
  return {
      {"formats", "formats can be counted and listed, and yoke.program 1 is among them", {24}, formats},
      {"unknown-formats",
       "an unknown format, an unknown version and an empty text are rejected",
       {24},
       unknown_formats},
      {"invalid-texts",
       "invalid texts fail with INVALID_ARGUMENT, a line number and a reason, and leak nothing",
       {10, 24},
       invalid_texts,
       2},
      {"text-ends", "a text ends after byte_count bytes, whatever follows it", {24}, text_ends},
      {"verdicts",
       "can_compile returns one verdict per statement, in order, within the capacity",
       {12, 25},
       verdicts},
      {"can-compile-creates-nothing",
       "can_compile creates no object and uses no memory of the device",
       {60},
       can_compile_creates_nothing},
      {"longest-names",
       "names of 127 bytes are described in full, and longer ones are rejected",
       {57},
       longest_names},
      {"unsupported-statements",
       "code_compile fails with UNIMPLEMENTED for statements that can_compile reports as unsupported",
       {25},
       unsupported_statements,
       2},
      {"repeated-compile",
       "a text can be compiled many times, always with the same fingerprint and without a leak",
       {14, 26},
       repeated_compile,
       3},
      {"fingerprints", "programs that differ have different fingerprints", {26}, fingerprints_differ},
      {"deterministic",
       "a deterministic entry has the same results, bit for bit, in every launch, link, memory layout and "
       "stream",
       {26},
       deterministic_entries,
       3},
  };
}

}  // namespace yoke::conformance
