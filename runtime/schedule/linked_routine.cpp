// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/linked_routine.cpp: binds arguments to tensors once; a run
// only checks the merge buffer and queues the launch.
#include <algorithm>

#include "schedule/context_impl.h"

namespace yoke {

namespace {

std::string argument_text(const ArgumentInfo& argument) {
  return "argument '" + argument.name + "' is " + detail::spec_text(argument.type, argument.dims);
}

// Finds the tensors that arguments are bound to, and reports mismatches.
class Linker {
 public:
  Linker(const Code::Entry& entry, const std::map<std::string, std::string>& rename, std::string where)
      : entry_(entry), rename_(rename), where_(std::move(where)) {
    for (const auto& [argument, tensor] : rename) {
      if (!is_argument(argument)) {
        refuse(ErrorCode::kInvalidArgument, "no argument '" + argument + "' to rename; " + argument_names());
      }
    }
  }

  [[noreturn]] void refuse(ErrorCode code, const std::string& reason) const {
    throw Error(code, where_ + ": link of '" + entry_.name + "': " + reason);
  }

  const std::string& tensor_name(const ArgumentInfo& argument) const {
    const auto found = rename_.find(argument.name);
    return found == rename_.end() ? argument.name : found->second;
  }

  bool is_argument(std::string_view name) const { return find(name) != nullptr; }

  const ArgumentInfo* find(std::string_view name) const {
    const auto found = std::find_if(entry_.arguments.begin(), entry_.arguments.end(),
                                    [&](const ArgumentInfo& argument) { return argument.name == name; });
    return found == entry_.arguments.end() ? nullptr : &*found;
  }

  void check_merge(std::string_view name, const std::string& node, const TensorSpec& spec) const {
    const ArgumentInfo* argument = find(name);
    if (argument == nullptr) {
      refuse(ErrorCode::kInvalidArgument,
             "no argument '" + std::string(name) + "' to merge from; " + argument_names());
    }
    if (argument->access != YOKE_ACCESS_IN) {
      refuse(ErrorCode::kInvalidArgument,
             "argument '" + argument->name + "' is written; a merged argument must be read only");
    }
    const auto stated = rename_.find(argument->name);
    if (stated != rename_.end() && stated->second != node) {
      refuse(ErrorCode::kFailedPrecondition, "argument '" + argument->name + "' merges '" + stated->second +
                                                 "', but the transfer copies '" + node + "'");
    }
    check_spec(*argument, node, spec);
  }

  std::string argument_names() const {
    std::string text;
    for (const ArgumentInfo& argument : entry_.arguments) {
      text += (text.empty() ? "'" : ", '") + argument.name + "'";
    }
    return text.empty() ? "it has no arguments" : "its arguments are " + text;
  }

  void check_spec(const ArgumentInfo& argument, const std::string& tensor, const TensorSpec& spec) const {
    if (argument.type != spec.type || argument.dims != spec.dims) {
      refuse(ErrorCode::kInvalidArgument, argument_text(argument) + ", but tensor '" + tensor + "' is " +
                                              detail::spec_text(spec.type, spec.dims));
    }
  }

