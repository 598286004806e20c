// SPDX-License-Identifier: Apache-2.0
// runtime/device/routine.cpp: code bound to buffers: every binding is checked here, so a launch checks
// nothing but symbols.
#include <yoke/program/program.h>
#include <yoke/runtime/stream.h>

#include <utility>

#include "device/call.h"
#include "schedule/fallback_routine.h"
#include "schedule/routine_access.h"

namespace yoke {
namespace {

[[noreturn]] void refuse(const Code& code, const Code::Entry& entry, const std::string& reason,
                         ErrorCode error = ErrorCode::kInvalidArgument) {
  throw Error(error, code.device()->name() + ": link of '" + entry.name + "': " + reason);
}

void check_binding(const Code& code, const Code::Entry& entry, const ArgumentInfo& argument,
                   const BufferView& view) {
  const std::string name = "argument '" + argument.name + "'";
  if (!view.buffer) {
    refuse(code, entry, name + " has no buffer: bind one");
  }
  const std::uint64_t capacity = view.buffer->byte_count();
  if (view.offset > capacity || view.byte_count > capacity - view.offset) {
    refuse(code, entry,
           name + " is bound to bytes " + std::to_string(view.offset) + " to " +
               std::to_string(view.offset + view.byte_count) + " of a buffer of " + std::to_string(capacity) +
               ": bind a part that lies in it",
           ErrorCode::kOutOfRange);
  }
  if (view.byte_count < argument.byte_count) {
    refuse(code, entry,
           name + " needs " + std::to_string(argument.byte_count) + " bytes and is bound to " +
               std::to_string(view.byte_count) + ": bind a larger part",
           ErrorCode::kOutOfRange);
  }
  const std::uint64_t element = program::byte_size(static_cast<program::Type>(argument.type));
  if (view.offset % element != 0) {
    refuse(code, entry,
           name + " begins at byte " + std::to_string(view.offset) + ", which is no multiple of its " +
               std::to_string(element) + "-byte elements: bind it to an aligned offset");
  }
  const Device& here = *code.device();
  const Device& there = *view.buffer->device();
  if (!here.can_access(there)) {
    refuse(code, entry,
           name + " is bound to memory of " + there.name() + ", which " + here.name() +
               " cannot use in place: copy it there first");
  }
}

void check_overlap(const Code& code, const Code::Entry& entry, const std::vector<BufferView>& views) {
  const auto& arguments = entry.arguments;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (arguments[i].access == YOKE_ACCESS_IN) {
      continue;
    }
    for (std::size_t j = 0; j < views.size(); ++j) {
      const bool apart = views[i].buffer != views[j].buffer ||
                         views[i].offset + arguments[i].byte_count <= views[j].offset ||
                         views[j].offset + arguments[j].byte_count <= views[i].offset;
      if (i != j && !apart) {
        refuse(code, entry,
               "argument '" + arguments[i].name + "' is written and shares bytes with argument '" +
                   arguments[j].name + "': bind them to separate memory");
      }
    }
  }
}

}  // namespace

std::shared_ptr<const Routine> Routine::link(std::shared_ptr<const Code> code, std::uint32_t entry,
                                             std::vector<BufferView> bindings) {
  if (entry >= code->entries().size()) {
    throw Error(ErrorCode::kOutOfRange, code->device()->name() + ": link: there is no entry " +
                                            std::to_string(entry) + ": the code has " +
                                            std::to_string(code->entries().size()));
  }
  const auto& described = code->entries()[entry];
  if (bindings.size() != described.arguments.size()) {
    refuse(*code, described,
           "it has " + std::to_string(described.arguments.size()) + " arguments and got " +
               std::to_string(bindings.size()) + " bindings: bind each argument once");
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    check_binding(*code, described, described.arguments[i], bindings[i]);
  }
  check_overlap(*code, described, bindings);
  return {new Routine(std::move(code), entry, std::move(bindings)), &Routine::end};
}

Routine::Routine(std::shared_ptr<const Code> code, std::uint32_t entry, std::vector<BufferView> bindings)
    : code_(std::move(code)), entry_(entry), bindings_(std::move(bindings)) {
  if (code_->fallback() != nullptr) {
    fallback_ = std::make_unique<detail::FallbackRoutine>(*code_, entry, bindings_);
  }
  access_ = std::make_unique<detail::RoutineAccess>(
      code_->entries()[entry], bindings_, fallback_ ? fallback_->versions() : std::span<detail::Versions>());
  if (fallback_ != nullptr) {
    return;
  }
  const auto& device = code_->device();
  const auto workspace_byte_count = code_->entries()[entry].workspace_byte_count;
  if (workspace_byte_count > 0) {
    workspace_ = std::make_shared<Buffer>(device, workspace_byte_count);
  }
  std::vector<yoke_binding> raw;
  for (const auto& view : bindings_) {
    raw.push_back({view.buffer->get(), view.offset});
  }
  detail::call<&yoke_program_api::routine_link>(
      *device, code_->get(), entry_, static_cast<const yoke_binding*>(raw.data()),
      static_cast<std::uint32_t>(raw.size()), workspace_ ? workspace_->get() : nullptr, std::uint64_t{0},
      &handle_);
}

Routine::~Routine() {
  detail::destroy<&yoke_program_api::routine_destroy>(code_->device()->backend()->state(), handle_);
}

void Routine::end(const Routine* routine) {
  const Device& device = *routine->code_->device();
  auto& runtime = *device.backend()->state().runtime;
  if (routine->access_->launches.wait_all(runtime.options.wait_timeout)) {
    delete routine;
    return;
  }
  // Leaked, like a buffer in use: the launch will look at the routine when its turn comes.
  runtime.logger.log(LogLevel::kError, "routine.leak device=" + device.name() +
                                           " program=" + routine->entry().name +
                                           " reason=\"a launch is still queued after wait_timeout\"");
}

}  // namespace yoke
