// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/context.h: named tensors on one stream's device, routines linked against them,
// merge buffers.
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
  std::int32_t type = YOKE_F32;  // YOKE_F32 ...
  std::vector<std::uint64_t> dims;
  std::uint64_t byte_count() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// A tensor as a context knows it.
struct ContextTensor {
  TensorSpec spec;
  BufferView view;
};

// How a stream receives another shard's tensor to merge it.
enum class MergeUse {
  kNone,      // a plain copy into the destination's own tensor of that name
  kCopy,      // copied into the stream's merge buffer
  kStreaming  // read in place where the device can reach the source; else as kCopy
};

class Context;

// A linked routine with its stream and the tensors it touches.
class LinkedRoutine {
 public:
  // Queues it. Values by position, in the order of symbols(). When it consumes a merge buffer: throws
  // kFailedPrecondition unless the stream's merge buffer holds just that node.
  void run(std::span<const std::int64_t> symbol_values = {}) const;
  const std::vector<SymbolInfo>& symbols() const;
  const std::string& name() const;
  const std::vector<std::string>& inputs() const;   // tensors read
  const std::vector<std::string>& outputs() const;  // tensors written
  const std::optional<std::string>& merge_node() const;
  const std::shared_ptr<Stream>& stream() const;
  const Routine& routine() const;

 private:
  friend class Context;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// A copy between contexts, linked once. Does nothing until it is run.
class Transfer {
 public:
  void run() const;      // queued on the destination's stream
  MergeUse use() const;  // what it became: kStreaming may have fallen back to kCopy

 private:
  friend class Context;
  friend Transfer device_to_device(std::string_view, MergeUse, const Context&, const Context&);
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// The named tensors that live on one stream's device. A child sees its parent's. A cheap handle; not
// thread-safe ([stream-serial]).
class Context {
 public:
  explicit Context(std::shared_ptr<Stream> stream);
  Context child() const;  // same stream; new tensors go to the child only

  const std::shared_ptr<Stream>& stream() const;
  bool has(std::string_view name) const;                     // here or in a parent
  const ContextTensor& tensor(std::string_view name) const;  // Error kNotFound names the context's tensors
  std::vector<std::string> names() const;                    // here and in parents, sorted

  // Error kAlreadyExists when this context (not a parent) has the name.
  const ContextTensor& allocate(std::string_view name, const TensorSpec& spec);
  // A tensor in memory that somebody else made (shared replicas, slices).
  const ContextTensor& adopt(std::string_view name, const TensorSpec& spec, BufferView view);

  // Copies of whole tensors, queued on the stream. Byte counts are checked.
  void from_host(std::string_view name, std::span<const std::byte> bytes) const;
  void to_host(std::string_view name, std::span<std::byte> bytes) const;
  const ContextTensor& init_from_host(std::string_view name, const TensorSpec& spec,
                                      std::span<const std::byte> bytes);
  const ContextTensor& init_from_device(std::string_view name, const Context& src);

  // Binds an entry's arguments to tensors of the same name, or to the name that `rename` gives for an
  // argument; types and shapes must agree. Missing tensors: kNotFound names them.
  LinkedRoutine link(const std::shared_ptr<const Code>& code, std::string_view entry,
                     const std::map<std::string, std::string>& rename = {}) const;
  // As link, with `merge_argument` (only read) bound to where `source`, a transfer to this stream, puts its
  // tensor: the merge buffer, or the source's memory itself when it streams. The routine accepts only that
  // node, from that source. Where `rename` has an entry for merge_argument it states the node expected: a
  // transfer of another one is refused (kFailedPrecondition names both).
  LinkedRoutine link_merge(const std::shared_ptr<const Code>& code, std::string_view entry,
                           std::string_view merge_argument, const Transfer& source,
                           const std::map<std::string, std::string>& rename = {}) const;

 private:
  friend Transfer device_to_device(std::string_view, MergeUse, const Context&, const Context&);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Links a copy of tensor `name` from `src`'s context to `dst`'s. Error kNotFound when `src` lacks it (or
// `dst`, with kNone). kCopy and kStreaming set the merge buffer of dst's stream to the node when run.
Transfer device_to_device(std::string_view name, MergeUse use, const Context& dst, const Context& src);

}  // namespace yoke
