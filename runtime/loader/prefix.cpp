// SPDX-License-Identifier: Apache-2.0
// runtime/loader/prefix.cpp: every pointer of a prefix is followed by way of the kernel, every text has a
// bound.
#include "loader/prefix.h"

#include <cstdint>
#include <cstdio>

#include "loader/search.h"

namespace yoke::loader {
namespace {

constexpr const char* kMendPrefix = "build the plugin against yoke's plugin.h (the SDK fills the prefix)";
constexpr std::uint32_t kMostPrefixBytes = 1U << 16U;  // more is garbage, not a longer prefix
constexpr std::size_t kMostTextBytes = 256;            // of version and vendor
constexpr std::size_t kMostNameBytes = 65;             // one more than a name may have

std::string version(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string address_text(const void* address) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", address);
  return text;
}

const char* sanitizer_name(std::uint32_t kind) {
  switch (kind) {
    case YOKE_SANITIZER_NONE:
      return "no";
    case YOKE_SANITIZER_ADDRESS:
      return "the address";
    case YOKE_SANITIZER_THREAD:
      return "the thread";
    case YOKE_SANITIZER_MEMORY:
      return "the memory";
    default:
      return "an unknown";
  }
}

constexpr std::uint32_t own_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return YOKE_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__)
  return YOKE_SANITIZER_THREAD;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return YOKE_SANITIZER_ADDRESS;
#elif __has_feature(thread_sanitizer)
  return YOKE_SANITIZER_THREAD;
#else
  return YOKE_SANITIZER_NONE;
#endif
#else
  return YOKE_SANITIZER_NONE;
#endif
}

// Tables only grow within a major (abi.md rule 4): another minor, older or newer, is served with the part
// that both sides know.
Refusal check_version(const yoke_plugin& prefix, const yoke_entry_args& served) {
  const bool older = prefix.abi_major < served.min_major ||
                     (prefix.abi_major == served.min_major && prefix.abi_minor < served.min_minor);
  const bool newer = prefix.abi_major > served.max_major;
  if (!older && !newer) {
    return {};
  }
  return {"it speaks plugin ABI " + version(prefix.abi_major, prefix.abi_minor) +
              ", and this libyoke serves " + version(served.min_major, served.min_minor) + " to " +
              version(served.max_major, served.max_minor),
          newer ? "update yoke, or install a build of the plugin for this version"
                : "install a newer build of the plugin"};
}

Refusal check_name(const MemoryReader& memory, const yoke_plugin& prefix, const std::string& asked,
                   std::string& out) {
  const char* mend = "set backend_name in its prefix to [a-z][a-z0-9_]*, at most 64 characters";
  if (prefix.backend_name == nullptr) {
    return {"it has no backend name", mend};
  }
  auto name = memory.text(prefix.backend_name, kMostNameBytes);
  if (!name) {
    return {"its backend name lies at " + address_text(prefix.backend_name) + ", where no memory is", mend};
  }
  if (name->empty()) {
    return {"its backend name is empty", mend};
  }
  if (name->size() == kMostNameBytes) {
    return {"its backend name has more than 64 characters ('" + printable(*name, 24) + "')", mend};
  }
  if (!is_backend_name(*name)) {
    return {"its backend name '" + printable(*name) + "' is none", mend};
  }
  if (*name != asked) {
    return {"it calls itself '" + *name + "', not '" + asked + "'",
            "give the file the name that the plugin has"};
  }
  out = std::move(*name);
  return {};
}

Refusal read_text(const MemoryReader& memory, const char* from, const char* what, std::string& out) {
  if (from == nullptr) {
    return {};
  }
  const auto text = memory.text(from, kMostTextBytes);
  if (!text) {
    return {std::string("its ") + what + " lies at " + address_text(from) + ", where no memory is",
            kMendPrefix};
  }
  out = printable(*text, kMostTextBytes);
  return {};
}

}  // namespace

Refusal read_prefix(const MemoryReader& memory, const yoke_plugin* plugin, yoke_plugin& out) {
  if (plugin == nullptr) {
    return {"its entry answered OK without a plugin", "report it to the plugin's author"};
  }
  if (reinterpret_cast<std::uintptr_t>(plugin) % alignof(yoke_plugin) != 0) {
    return {"what its entry gave back, " + address_text(plugin) + ", is not aligned to " +
                std::to_string(alignof(yoke_plugin)) + " bytes",
            kMendPrefix};
  }
  // In two steps: a prefix that is too short may end where memory ends.
  constexpr std::size_t kFirst = offsetof(yoke_plugin, abi_major);
  if (!memory.copy(plugin, kFirst, &out)) {
    return {"what its entry gave back, " + address_text(plugin) + ", points where no memory is", kMendPrefix};
  }
  if (out.magic != YOKE_PLUGIN_MAGIC) {
    return {"what its entry gave back does not begin with yoke's magic number", kMendPrefix};
  }
  if (out.prefix_size < sizeof(yoke_plugin) || out.prefix_size > kMostPrefixBytes) {
    return {"its prefix has " + std::to_string(out.prefix_size) + " bytes, and yoke's has " +
                std::to_string(sizeof(yoke_plugin)),
            kMendPrefix};
  }
  if (!memory.copy(plugin, sizeof(yoke_plugin), &out)) {
    return {"its prefix ends where no memory is", kMendPrefix};
  }
  if (out.destroy == nullptr || out.get_table == nullptr) {
    return {std::string("its prefix lacks ") + (out.destroy == nullptr ? "destroy" : "get_table"),
            kMendPrefix};
  }
  for (const auto& [name, address] : {std::pair("destroy", reinterpret_cast<const void*>(out.destroy)),
                                      std::pair("get_table", reinterpret_cast<const void*>(out.get_table))}) {
    if (!memory.readable(address)) {
      return {std::string("its ") + name + " points to " + address_text(address) + ", where no code is",
              kMendPrefix};
    }
  }
  return {};
}

Refusal check_prefix(const MemoryReader& memory, const yoke_entry_args& served, const std::string& asked,
                     Prefix& prefix) {
  if (auto refusal = check_version(prefix.raw, served)) {
    return refusal;
  }
  if (prefix.raw.sanitizer != YOKE_SANITIZER_NONE && prefix.raw.sanitizer != own_sanitizer()) {
    return {std::string("it was built with ") + sanitizer_name(prefix.raw.sanitizer) +
                " sanitizer, and yoke with " + sanitizer_name(own_sanitizer()) + " sanitizer",
            "install a build of the plugin without it"};
  }
  if (auto refusal = check_name(memory, prefix.raw, asked, prefix.name)) {
    return refusal;
  }
  if (auto refusal = read_text(memory, prefix.raw.plugin_version, "plugin_version", prefix.version)) {
    return refusal;
  }
  return read_text(memory, prefix.raw.vendor, "vendor", prefix.vendor);
}

}  // namespace yoke::loader
