// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/context.h: named tensors on one stream's
// device, routines linked with them, and merge buffers.
#pragma once

#include <yoke/runtime/stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

struct TensorSpec {
  std::int32_t type = YOKE_TYPE_F32;
  std::vector<std::uint64_t> dims = {};
  // 0 for an unknown type. Throws Error kInvalidArgument: 2^63 bytes or more.
  std::uint64_t byte_count() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

struct ContextTensor {
  TensorSpec spec;
  BufferView view;
};

// How a stream receives another shard's tensor to merge it.
enum class MergeUse {
  kNone,      // copied into the destination's tensor of the same name
  kCopy,      // copied into the stream's merge buffer
  kStreaming  // read in place if the device can access the source, else as kCopy
};

// What a child context on another stream may do with its parent's tensors.
enum class ChildAccess { kRead, kReadWrite };

class Context;

// A linked routine, its stream, and the tensors that it reads and writes. Throws Error kFailedPrecondition if
// it is empty: default-constructed, or moved from.
class LinkedRoutine {
 public:
  // Queues a launch. `symbol_values` are in the order of symbols(). Precondition, else
  // kFailedPrecondition: if the routine merges a node, the stream's merge buffer holds that node from the
  // transfer it was linked with.
  void run(std::span<const std::int64_t> symbol_values = {}) const;
  const std::vector<SymbolInfo>& symbols() const;
  const std::string& name() const;
  const std::vector<std::string>& inputs() const;     // tensors read, except constants
  const std::vector<std::string>& constants() const;  // tensors read that were constants when it was linked
  const std::vector<std::string>& outputs() const;    // tensors written
  const std::optional<std::string>& merge_node() const;
  const Context& context() const;  // that it was linked in; its tensors live as long as the routine
  const std::shared_ptr<Stream>& stream() const;
  const Routine& routine() const;

 private:
  friend class Context;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// A copy between contexts, linked once and run many times. An empty one throws Error kFailedPrecondition.
class Transfer {
 public:
  // False for an empty Transfer.
  explicit operator bool() const { return impl_ != nullptr; }
  // Queues the copy on the destination's stream.
  void run() const;
  // kCopy if kStreaming was requested but the destination cannot access the source.
  MergeUse use() const;

 private:
  friend class Context;
  friend Transfer device_to_device(std::string_view, MergeUse, const Context&, const Context&);
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// The named tensors on one stream's device. A child context also has its parent's tensors. Contexts are
// cheap handles, and not thread-safe ([stream-serial]). A moved-from Context throws Error kFailedPrecondition.
class Context {
 public:
  // Throws Error kInvalidArgument if the stream is null.
  explicit Context(std::shared_ptr<Stream> stream);
  // On the same stream. Tensors added to the child are not added to the parent.
  Context child() const;
  // On another stream of the same device. The parent's tensors belong to the parent's stream: with kRead, linking or
  // queuing work that writes one of them throws Error kFailedPrecondition. The streams are ordered in either case.
  // Throws Error kInvalidArgument if the stream is null, or of another device.
  Context child(std::shared_ptr<Stream> stream, ChildAccess access = ChildAccess::kRead) const;

  const std::shared_ptr<Stream>& stream() const;
  // In this context or a parent.
  bool has(std::string_view name) const;
  // Throws Error kNotFound, which lists the context's tensors.
  const ContextTensor& tensor(std::string_view name) const;
  // Of this context and its parents, sorted.
  std::vector<std::string> names() const;

  // Throws Error kAlreadyExists if this context, not only a parent, has a tensor of that name. Uses the memory of
  // `old_buffer` instead of new memory if it is large enough and the device can access it.
  const ContextTensor& allocate(std::string_view name, const TensorSpec& spec,
                                const std::shared_ptr<Buffer>& old_buffer = nullptr);
  // Adds a tensor in existing memory, for shared replicas and slices. A larger view's other bytes become the
  // tensor's padding: no other tensor may use them.
  const ContextTensor& adopt(std::string_view name, const TensorSpec& spec, BufferView view);
  // Makes a tensor of this context or a parent a constant, such as the data of a literal: from now on, only from_host
  // writes it, and linking work that writes it throws Error kFailedPrecondition. Throws kNotFound, as tensor() does.
  void set_constant(std::string_view name) const;

  // Queue copies of whole tensors on the stream. Precondition: the byte counts are equal.
  void from_host(std::string_view name, std::span<const std::byte> bytes) const;
  void to_host(std::string_view name, std::span<std::byte> bytes) const;
  const ContextTensor& init_from_host(std::string_view name, const TensorSpec& spec,
                                      std::span<const std::byte> bytes);
  const ContextTensor& init_from_device(std::string_view name, const Context& src);
  const ContextTensor& init_zeros(std::string_view name, const TensorSpec& spec);

  // Binds each argument of the entry to the tensor of the same name, or of the name in `rename`. Throws
  // Error kNotFound, which lists the missing tensors, or kInvalidArgument if a type or shape differs.
  // `workspace`: as for Routine::link.
  LinkedRoutine link(const std::shared_ptr<const Code>& code, std::string_view entry,
                     const std::map<std::string, std::string>& rename = {},
                     std::shared_ptr<Buffer> workspace = nullptr) const;
  // As link, with `merge_argument` bound to the destination of `source`, a transfer to this stream: the
  // merge buffer or, if it streams, the source's memory. The routine then accepts only that node from that
  // transfer. Precondition: `merge_argument` is only read. If `rename` has an entry for it, that is the
  // expected node, and a transfer of a different node is refused with kFailedPrecondition.
  LinkedRoutine link_merge(const std::shared_ptr<const Code>& code, std::string_view entry,
                           std::string_view merge_argument, const Transfer& source,
                           const std::map<std::string, std::string>& rename = {}) const;

 private:
  friend Transfer device_to_device(std::string_view, MergeUse, const Context&, const Context&);
  struct Impl;
  LinkedRoutine link(const std::shared_ptr<const Code>& code, std::string_view entry,
                     std::string_view merge_argument, const Transfer& source,
                     const std::map<std::string, std::string>& rename,
                     std::shared_ptr<Buffer> workspace) const;
  Impl& impl() const;
  std::shared_ptr<Impl> impl_;
};

// Links a copy of tensor `name` from `src` to `dst`. With kNone, returns an empty Transfer if `dst` has no such tensor.
// Throws Error kNotFound if `dst` has the tensor, or is to receive it in its merge buffer, but `src` does not have it.
// With kCopy and kStreaming, running the transfer puts the node into the merge buffer of dst's stream.
Transfer device_to_device(std::string_view name, MergeUse use, const Context& dst, const Context& src);

}  // namespace yoke
