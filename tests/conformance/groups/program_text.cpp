// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/program_text.cpp: the rest of the group 'program': formats, verdicts, refusals,
// fingerprints, determinism.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "groups.h"
#include "program/mutate.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

// Cases of this run whose statements all run; Unsupported where there are none among many.
std::vector<Case> supported_cases(Device& device, std::size_t count) {
  const GeneratorOptions options = generator_options(device);
  BatchRunner runner(device);
  std::vector<Case> found;
  Tally tally;
  for (std::uint64_t index = 0; index < 4 * count && found.size() < count; index += 8) {
    std::vector<Case> cases;
    for (std::uint64_t i = 0; i < 8; ++i) {
      cases.push_back(generate_case(device.kit().settings().seed, index + i, options));
    }
    for (const std::size_t number : runner.supported(cases, tally)) {
      found.push_back(cases[number]);
    }
  }
  if (found.empty()) {
    unsupported("no random program runs: " + tally.words());
  }
  found.resize(std::min(found.size(), count));
  return found;
}

// Both calls that read a text must refuse it, and leave their results alone.
void refuses(Device& device, const yoke_program_text& program, const std::vector<std::int32_t>& codes,
             bool says_line, const std::string& why) {
  std::vector<yoke_verdict> verdicts(4, sized<yoke_verdict>());
  std::uint32_t count = 4711;
  const Answer asked = device.plugin().call<&yoke_program_api::can_compile>(
      device.get(), &program, static_cast<std::uint32_t>(verdicts.size()), verdicts.data(), &count);
  yoke_code* code = nullptr;
  const Answer compiled =
      device.plugin().call<&yoke_program_api::code_compile>(device.get(), &program, &code);
  const Code guard(device.plugin(), compiled.ok() ? code : nullptr);
  for (const Answer* answer : {&asked, &compiled}) {
    expect_refused(*answer, why);
    check(std::find(codes.begin(), codes.end(), answer->code) != codes.end(), why, ": ", answer->words(),
          "; due is ", code_name(codes[0]));
    const std::size_t at = answer->status.text.find("line ");
    check(!says_line || (at != std::string::npos &&
                         std::isdigit(static_cast<unsigned char>(
                             answer->status.text[std::min(at + 5, answer->status.text.size() - 1)])) != 0),
          why, ": the text gives no line: ", answer->words());
  }
  check(code == nullptr && count == 4711, why, ": it was refused, but an out-parameter was touched");
}

void formats(Kit& kit) {
  Plugin& plugin = kit.plugin();
  plugin.table<yoke_program_api>();
  std::uint32_t count = 0;
  expect_ok(plugin.call<&yoke_program_api::formats>(plugin.get(), 0U, nullptr, &count),
            "counting the formats");
  check(count >= 1, "a plugin with " YOKE_PROGRAM_TABLE " reads no format at all");
  std::vector<yoke_format> rows(count + 1, sized<yoke_format>());
  rows[count].version = 4711;
  std::uint32_t again = 0;
  expect_ok(plugin.call<&yoke_program_api::formats>(plugin.get(), count, rows.data(), &again),
            "listing the formats");
  check_equal(again, count, "the number of formats, asked a second time");
  check_equal(rows[count].version, 4711U, "the row behind the capacity");
  bool reads_ours = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    check(rows[i].format != nullptr && is_utf8(rows[i].format), "format ", i, " has no name");
    reads_ours = reads_ours || (std::strcmp(rows[i].format, YOKE_PROGRAM_FORMAT) == 0 &&
                                rows[i].version == YOKE_PROGRAM_VERSION);
  }
  check(reads_ours, "the plugin does not list " YOKE_PROGRAM_FORMAT " version 1");
}

void unknown_formats(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::string bytes = "yoke.program 1\nprogram p() {\n  arg y : f32[2] out\n  y[i] = 1.0\n}\n";
  yoke_program_text program = crossing(bytes);
  const std::vector<std::int32_t> codes = {YOKE_INVALID_ARGUMENT, YOKE_UNIMPLEMENTED, YOKE_NOT_FOUND};
  program.format = "org.example.nonsense";
  refuses(device, program, codes, false, "a text of the format org.example.nonsense");
  program = crossing(bytes);
  program.version = 999;
  refuses(device, program, codes, false, "a text of yoke.program version 999");
  refuses(device, crossing(""), {YOKE_INVALID_ARGUMENT}, false, "an empty text");
  refuses(device, crossing(std::string_view("\0\0\0\0", 4)), {YOKE_INVALID_ARGUMENT}, false,
          "a text of four zero bytes");
}

