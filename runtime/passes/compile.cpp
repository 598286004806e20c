// SPDX-License-Identifier: Apache-2.0
// runtime/passes/compile.cpp: compiles a program's text: verifies and optimizes it, compiles it once per
// device, and checks the backend's description of the result; or compiles it for the fallback device.
#include <yoke/program/text.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/device.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "device/call.h"
#include "device/code_cache.h"
#include "device/fallback_ledger.h"
#include "passes/text_cache.h"

namespace yoke {
namespace {

template <std::size_t N>
std::string text_of(const char (&bytes)[N]) {
  return {bytes, strnlen(bytes, N)};
}

yoke_compile_args compile_args(const std::string& text) {
  yoke_compile_args args{};
  args.struct_size = sizeof(args);
  args.format = YOKE_PROGRAM_FORMAT;
  args.text = text.data();
  args.byte_count = text.size();
  args.version = YOKE_PROGRAM_VERSION;
  return args;
}

std::string shortened(std::string text, std::size_t longest) {
  if (text.size() > longest) {
    text.replace(longest, std::string::npos, "...");
  }
  return text;
}

// Returns the first `most` statements whose verdict is `from` or worse, and the number of the rest. Of each
// statement it prints at most `longest` characters:
// "program 'dense', statement 2 `...`: reason; ...; and 4 more statements".
std::string verdict_text(const Device& device, const program::Module& module, const std::string& text,
                         std::int32_t from, std::size_t most, std::size_t longest) {
  const auto args = compile_args(text);
  std::size_t statement_count = 0;
  for (const auto& program : module.programs) {
    statement_count += program.statements.size();
  }
  std::string sentences;
  std::size_t found = 0;
  for (const auto& row : detail::list<&yoke_program_api::can_compile, yoke_verdict>(
           device.backend()->state(), device.name(), static_cast<std::uint32_t>(statement_count),
           device.get(), &args)) {
    if (row.verdict < from || row.program >= module.programs.size()) {
      continue;
    }
    if (++found > most) {
      continue;
    }
    const auto& program = module.programs[row.program];
    sentences.append(sentences.empty() ? "" : "; ").append("program '" + program.name + "', statement ");
    sentences.append(std::to_string(row.statement + 1));
    if (row.statement < program.statements.size()) {
      sentences.append(" `" + shortened(program::print(program, program.statements[row.statement]), longest) +
                       "`");
    }
    sentences.append(": ").append(text_of(row.reason));
  }
  if (found > most) {
    sentences.append("; and " + std::to_string(found - most) + " more statement");
    sentences.append(found - most == 1 ? "" : "s");
  }
  return sentences;
}

[[noreturn]] void throw_mismatch(const Device& device, const char* function, const std::string& what) {
  detail::Status status;
  const auto code = detail::blame(device.backend()->state(), status, what);
  throw detail::make_error(device.name(), function, code, status);
}

ArgumentInfo describe_argument(const Device& device, yoke_code* code, std::uint32_t entry,
                               std::uint32_t number, const program::Tensor& declared) {
  yoke_argument_info info{};
  info.struct_size = sizeof(info);
  detail::call<&yoke_program_api::code_argument>(device, code, entry, number, &info);
  const bool agrees =
      text_of(info.name) == declared.name && info.type == static_cast<std::int32_t>(declared.type) &&
      info.access == static_cast<std::int32_t>(declared.role) && info.rank == declared.dims.size() &&
      std::equal(declared.dims.begin(), declared.dims.end(), info.dims) &&
      info.byte_count == declared.byte_count() && std::has_single_bit(info.alignment) &&
      info.alignment >= program::byte_size(declared.type) && info.alignment <= YOKE_BUFFER_ALIGNMENT;
  if (!agrees) {
    throw_mismatch(device, "code_argument",
                   "described argument '" + declared.name + "' differently from the program");
  }
  return {.name = declared.name,
          .type = info.type,
          .access = info.access,
          .alignment = info.alignment,
          .dims = declared.dims,
          .byte_count = info.byte_count};
}

// Bindings and launches are checked against the entry later, so it must match the program.
Code::Entry describe_entry(const Device& device, yoke_code* code, std::uint32_t number,
                           const program::Program& program) {
  yoke_entry_info info{};
  info.struct_size = sizeof(info);
  detail::call<&yoke_program_api::code_describe>(device, code, number, &info);
  const auto arguments = program.arguments();
  if (text_of(info.name) != program.name || info.argument_count != arguments.size() ||
      info.symbol_count != program.launch_symbol_count()) {
    throw_mismatch(device, "code_describe",
                   "described entry '" + program.name + "' differently from the program");
  }
  Code::Entry entry{.name = program.name,
                    .arguments = {},
                    .symbols = {},
                    .workspace_byte_count = info.workspace_byte_count,
                    .deterministic = info.deterministic != 0,
                    .fingerprint = text_of(info.fingerprint)};
  for (std::uint32_t i = 0; i < arguments.size(); ++i) {
    entry.arguments.push_back(describe_argument(device, code, number, i, program.tensors[arguments[i]]));
  }
  for (std::size_t i = 0; i < program.launch_symbol_count(); ++i) {
    const auto& symbol = program.symbols[i];
    entry.symbols.push_back({symbol.name, symbol.low, symbol.high, symbol.step});
  }
  return entry;
}

program::Module read_program(const Device& device, std::string_view text) {
  try {
    return program::parse_and_verify(text);
  } catch (const program::ProgramError& error) {
    throw Error(ErrorCode::kInvalidArgument, device.name() + ": compile: " + error.what());
  }
}

}  // namespace

namespace detail {

// Compiles one text for one device or, if the device's backend does not support it, for the fallback device.
class Compilation {
 public:
  // `source` is canonical.
  Compilation(const std::shared_ptr<Device>& device, const std::string& source, program::Module module)
      : device_(device),
        backend_(*device->backend()),
        runtime_(*backend_.state().runtime),
        source_(source),
        module_(std::move(module)) {}

