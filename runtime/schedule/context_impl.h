// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/context_impl.h: the data of contexts, linked routines and transfers.
#pragma once

#include <yoke/runtime/context.h>

#include <set>

#include "schedule/stream_state.h"

namespace yoke {

struct Context::Impl {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Impl> parent;
  bool only_reads_parent = false;
  std::map<std::string, ContextTensor, std::less<>> tensors;
  std::set<std::string, std::less<>> constants;  // names of such `tensors`

  const ContextTensor* find(std::string_view name) const;
  bool is_constant(std::string_view name) const;  // precondition: it exists
  // Error kFailedPrecondition: the tensor belongs to another stream. Precondition: it exists.
  void require_writable(std::string_view name) const;
  // For work other than from_host. Error kFailedPrecondition, as above, or the tensor is a constant.
  void require_variable(std::string_view name) const;
  // For messages: "; the context has 'a', 'b'", or, if a tensor is named almost as `wanted`, "; did you mean 'b'? The
  // context has 'a', 'b'".
  std::string listing(std::string_view wanted = {}) const;
  [[noreturn]] void refuse(ErrorCode code, const std::string& reason) const;
  void check_spec(std::string_view name, const TensorSpec& spec) const;
  void check_byte_count(const char* call, std::string_view name, const TensorSpec& spec,
                        std::size_t byte_count) const;
  const ContextTensor& add(std::string_view name, ContextTensor tensor);
};

struct LinkedRoutine::Impl {
  Context context;
  std::shared_ptr<const Routine> routine;
  std::vector<std::string> inputs;
  std::vector<std::string> constants;
  std::vector<std::string> outputs;
  std::optional<std::string> merge_node;
  BufferView merge_source;  // the merge buffer, or the source itself if it streams
};

struct Transfer::Impl {
  MergeUse use = MergeUse::kNone;
  std::shared_ptr<const std::string> node;
  TensorSpec spec;
  BufferView dst;  // kStreaming: the source itself
  BufferView src;
  std::shared_ptr<Stream> stream;  // of the destination
};

namespace detail {

std::string spec_text(std::int32_t type, const std::vector<std::uint64_t>& dims);  // "f32[2, 3]"

}  // namespace detail
}  // namespace yoke