void invalid_texts(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const GeneratorOptions options = generator_options(device);
  const yoke_live_counts before = device.plugin().live_counts();
  std::uint64_t refused = 0;
  for (std::uint64_t index = 0; refused < 400; ++index) {
    const Case one = generate_case(kit.settings().seed, index, {options.type_mask, false});
    Random random = kit.random(index);
    const auto invalid = mutate(text_of({&one, 1}), random);
    if (!invalid) {
      continue;
    }
    refuses(device, crossing(invalid->text), {YOKE_INVALID_ARGUMENT}, true,
            text("a text that is invalid (", invalid->reason, "):\n", invalid->text));
    ++refused;
  }
  check_equal(device.plugin().live_counts().codes, before.codes, "live codes behind 400 refused texts");
  kit.note(text(refused, " invalid texts refused"));
}

void verdicts(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const Case one = generate_case(kit.settings().seed, 3, generator_options(device));
  const Case two = generate_case(kit.settings().seed, 4, generator_options(device));
  const std::vector<Case> cases = {one, two};
  const std::string bytes = text_of(cases);
  const yoke_program_text program = crossing(bytes);
  const std::size_t total = one.program.statements.size() + two.program.statements.size();
  const auto ask = [&](std::uint32_t capacity, yoke_verdict* rows) {
    std::uint32_t count = 0;
    expect_ok(
        device.plugin().call<&yoke_program_api::can_compile>(device.get(), &program, capacity, rows, &count),
        text("can_compile with room for ", capacity, " verdicts"));
    check_equal(count, total, "the number of verdicts, with room for ", capacity);
  };
  ask(0, nullptr);
  std::vector<yoke_verdict> rows(total + 1, sized<yoke_verdict>());
  rows[1].verdict = 4711;
  ask(1, rows.data());
  check_equal(rows[1].verdict, 4711, "the verdict behind the capacity of 1");
  rows.assign(total + 1, sized<yoke_verdict>());
  rows[total].verdict = 4711;
  ask(static_cast<std::uint32_t>(total), rows.data());
  check_equal(rows[total].verdict, 4711, "the verdict behind the last statement's");
  BatchRunner runner(device);
  Tally tally;
  runner.supported(cases, tally);
}

// A program with an unsupported statement is refused when compiled, with the code that says so.
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
    const yoke_program_text program = crossing(bytes);
    yoke_code* code = nullptr;
    const Answer answer =
        device.plugin().call<&yoke_program_api::code_compile>(device.get(), &program, &code);
    const Code guard(device.plugin(), answer.ok() ? code : nullptr);
    expect_code(answer, YOKE_UNIMPLEMENTED,
                "compiling a program with a statement that can_compile calls unsupported");
    ++refused;
  }
  kit.note(text(refused, " of 200 programs hold a statement that is unsupported"));
}

void compile_often(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::vector<Case> cases = supported_cases(device, 4);
  const std::string bytes = text_of(cases);
  const yoke_live_counts before = device.plugin().live_counts();
  std::string fingerprint;
  for (int i = 0; i < 20; ++i) {
    const Code code = compile(device, bytes);
    check_equal(device.plugin().live_counts().codes, before.codes + 1, "live codes with one more compiled");
    const std::string now = describe_entry(device, code, 0).fingerprint;
    check(!now.empty(), "an entry has no fingerprint");
    check(fingerprint.empty() || now == fingerprint, "the same text compiled twice has the fingerprints ",
          fingerprint, " and ", now);
    fingerprint = now;
    kit.progress(text("compile ", i, " of 20"));
  }
  check_equal(device.plugin().live_counts().codes, before.codes, "live codes after all were destroyed");
}

