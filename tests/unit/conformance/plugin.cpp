// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance/plugin.cpp: the smallest backend, and one way of being wrong that a macro chooses.
#include <unistd.h>
#include <yoke/sdk/entry.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

class Buffer final : public yoke::sdk::Buffer {
 public:
  explicit Buffer(std::uint64_t byte_count) : memory_(byte_count) {}
  void* host_address() noexcept override { return memory_.host_address(); }
  std::int32_t from_host(yoke::sdk::Stream*, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override {
#if defined(PLUGIN_CRASHES)
    std::raise(SIGSEGV);
#elif defined(PLUGIN_HANGS)
    ::setpgid(0, ::getpgid(::getppid()));  // out of the group that the kit made for it
    for (;;) {
      ::pause();
    }
#elif defined(PLUGIN_EXITS)
    std::exit(0);
#elif defined(PLUGIN_STARTS_CHILDREN)
    if (::fork() == 0) {
      for (;;) {
        ::pause();
      }
    }
    for (;;) {
      ::pause();
    }
#elif defined(PLUGIN_PRINTS)
    std::fputs("copying now\n", stderr);
#endif
    constexpr std::uint64_t kShift =
#if defined(PLUGIN_SHIFTS)
        1;
#else
        0;
#endif
    if (byte_count > kShift) {
      std::memcpy(static_cast<std::byte*>(host_address()) + offset + kShift, source, byte_count - kShift);
    }
    return YOKE_SOURCE_COPIED;
  }

 private:
  yoke::sdk::HostBuffer memory_;
};

class Device final : public yoke::sdk::Device {
 public:
  std::unique_ptr<yoke::sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<Buffer>(byte_count);
  }
};

class Backend final : public yoke::sdk::Backend {
 public:
  yoke::sdk::Provides provides() const override { return {}; }
  std::uint32_t device_count() override { return 1; }
  yoke::sdk::DeviceInfo describe(std::uint32_t) override {
    yoke::sdk::DeviceInfo info;
    info.name = "wrong";
    info.unique_id = "wrong:0";
    info.host_visible = true;
    return info;
  }
  std::unique_ptr<yoke::sdk::Device> open_device(std::uint32_t, const yoke::sdk::Options&) override {
    return std::make_unique<Device>();
  }
};

#if defined(PLUGIN_CRASHES_EARLY)
const int crash = std::raise(SIGSEGV);  // when the file is mapped
#endif

[[maybe_unused]] yoke_backend_api table;
const void* (*get_sdk_table)(yoke_plugin*, const char*);

#if defined(PLUGIN_LEAKS)
void forget_buffer(yoke_buffer*) noexcept {}
#elif defined(PLUGIN_SILENT)
std::int32_t to_host_without_words(yoke_stream*, yoke_buffer* src, std::uint64_t offset, void* dst,
                                   std::uint64_t byte_count, yoke_error*) noexcept {
  return yoke::sdk::detail::to_host(nullptr, src, offset, dst, byte_count, nullptr);
}
#elif defined(PLUGIN_THROWS)
std::int32_t throwing_to_host(yoke_stream*, yoke_buffer*, std::uint64_t, void*, std::uint64_t, yoke_error*) {
  throw std::bad_alloc();
}
#endif

const void* wrong_table(yoke_plugin* plugin, const char* id) {
  const void* const found = get_sdk_table(plugin, id);
  if (found == nullptr || std::strcmp(id, YOKE_BACKEND_TABLE) != 0) {
    return found;
  }
  table = *static_cast<const yoke_backend_api*>(found);
#if defined(PLUGIN_LEAKS)
  table.buffer_destroy = forget_buffer;
#elif defined(PLUGIN_SILENT)
  table.to_host = to_host_without_words;
#elif defined(PLUGIN_THROWS)
  table.to_host = throwing_to_host;
#endif
  return &table;
}

}  // namespace

extern "C" YOKE_EXPORT std::int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                                      yoke_error* error) {
  const std::int32_t code = yoke::sdk::enter(args, out_plugin, error, {"wrong", "1.0", "tests"},
                                             [] { return std::make_unique<Backend>(); });
  if (code == YOKE_OK) {
    get_sdk_table = (*out_plugin)->get_table;
    (*out_plugin)->get_table = wrong_table;
  }
  return code;
}
