// SPDX-License-Identifier: Apache-2.0
// runtime/layers/memory.cpp: memory is read by the kernel, so that an unmapped address is an error.
#include "layers/memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yoke::layers {

Hash hash_of(const void* memory, std::uint64_t byte_count) {
  const XXH128_hash_t hash = XXH3_128bits(memory, byte_count);
  return {hash.high64, hash.low64};
}

std::uint32_t checksum_of(const void* memory, std::uint64_t byte_count) {
  return static_cast<std::uint32_t>(XXH3_64bits(memory, byte_count));
}

bool copy_mapped(const void* memory, std::uint64_t byte_count, void* to) {
  const iovec target{to, byte_count};
  const iovec source{const_cast<void*>(memory), byte_count};  // process_vm_readv does not write to it
  const ssize_t count = ::process_vm_readv(::getpid(), &target, 1, &source, 1, 0);
  if (count < 0 && (errno == EPERM || errno == ENOSYS)) {  // forbidden in some sandboxes
    std::memcpy(to, memory, byte_count);
    return true;
  }
  return count == static_cast<ssize_t>(byte_count);
}

bool hash_mapped(const void* memory, std::uint64_t byte_count, Hash& hash) {
  constexpr std::uint64_t kBlock = std::uint64_t{64} * 1024;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  const auto block = std::make_unique<std::byte[]>(std::min(kBlock, byte_count));
  XXH3_128bits_reset(state.get());
  for (std::uint64_t done = 0; done < byte_count; done += kBlock) {
    const std::uint64_t count = std::min(kBlock, byte_count - done);
    if (!copy_mapped(static_cast<const std::byte*>(memory) + done, count, block.get())) {
      return false;
    }
    XXH3_128bits_update(state.get(), block.get(), count);
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(state.get());
  hash = {digest.high64, digest.low64};
  return true;
}

}  // namespace yoke::layers
