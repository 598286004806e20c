// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/routine.cpp: links code with buffers. All bindings are
// checked here, so that a launch checks only symbols.
#include <yoke/program/program.h>
#include <yoke/runtime/stream.h>

#include <utility>

#include "device/call.h"
#include "schedule/fallback_routine.h"
#include "schedule/range.h"
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
    refuse(code, entry, name + " has no buffer");
  }
  if (!detail::is_in_range(view)) {
    refuse(code, entry, name + ": " + detail::range_text(view), ErrorCode::kOutOfRange);
  }
  if (view.byte_count < argument.byte_count) {
    refuse(code, entry,
           name + " needs " + detail::counted(argument.byte_count, "byte") + " but is bound to " +
               std::to_string(view.byte_count),
           ErrorCode::kOutOfRange);
  }
  // 0 for the runtime's own buffers: they start at a multiple of every alignment.
  const std::uint64_t start = view.buffer->import_address();
  if ((start + view.offset) % argument.alignment != 0) {
    refuse(code, entry,
           name + " is bound at offset " + std::to_string(view.offset) +
               (start == 0 ? "" : " of imported memory at address " + std::to_string(start)) +
               ", but needs an alignment of " + std::to_string(argument.alignment) + " bytes");
  }
  const Device& here = *code.device();
  const Device& there = *view.buffer->device();
  if (!here.can_access(there)) {
    refuse(code, entry,
           name + " is bound to memory of " + there.name() + ", which " + here.name() +
               " cannot access; copy it to " + here.name() + " first");
  }
}

void check_overlap(const Code& code, const Code::Entry& entry, const std::vector<BufferView>& views) {
  const auto& arguments = entry.arguments;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (arguments[i].access == YOKE_ACCESS_IN) {
      continue;
    }
    for (std::size_t j = 0; j < views.size(); ++j) {
      const bool disjoint = views[i].buffer != views[j].buffer ||
                            views[i].offset + arguments[i].byte_count <= views[j].offset ||
                            views[j].offset + arguments[j].byte_count <= views[i].offset;
      if (i != j && !disjoint) {
        refuse(code, entry,
               "argument '" + arguments[i].name + "' is written and overlaps argument '" + arguments[j].name +
                   "'; bind them to separate memory");
      }
    }
  }
}

void check_workspace(const Code& code, const Code::Entry& entry, const std::vector<BufferView>& views,
                     const std::shared_ptr<Buffer>& workspace) {
  if (workspace->byte_count() < entry.workspace_byte_count) {
    refuse(code, entry,
           "the workspace has " + detail::counted(workspace->byte_count(), "byte") + ", but " +
               std::to_string(entry.workspace_byte_count) + " are needed",
           ErrorCode::kOutOfRange);
  }
  if (!code.device()->is_same(*workspace->device())) {
    refuse(code, entry,
           "the workspace is on '" + workspace->device()->name() + "', but the code is for '" +
               code.device()->name() + "'");
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].buffer == workspace) {
      refuse(code, entry, "argument '" + entry.arguments[i].name + "' is bound to the workspace");
    }
  }
}

}  // namespace

std::shared_ptr<const Routine> Routine::link(std::shared_ptr<const Code> code, std::uint32_t entry,
                                             std::vector<BufferView> bindings,
                                             std::shared_ptr<Buffer> workspace) {
  if (code == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "Routine::link: the code is null");
  }
  const auto& entries = code->entries();
  if (entry >= entries.size()) {
    throw Error(ErrorCode::kOutOfRange, code->device()->name() + ": link: entry " + std::to_string(entry) +
                                            " is out of range [0, " + std::to_string(entries.size()) + ")");
  }
  const auto& described = entries[entry];
  if (bindings.size() != described.arguments.size()) {
    refuse(*code, described,
           detail::counted(described.arguments.size(), "binding") +
               (described.arguments.size() == 1 ? " is" : " are") + " required, " +
               std::to_string(bindings.size()) + (bindings.size() == 1 ? " was given" : " were given"));
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    check_binding(*code, described, described.arguments[i], bindings[i]);
  }
  check_overlap(*code, described, bindings);
  if (workspace != nullptr) {
    check_workspace(*code, described, bindings, workspace);
  }
  return {new Routine(std::move(code), entry, std::move(bindings), std::move(workspace)), &Routine::end};
}

Routine::Routine(std::shared_ptr<const Code> code, std::uint32_t entry, std::vector<BufferView> bindings,
                 std::shared_ptr<Buffer> shared_workspace)
    : code_(std::move(code)), entry_(entry), bindings_(std::move(bindings)) {
  if (code_->fallback() != nullptr) {
    fallback_ = std::make_unique<detail::FallbackRoutine>(*code_, entry, bindings_);
  }
  const auto& device = code_->device();
  const auto workspace_byte_count = code_->entries()[entry].workspace_byte_count;
  const bool needs_workspace = workspace_byte_count > 0;  // never for a fallback
  const bool is_shared = shared_workspace != nullptr;
  if (needs_workspace) {
    workspace_ =
        is_shared ? std::move(shared_workspace) : std::make_shared<Buffer>(device, workspace_byte_count);
  }
  access_ = std::make_unique<detail::RoutineAccess>(
      code_->entries()[entry], bindings_, is_shared ? workspace_.get() : nullptr,
      fallback_ ? fallback_->versions() : std::span<detail::Versions>());
  if (fallback_ != nullptr) {
    return;
  }
  const auto binding_of = [](const BufferView& view) {
    return yoke_binding{view.buffer ? view.buffer->get() : nullptr, view.offset, view.byte_count, 0};
  };
  std::vector<yoke_binding> raw;
  for (const auto& view : bindings_) {
    raw.push_back(binding_of(view));
  }
  const yoke_binding workspace = binding_of({workspace_, 0, workspace_byte_count});
  yoke_link_args args{};
  args.struct_size = sizeof(args);
  args.bindings = raw.data();
  args.binding_count = static_cast<std::uint32_t>(raw.size());
  args.binding_stride = sizeof(yoke_binding);
  args.workspace = workspace_ ? &workspace : nullptr;
  args.entry = entry_;
  detail::call<&yoke_program_api::routine_link>(*device, code_->get(), &args, &handle_);
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
  // Leaked, like a buffer in use: the pending launch reads the routine later.
  runtime.log_leak([&] {
    return "routine.leak device=" + device.name() + " program=" + routine->entry().name +
           " reason=\"a launch is still pending after the wait timeout\"";
  });
}

}  // namespace yoke