  std::shared_ptr<const Code> run() {
    std::shared_ptr<Code> code(new Code(device_, optimize()));
    if (!backend_.has_programs()) {
      const std::string reason = "it does not provide " YOKE_PROGRAM_TABLE;
      fall_back(*code, reason, "backend '" + backend_.name() + "' does not run programs (" + reason + ")",
                "use a backend that runs programs, such as cc");
    } else if (const std::string unsupported = compile_here(*code); !unsupported.empty()) {
      fall_back(*code, unsupported, "the backend does not run " + unsupported,
                "rewrite the statement, or use another backend");
    }
    return code;
  }

 private:
  // Optimizes the programs of `module_`, or takes the result from the cache. Returns the canonical text.
  std::string optimize() {
    bool is_made = false;
    const TextCache::Text text = optimized_texts().get(source_, [&] {
      for (auto& program : module_.programs) {
        program = passes::optimize(std::move(program)).program;
      }
      is_made = true;
      return program::print(module_);
    });
    if (!is_made) {
      module_ = program::parse(*text);
    }
    return *text;
  }

  // Returns a description of the unsupported statements; empty if the text was compiled.
  std::string compile_here(Code& code) {
    if (runtime_.logger.logs(LogLevel::kDebug)) {
      runtime_.logger.log(LogLevel::kDebug, "code.verdicts device=" + device_->name() + " not_native=\"" +
                                                verdict_text(*device_, module_, code.text_,
                                                             YOKE_VERDICT_DECOMPOSED, SIZE_MAX, SIZE_MAX) +
                                                "\"");
    }
    ++runtime_.compile_count;
    const auto args = compile_args(code.text_);
    Status status;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = attempt<&yoke_program_api::code_compile>(backend_.state(), status, device_->get(),
                                                                 &args, &code.handle_);
    if (result == YOKE_STATUS_UNIMPLEMENTED) {
      return unsupported_text(code.text_, status);
    }
    if (result != YOKE_STATUS_OK) {
      throw make_error(device_->name(), "code_compile", result, status);
    }
    std::uint32_t entry_count = 0;
    call<&yoke_program_api::code_entry_count>(*device_, code.handle_, &entry_count);
    if (entry_count != module_.programs.size()) {
      throw_mismatch(*device_, "code_entry_count",
                     "reported " + detail::counted(entry_count, "entry", "entries") + " for a text with " +
                         detail::counted(module_.programs.size(), "program"));
    }
    for (std::uint32_t i = 0; i < entry_count; ++i) {
      code.entries_.push_back(describe_entry(*device_, code.handle_, i, module_.programs[i]));
    }
    if (runtime_.logger.logs(LogLevel::kDebug)) {
      const auto spent = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
      runtime_.logger.log(LogLevel::kDebug, "code.compile device=" + device_->name() +
                                                " programs=" + std::to_string(entry_count) +
                                                " ms=" + std::to_string(spent.count()));
    }
    return {};
  }

  // Returns the first unsupported statement that can_compile lists, or the reason in `status` if it lists none.
  // The log lists all statements at the level debug.
  std::string unsupported_text(const std::string& text, const Status& status) const {
    constexpr std::size_t kMostCharacters = 100;
    std::string unsupported;
    try {
      unsupported = verdict_text(*device_, module_, text, YOKE_VERDICT_UNSUPPORTED, 1, kMostCharacters);
    } catch (const Error&) {  // the failure in `status` is more useful than that of can_compile
    }
    if (unsupported.empty()) {
      unsupported = "program '" + module_.programs.front().name +
                    "': " + (status.text().empty() ? "no reason was given" : std::string(status.text()));
    }
    return unsupported;
  }

  // `reason` is for FallbackCount. `sentence` and `fix` are for the Error if no other backend runs the text.
  void fall_back(Code& code, const std::string& reason, const std::string& sentence, const std::string& fix) {
    const std::string& to = runtime_.options.fallback_backend;
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kUnimplemented, device_->name() + ": " + sentence + why + "; " + fix);
    };
    if (to.empty() || to == backend_.name()) {
      refuse("");
    }
    if (runtime_.options.strict) {
      refuse(", and strict mode forbids the fallback to '" + to + "'");
    }
    try {
      code.fallback_ = compile(runtime_.fallback_device(), source_);
    } catch (const Error& error) {
      refuse(", and the fallback to '" + to + "' failed (" + error.what() + ")");
    }
    code.fallback_reason_ = reason;
    code.entries_ = code.fallback_->entries();
    for (Code::Entry& entry : code.entries_) {
      entry.workspace_byte_count = 0;
    }
    if (runtime_.fallbacks->is_news(backend_.name(), reason)) {
      runtime_.logger.log(LogLevel::kWarn, "fallback routine=" + code.entries_.front().name + " device=" +
                                               device_->name() + " reason=\"" + reason + "\" to=" + to);
    }
  }

  const std::shared_ptr<Device>& device_;
  const Backend& backend_;
  RuntimeState& runtime_;
  const std::string& source_;
  program::Module module_;  // after optimize(): the optimized programs
};

}  // namespace detail

std::shared_ptr<const Code> compile(const std::shared_ptr<Device>& device, std::string_view program_text) {
  if (device == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "compile: the device is null");
  }
  device->backend()->state().runtime->check_fallback();
  program::Module module = read_program(*device, program_text);
  const std::string text = program::print(module);
  return device->backend()->state().runtime->codes->get(*device, program::digest(text), [&] {
    return detail::Compilation(device, text, std::move(module)).run();
  });
}

}  // namespace yoke
