// SPDX-License-Identifier: Apache-2.0
// runtime/layers/hash.cpp: the only file that knows xxhash, which is used from its header alone.
#include "layers/hash.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yoke::layers {

Hash hash128(const void* memory, std::uint64_t byte_count) {
  const XXH128_hash_t hash = XXH3_128bits(memory, byte_count);
  return {hash.high64, hash.low64};
}

std::uint64_t hash_of(const void* memory, std::uint64_t byte_count) {
  return XXH3_64bits(memory, byte_count);
}

namespace {

// Hands pieces of the memory to `take`, read by the kernel: an address that is gone is an error then, and no
// signal.
template <class Take>
bool read_foreign(const void* memory, std::uint64_t byte_count, const Take& take) {
  constexpr std::uint64_t kBlock = std::uint64_t{64} * 1024;
  const auto block = std::make_unique<std::array<char, kBlock>>();
  for (std::uint64_t done = 0; done < byte_count;) {
    const std::uint64_t wanted = std::min(kBlock, byte_count - done);
    const char* const at = static_cast<const char*>(memory) + done;
    const iovec to{block->data(), wanted};
    // process_vm_readv takes a pointer that it does not write to.
    const iovec from{const_cast<char*>(at), wanted};
    const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
    if (got != static_cast<ssize_t>(wanted)) {
      if (got < 0 && (errno == EPERM || errno == ENOSYS)) {  // forbidden here: it is read as it is
        take(at, byte_count - done);
        return true;
      }
      return false;
    }
    take(block->data(), wanted);
    done += wanted;
  }
  return true;
}

}  // namespace

bool hash_of_foreign(const void* memory, std::uint64_t byte_count, std::uint64_t& hash) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const bool is_there = read_foreign(memory, byte_count, [&](const char* bytes, std::uint64_t count) {
    XXH3_64bits_update(state.get(), bytes, count);
  });
  hash = XXH3_64bits_digest(state.get());
  return is_there;
}

bool hash128_of_foreign(const void* memory, std::uint64_t byte_count, Hash& hash) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  const bool is_there = read_foreign(memory, byte_count, [&](const char* bytes, std::uint64_t count) {
    XXH3_128bits_update(state.get(), bytes, count);
  });
  const XXH128_hash_t digest = XXH3_128bits_digest(state.get());
  hash = {digest.high64, digest.low64};
  return is_there;
}

bool copy_of_foreign(const void* memory, std::uint64_t byte_count, std::vector<std::byte>& copy) {
  copy.clear();
  copy.reserve(byte_count);
  return read_foreign(memory, byte_count, [&](const char* bytes, std::uint64_t count) {
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes);
    copy.insert(copy.end(), begin, begin + count);
  });
}

}  // namespace yoke::layers