void fingerprints_differ(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const auto fingerprint = [&](const std::string& type, const std::string& value) {
    const std::string bytes = "yoke.program 1\nprogram p() {\n  arg x : " + type +
                              "[8] in\n  arg y : " + type + "[8] out\n  y[i] = " + value + "\n}\n";
    const yoke_program_text program = crossing(bytes);
    yoke_verdict verdict = sized<yoke_verdict>();
    std::uint32_t count = 0;
    expect_ok(
        device.plugin().call<&yoke_program_api::can_compile>(device.get(), &program, 1U, &verdict, &count),
        "asking about a copy");
    if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
      unsupported(verdict.reason);
    }
    return std::string(describe_entry(device, compile(device, bytes), 0).fingerprint);
  };
  const bool has_f32 = (generator_options(device).type_mask >> YOKE_F32 & 1U) != 0;
  const std::string type = has_f32 ? "f32" : "i32";
  const std::string plain = fingerprint(type, "x[i] + 1");
  check(plain != fingerprint(type, "x[i] + 2"),
        "two programs with another constant have one fingerprint: ", plain);
  check(plain != fingerprint(type, "x[i] - 1"),
        "two programs with another operation have one fingerprint: ", plain);
  check(plain != fingerprint(type, "x[-i + 7] + 1"),
        "two programs with another index have one fingerprint: ", plain);
  check(plain == fingerprint(type, "x[i] + 1"), "one program has two fingerprints");
}

// What an entry calls deterministic gives the same bits in every launch, link, place and stream.
void same_bits(Kit& kit) {
  Device& device = kit.device();
  device.plugin().table<yoke_program_api>();
  const std::vector<Case> cases = supported_cases(device, 32);
  const Code code = compile(device, text_of(cases));
  std::unique_ptr<Stream> stream;
  if (device.plugin().has_table<yoke_stream_api>()) {
    stream = std::make_unique<Stream>(device);
  }
  Arena::Pool pool;
  std::uint64_t deterministic = 0;
  for (std::uint32_t i = 0; i < cases.size(); ++i) {
    const yoke_entry_info info = describe_entry(device, code, i);
    if (info.deterministic == 0) {
      continue;
    }
    ++deterministic;
    std::vector<std::vector<std::byte>> first;
    for (std::uint64_t layout = 0; layout < 3; ++layout) {
      Arena arena(device, pool, cases[i], info.workspace_byte_count, layout);
      const Routine routine = link(device, code, i, arena);
      for (int run = 0; run < 2; ++run) {
        arena.upload(initial_arguments(cases[i]));
        launch(device, routine, cases[i].launches[0], run == 1 ? stream.get() : nullptr);
        const std::vector<std::vector<std::byte>> now = arena.download();
        check(first.empty() || first == now,
              "an entry that calls itself deterministic gives other bits in launch ", run, " of link ",
              layout, ":\n", text_of({&cases[i], 1}));
        first = now;
      }
    }
  }
  kit.note(text(deterministic, " of ", cases.size(), " entries are deterministic"));
}

}  // namespace

std::vector<Test> program_text_tests() {
  return {
      {"formats", "the formats can be counted and listed, and hold yoke.program 1", {24}, formats},
      {"unknown-formats",
       "another format, another version and an empty text are refused",
       {24},
       unknown_formats},
      {"invalid-texts",
       "invalid texts are refused with INVALID_ARGUMENT, a line and a reason, and leave nothing",
       {10, 24},
       invalid_texts,
       2},
      {"verdicts",
       "can_compile gives one verdict per statement, in order, within the capacity",
       {12, 25},
       verdicts},
      {"unsupported-statements",
       "what can_compile calls unsupported is refused by code_compile with UNIMPLEMENTED",
       {25},
       unsupported_statements,
       2},
      {"compile-often",
       "a text can be compiled many times, with one fingerprint and nothing left behind",
       {14, 26},
       compile_often,
       3},
      {"fingerprints", "a changed program has another fingerprint", {26}, fingerprints_differ},
      {"same-bits",
       "what an entry calls deterministic gives the same bits in every launch, link, place and stream",
       {26},
       same_bits,
       3},
  };
}

}  // namespace yoke::conformance
