// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/memory_lifetime.cpp: how long the plugin uses pinned and imported memory.
#include <algorithm>
#include <deque>

#include "foreign.h"
#include "groups.h"
#include "held.h"

namespace yoke::conformance {
namespace {

// A source that is copied directly, without staging, is still in use until an event.
void pinned_sources(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.table<yoke_memory_api>();
  plugin.table<yoke_stream_api>();
  Device& device = kit.device();
  Random random = kit.random();
  for (const std::uint64_t byte_count : {4U, 100U, 4096U, 65536U, 300'000U}) {
    for (const std::uint64_t offset : {0U, 4U, 33U}) {
      const Pinned source(device, byte_count + offset);
      const Buffer target(device, byte_count);
      const Stream stream(device);
      random.fill(source.bytes);
      const std::span<std::byte> part = source.bytes.subspan(offset);
      const Bytes sent(part.begin(), part.end());
      const Held held(device, Held::Others::kCopy);
      held.hold(stream);
      std::int32_t source_state = 0;
      expect_ok(plugin.from_host(stream.get(), target.get(), 0, part.data(), byte_count, &source_state),
                "queueing a from_host from pinned memory");
      if (source_state == YOKE_SOURCE_COPIED) {
        std::fill(part.begin(), part.end(), std::byte{0x55});
      }
      held.open();
      stream.synchronize();
      check(target.contents() == sent, "from_host of ", byte_count,
            " bytes of pinned memory returned YOKE_SOURCE_COPIED, but read the source later");
    }
  }
}

// The memory belongs to its owner again: later buffers must not be in it.
void import_then_create(Kit& kit) {
  Device& device = kit.device();
  kit.plugin().need<&yoke_memory_api::buffer_import>();
  Random random = kit.random();
  std::deque<Lent> all;
  for (const std::uint64_t byte_count : {64U, 256U, 1000U, 1024U, 4096U, 20'000U, 65536U, 300'000U}) {
    for (int i = 0; i < 4; ++i) {
      all.push_back({Bytes(byte_count)});
      BufferHandle handle = imported(device, all.back().args(0, byte_count));
      expect_ok(kit.plugin().from_host(nullptr, handle.get(), 0, random.bytes(byte_count).data(), byte_count,
                                       nullptr),
                "from_host to imported memory");
    }
  }
  std::deque<Buffer> buffers;
  for (const Lent& lent : all) {
    check_equal(lent.releases, 1, "the number of calls of release");
    for (int i = 0; i < 4; ++i) {
      buffers.emplace_back(device, lent.memory.size());
      buffers.back().write(0, Bytes(lent.memory.size()));
    }
  }
  for (const Lent& lent : all) {
    check(lent.is_all_released(), "a buffer that was created after imported memory of ", lent.memory.size(),
          " bytes was released is in that memory");
  }
}

}  // namespace

std::vector<Test> memory_lifetime_tests() {
  return {
      {"pinned-sources",
       "pinned sources are in use until an event, unless from_host returns YOKE_SOURCE_COPIED",
       {16, 52},
       pinned_sources,
       2},
      {"import-then-create",
       "no buffer is created in imported memory that was released",
       {15, 52},
       import_then_create},
  };
}

}  // namespace yoke::conformance
