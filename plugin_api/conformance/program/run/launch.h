// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/launch.h: runs one program on the device, with guard bytes around
// its memory, and compares the results with the reference executor.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../case.h"
#include "../evaluate.h"
#include "kit.h"

namespace yoke::conformance {

inline constexpr std::uint64_t kGuardByteCount = 256;
inline constexpr std::byte kGuardByte{0xA5};

yoke_argument_info describe_argument(Device& device, const Code& code, std::uint32_t entry,
                                     std::uint32_t argument);

// Fails if the plugin describes an entry or its arguments differently than the program does.
void check_description(Device& device, const Code& code, std::uint32_t entry, const Case& one);

// Throws Unsupported with the plugin's reason if a statement of the text is unsupported.
void require_supported(const Device& device, std::string_view text, std::size_t statement_count);

// The number of the first text whose statements are supported; each text has `statement_count` of them. Throws
// Unsupported, with the plugin's reason for the last text, if it supports none of them.
std::size_t first_supported(const Device& device, std::span<const std::string_view> texts,
                            std::size_t statement_count);

// Device memory for one program: its arguments in one to three buffers, separated by guard bytes, some at
// odd multiples of the alignment that the entry states; and a workspace of the size that the entry needs.
class Arena {
 public:
  // Each `layout` has different offsets. Takes buffers from `pool`; the destructor returns them.
  struct Pool {
    std::vector<Buffer> buffers;
  };
  Arena(Device& device, Pool& pool, const Case& one, const Code& code, std::uint32_t entry,
        std::uint64_t workspace_byte_count, std::uint64_t layout);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const std::vector<yoke_binding>& bindings() const { return bindings_; }
  yoke_binding workspace() const {
    return workspace_ < 0 ? yoke_binding{}
                          : yoke_binding{buffers_[static_cast<std::size_t>(workspace_)].get(),
                                         workspace_offset_, places_.back().byte_count, 0};
  }

  // Writes guards, poison and the initial bytes of the arguments.
  void upload(const std::vector<Bytes>& arguments);
  // Returns the current bytes of every argument. Fails if a guard or an `in` argument has changed.
  std::vector<Bytes> download();

 private:
  struct Place {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
    bool is_input = false;
    std::string name;
  };
  std::size_t take(std::uint64_t byte_count);
  void check_guards(std::size_t buffer, const Bytes& now) const;
  // Fails with the place of a byte that must not change.
  [[noreturn]] void fail_written(std::size_t buffer, std::size_t at) const;

  Device& device_;
  Pool& pool_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint64_t> used_;  // bytes of each buffer that this program uses
  std::vector<Bytes> images_;        // the uploaded contents of each buffer
  std::vector<Place> places_;        // one per argument, then the workspace
  std::vector<yoke_binding> bindings_;
  std::int64_t workspace_ = -1;
  std::uint64_t workspace_offset_ = 0;
};

Routine link(const Plugin& plugin, const Code& code, std::uint32_t entry, const Arena& arena);

}  // namespace yoke::conformance
