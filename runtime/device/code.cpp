// SPDX-License-Identifier: Apache-2.0
// runtime/device/code.cpp: from a program's text to code: verified, optimized, compiled once, and what the
// backend says of it checked.
#include <yoke/program/text.h>
#include <yoke/runtime/device.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "device/call.h"
#include "device/code_cache.h"

namespace yoke {
namespace {

template <std::size_t N>
std::string text_of(const char (&bytes)[N]) {
  return {bytes, strnlen(bytes, N)};
}

yoke_program_text as_text(const std::string& bytes) {
  yoke_program_text text{};
  text.struct_size = sizeof(text);
  text.format = YOKE_PROGRAM_FORMAT;
  text.version = YOKE_PROGRAM_VERSION;
  text.bytes = bytes.data();
  text.byte_count = bytes.size();
  return text;
}

// The backend's verdicts that are not `least` or better, as sentences: "program 'dense', statement 2 `...`:
// reason".
std::string verdict_text(const Device& device, const program::Module& module, const std::string& bytes,
                         std::int32_t from) {
  const auto text = as_text(bytes);
  std::string sentences;
  for (const auto& row : detail::list<&yoke_program_api::can_compile, yoke_verdict>(
           device.backend()->state(), device.name(), device.get(), &text)) {
    if (row.verdict < from || row.program >= module.programs.size()) {
      continue;
    }
    const auto& program = module.programs[row.program];
    sentences.append(sentences.empty() ? "" : "; ").append("program '" + program.name + "', statement ");
    sentences.append(std::to_string(row.statement + 1));
    if (row.statement < program.statements.size()) {
      sentences.append(" `" + program::print(program, program.statements[row.statement]) + "`");
    }
    sentences.append(": ").append(text_of(row.reason));
  }
  return sentences;
}

// Says which statements a backend does not run, where it can say so; otherwise gives back what it said first.
[[noreturn]] void throw_compile_error(const Device& device, const program::Module& module,
                                      const std::string& bytes, std::int32_t code,
                                      const detail::Status& status) {
  std::string unsupported;
  if (code == YOKE_UNIMPLEMENTED) {
    try {
      unsupported = verdict_text(device, module, bytes, YOKE_VERDICT_UNSUPPORTED);
    } catch (const Error&) {  // the first error says more than one about the question
    }
  }
  if (unsupported.empty()) {
    throw detail::make_error(device.name(), "code_compile", code, status);
  }
  throw Error(ErrorCode::kUnimplemented, device.name() + ": the backend does not run " + unsupported +
                                             "; rewrite the statement, or use another backend");
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
      info.byte_count == declared.byte_count();
  if (!agrees) {
    throw_mismatch(device, "code_argument",
                   "describes argument '" + declared.name + "' otherwise than the program");
  }
  return {.name = declared.name,
          .type = info.type,
          .access = info.access,
          .dims = declared.dims,
          .byte_count = info.byte_count};
}

// What the backend says of an entry must be what the program says: bindings and launches are checked against
// it later.
Code::Entry describe_entry(const Device& device, yoke_code* code, std::uint32_t number,
                           const program::Program& program) {
  yoke_entry_info info{};
  info.struct_size = sizeof(info);
  detail::call<&yoke_program_api::code_describe>(device, code, number, &info);
  const auto arguments = program.arguments();
  if (text_of(info.name) != program.name || info.argument_count != arguments.size() ||
      info.symbol_count != program.symbols.size()) {
    throw_mismatch(device, "code_describe",
                   "describes entry '" + program.name + "' otherwise than the program");
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
  for (const auto& symbol : program.symbols) {
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

Code::Code(std::shared_ptr<Device> device, std::string text)
    : device_(std::move(device)), text_(std::move(text)) {}

Code::~Code() {
  detail::destroy<&yoke_program_api::code_destroy>(device_->backend()->state(), handle_);
}

std::uint32_t Code::entry_number(std::string_view name) const {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].name == name) {
      return i;
    }
  }
  std::string known;
  for (const auto& one : entries_) {
    known.append(known.empty() ? "" : ", ").append(one.name);
  }
  throw Error(ErrorCode::kNotFound,
              device_->name() + ": the code has no program '" + std::string(name) + "': it has " + known);
}

const Code::Entry& Code::entry(std::string_view name) const {
  return entries_[entry_number(name)];
}

std::shared_ptr<const Code> compile(const std::shared_ptr<Device>& device, std::string_view program_text) {
  const auto& backend = *device->backend();
  auto module = read_program(*device, program_text);
  if (!backend.has_programs()) {
    throw Error(ErrorCode::kUnimplemented, device->name() + ": compile: the backend '" + backend.name() +
                                               "' does not run programs (it offers no " YOKE_PROGRAM_TABLE
                                               "): compile for a backend that does, such as cc");
  }
  auto& runtime = *backend.state().runtime;
  return runtime.codes->get(*device, program::fingerprint(module), [&] {
    for (auto& program : module.programs) {
      program = passes::optimize(std::move(program));
    }
    std::shared_ptr<Code> code(new Code(device, program::print(module)));
    const auto text = as_text(code->text_);
    if (runtime.logger.logs(LogLevel::kDebug)) {
      runtime.logger.log(LogLevel::kDebug,
                         "code.verdicts device=" + device->name() + " not_native=\"" +
                             verdict_text(*device, module, code->text_, YOKE_VERDICT_DECOMPOSED) + "\"");
    }
    ++runtime.compile_count;
    detail::Status status;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = detail::attempt<&yoke_program_api::code_compile>(
        backend.state(), status, device->get(), &text, &code->handle_);
    if (result != YOKE_OK) {
      throw_compile_error(*device, module, code->text_, result, status);
    }
    std::uint32_t entry_count = 0;
    detail::call<&yoke_program_api::code_entry_count>(*device, code->handle_, &entry_count);
    if (entry_count != module.programs.size()) {
      throw_mismatch(*device, "code_entry_count",
                     "gives another number of entries than the text has programs");
    }
    for (std::uint32_t i = 0; i < entry_count; ++i) {
      code->entries_.push_back(describe_entry(*device, code->handle_, i, module.programs[i]));
    }
    if (runtime.logger.logs(LogLevel::kDebug)) {
      const auto spent = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
      runtime.logger.log(LogLevel::kDebug, "code.compile device=" + device->name() +
                                               " programs=" + std::to_string(entry_count) +
                                               " ms=" + std::to_string(spent.count()));
    }
    return std::shared_ptr<const Code>(std::move(code));
  });
}

}  // namespace yoke
