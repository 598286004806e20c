// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/run/launch.h: one program on the device, with guards around everything, against
// the reference.
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
inline constexpr std::byte kPoisonByte{0xFF};  // NaN in every float type, an index far outside, no bool

// A program's text as it crosses; borrows `bytes`.
yoke_program_text crossing(std::string_view bytes);

// Compiles; Failed when the plugin refuses.
Code compile(Device& device, std::string_view text);
yoke_entry_info describe_entry(Device& device, const Code& code, std::uint32_t entry);
yoke_argument_info describe_argument(Device& device, const Code& code, std::uint32_t entry,
                                     std::uint32_t argument);

// Device memory for one program: its arguments in one to three buffers, between guards, some at odd offsets
// (multiples of the element's size), and a workspace of the size that the entry asks for.
class Arena {
 public:
  // `layout`: another number, other places. Buffers are taken from `pool` and come back with the destructor.
  struct Pool {
    std::vector<Buffer> buffers;
  };
  Arena(Device& device, Pool& pool, const Case& one, std::uint64_t workspace_byte_count,
        std::uint64_t layout);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const std::vector<yoke_binding>& bindings() const { return bindings_; }
  yoke_buffer* workspace() const {
    return workspace_ < 0 ? nullptr : buffers_[static_cast<std::size_t>(workspace_)].get();
  }
  std::uint64_t workspace_offset() const { return workspace_offset_; }

  // Guards, poison and the arguments' first bytes.
  void upload(const std::vector<std::vector<std::byte>>& arguments);
  // Every argument's bytes now; Failed where a guard or an `in` argument changed.
  std::vector<std::vector<std::byte>> download();

 private:
  struct Place {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
    bool is_input = false;
    std::string name;
  };
  std::size_t take(std::uint64_t byte_count);
  void check_guards(std::size_t buffer, const std::vector<std::byte>& now) const;

  Device& device_;
  Pool& pool_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint64_t> used_;             // bytes of each buffer that belong to this program
  std::vector<std::vector<std::byte>> images_;  // what was uploaded
  std::vector<Place> places_;                   // per argument; then the workspace
  std::vector<yoke_binding> bindings_;
  std::int64_t workspace_ = -1;
  std::uint64_t workspace_offset_ = 0;
};

Routine link(Device& device, const Code& code, std::uint32_t entry, const Arena& arena);

// Launches, on a stream where one is given, and waits.
void launch(Device& device, const Routine& routine, std::span<const std::int64_t> symbols, Stream* stream);

// What each argument starts with, in order of declaration.
std::vector<std::vector<std::byte>> initial_arguments(const Case& one);

// The arguments as the reference executor leaves them.
std::vector<std::vector<std::byte>> reference_results(const Case& one, std::span<const std::int64_t> symbols);

// Compares what the device answered; the text of the first mismatch, or nothing.
std::string compare_results(const Case& one, std::span<const std::int64_t> symbols,
                            const std::vector<std::vector<std::byte>>& got);

}  // namespace yoke::conformance