 private:
  const Code::Entry& entry_;
  const std::map<std::string, std::string>& rename_;
  std::string where_;
};

template <class Impl>
const Impl& held(const std::shared_ptr<const Impl>& impl) {
  if (impl == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the LinkedRoutine is empty; create it with Context::link");
  }
  return *impl;
}

// `transfer` is null for an empty Transfer.
template <class Impl, class Stream>
void check_transfer(const Linker& linker, std::string_view argument, const Impl* transfer,
                    const Stream* stream) {
  if (transfer == nullptr || transfer->use == MergeUse::kNone) {
    linker.refuse(ErrorCode::kInvalidArgument,
                  "the transfer for '" + std::string(argument) +
                      "' is empty or a plain copy; use one with kCopy or kStreaming");
  }
  linker.check_merge(argument, *transfer->node, transfer->spec);
  if (transfer->stream.get() != stream) {
    linker.refuse(ErrorCode::kFailedPrecondition, "the transfer of '" + *transfer->node + "' is to stream '" +
                                                      transfer->stream->name() +
                                                      "', but the routine runs on another");
  }
}

}  // namespace

LinkedRoutine Context::link(const std::shared_ptr<const Code>& code, std::string_view entry,
                            const std::map<std::string, std::string>& rename,
                            std::shared_ptr<Buffer> workspace) const {
  return link(code, entry, {}, Transfer(), rename, std::move(workspace));
}

LinkedRoutine Context::link_merge(const std::shared_ptr<const Code>& code, std::string_view entry,
                                  std::string_view merge_argument, const Transfer& source,
                                  const std::map<std::string, std::string>& rename) const {
  return link(code, entry, merge_argument, source, rename, nullptr);
}

LinkedRoutine Context::link(const std::shared_ptr<const Code>& code, std::string_view entry,
                            std::string_view merge_argument, const Transfer& source,
                            const std::map<std::string, std::string>& rename,
                            std::shared_ptr<Buffer> workspace) const {
  if (code == nullptr) {
    impl().refuse(ErrorCode::kInvalidArgument, "link of '" + std::string(entry) + "': the code is null");
  }
  const std::uint32_t number = code->entry_number(entry);
  const Code::Entry& described = code->entries()[number];
  const Linker linker(described, rename, "context on stream '" + impl().stream->name() + "'");
  if (!code->device()->is_same(*impl().stream->device())) {
    linker.refuse(ErrorCode::kInvalidArgument, "it was compiled for device '" + code->device()->name() +
                                                   "', but the context is on '" +
                                                   impl().stream->device()->name() + "'");
  }

  const Transfer::Impl* transfer = source.impl_.get();
  if (!merge_argument.empty()) {
    check_transfer(linker, merge_argument, transfer, impl().stream.get());
  }

  auto linked = std::make_shared<LinkedRoutine::Impl>(LinkedRoutine::Impl{*this, {}, {}, {}, {}, {}, {}});
  std::vector<BufferView> bindings;
  std::string missing;
  for (const ArgumentInfo& argument : described.arguments) {
    const std::string& name = linker.tensor_name(argument);
    if (argument.name == merge_argument) {
      linked->merge_node = *transfer->node;
      linked->merge_source = transfer->dst;
      bindings.push_back(transfer->dst);
      continue;
    }
    const ContextTensor* tensor = impl().find(name);
    if (tensor == nullptr) {
      missing += (missing.empty() ? "'" : ", '") + name + "'";
      continue;
    }
    linker.check_spec(argument, name, tensor->spec);
    bindings.push_back(tensor->view);
    if (argument.access != YOKE_ACCESS_OUT) {
      (impl().is_constant(name) ? linked->constants : linked->inputs).push_back(name);
    }
    if (argument.access != YOKE_ACCESS_IN) {
      impl().require_variable(name);
      linked->outputs.push_back(name);
    }
  }
  if (!missing.empty()) {
    linker.refuse(ErrorCode::kNotFound, "it needs the tensors " + missing +
                                            ", which the context lacks; allocate or adopt them first" +
                                            impl().listing());
  }
  linked->routine = Routine::link(code, number, std::move(bindings), std::move(workspace));
  LinkedRoutine result;
  result.impl_ = std::move(linked);
  return result;
}

void LinkedRoutine::run(std::span<const std::int64_t> symbol_values) const {
  const Impl& impl = held(impl_);
  if (impl.merge_node) {
    const detail::MergeContent& content = stream()->state().merge_content;
    const bool is_same_node = content.node != nullptr && *content.node == *impl.merge_node;
    if (!is_same_node || content.buffer != impl.merge_source.buffer.get() ||
        content.offset != impl.merge_source.offset) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "stream '" + stream()->name() + "': launch of '" + name() + "': it merges '" +
                      *impl.merge_node + "', but the merge buffer holds " +
                      (content.node == nullptr ? "nothing"
                       : is_same_node          ? "a '" + *content.node + "' from another source"
                                               : "'" + *content.node + "'") +
                      "; run its transfer first");
    }
  }
  stream()->launch(*impl.routine, symbol_values);
}

const std::vector<SymbolInfo>& LinkedRoutine::symbols() const {
  return held(impl_).routine->entry().symbols;
}
const std::string& LinkedRoutine::name() const {
  return held(impl_).routine->entry().name;
}
const std::vector<std::string>& LinkedRoutine::inputs() const {
  return held(impl_).inputs;
}
const std::vector<std::string>& LinkedRoutine::constants() const {
  return held(impl_).constants;
}
const std::vector<std::string>& LinkedRoutine::outputs() const {
  return held(impl_).outputs;
}
const std::optional<std::string>& LinkedRoutine::merge_node() const {
  return held(impl_).merge_node;
}
const Context& LinkedRoutine::context() const {
  return held(impl_).context;
}
const std::shared_ptr<Stream>& LinkedRoutine::stream() const {
  return held(impl_).context.stream();
}
const Routine& LinkedRoutine::routine() const {
  return *held(impl_).routine;
}

}  // namespace yoke
