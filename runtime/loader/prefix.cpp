// SPDX-License-Identifier: Apache-2.0
// runtime/loader/prefix.cpp: pointers in the prefix are read through the kernel, texts up to a fixed length.
#include "loader/prefix.h"

#include <cstdint>

#include "loader/search.h"

namespace yoke::loader {
namespace {

constexpr const char* kFixPrefix = "build the plugin with yoke's plugin.h (the SDK fills in the prefix)";
constexpr std::uint32_t kMaxPrefixBytes = 1U << 16U;  // a larger size is garbage
constexpr std::size_t kMaxPrefixTextBytes = 256;      // of version and vendor
constexpr std::size_t kMaxNameBytes = 65;             // one more than the longest valid name

std::string version(std::uint32_t major, std::uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Refusal unreadable(const std::string& what, const void* address) {
  return {"its " + what + " points to unreadable memory (" + address_text(address) + ")", kFixPrefix};
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

// The plugin must have chosen a version from the host's range: until 1.0 a minor version may break the ABI.
Refusal check_version(const yoke_plugin& prefix, const yoke_entry_args& served) {
  using Version = std::pair<std::uint32_t, std::uint32_t>;
  const Version chosen(prefix.abi_major, prefix.abi_minor);
  const bool older = chosen < Version(served.min_major, served.min_minor);
  const bool newer = chosen > Version(served.max_major, served.max_minor);
  if (!older && !newer) {
    return {};
  }
  return {"it uses plugin ABI " + version(prefix.abi_major, prefix.abi_minor) + "; this libyoke supports " +
              version(served.min_major, served.min_minor) + " to " +
              version(served.max_major, served.max_minor),
          newer ? "update yoke, or install a build of the plugin for this version"
                : "install a newer build of the plugin"};
}

Refusal check_name(const MemoryReader& memory, const yoke_plugin& prefix, const std::string& requested,
                   bool has_file) {
  const std::string fix = "set name in the prefix to " + std::string(kNameForm);
  if (prefix.name == nullptr) {
    return {"its name is NULL", fix};
  }
  auto name = memory.text(prefix.name, kMaxNameBytes);
  if (!name) {
    return unreadable("name", prefix.name);
  }
  if (name->empty()) {
    return {"its name is empty", fix};
  }
  if (name->size() == kMaxNameBytes) {
    return {"its name has more than 64 characters ('" + printable(*name, 24) + "')", fix};
  }
  if (!is_backend_name(*name)) {
    return {"its name '" + printable(*name) + "' is invalid", fix};
  }
  if (*name != requested) {
    return {"its name is '" + *name + "', not '" + requested + "'",
            has_file ? "rename the file to " + file_name(*name) : "register it as '" + *name + "'"};
  }
  return {};
}

Refusal read_text(const MemoryReader& memory, const char* from, const char* what, std::string& out) {
  if (from == nullptr) {
    return {};
  }
  const auto text = memory.text(from, kMaxPrefixTextBytes);
  if (!text) {
    return unreadable(what, from);
  }
  out = printable(*text, kMaxPrefixTextBytes);
  return {};
}

}  // namespace

Refusal read_prefix(const MemoryReader& memory, const yoke_plugin* plugin, yoke_plugin& out) {
  const auto refuse = [&](const std::string& what) {
    return Refusal{"its entry returned the address " + address_text(plugin) + ", " + what, kFixPrefix};
  };
  if (plugin == nullptr) {
    return {"its entry returned OK without a plugin", "report it to the plugin's author"};
  }
  if (reinterpret_cast<std::uintptr_t>(plugin) % alignof(yoke_plugin) != 0) {
    return refuse("which is not aligned to " + std::to_string(alignof(yoke_plugin)) + " bytes");
  }
  // Read in two steps, because a prefix that is too short may end right before unreadable memory.
  constexpr std::size_t kFirst = offsetof(yoke_plugin, abi_major);
  if (!memory.copy(plugin, kFirst, &out)) {
    return refuse("which is not readable memory");
  }
  if (out.magic != YOKE_PLUGIN_MAGIC) {
    return refuse("where yoke's magic number is missing");
  }
  if (out.prefix_size < sizeof(yoke_plugin) || out.prefix_size > kMaxPrefixBytes) {
    return {"its prefix_size is " + std::to_string(out.prefix_size) + "; this libyoke's is " +
                std::to_string(sizeof(yoke_plugin)),
            kFixPrefix};
  }
  if (!memory.copy(plugin, sizeof(yoke_plugin), &out)) {
    return {"its prefix has unreadable memory within its prefix_size", kFixPrefix};
  }
  if (out.destroy == nullptr || out.get_table == nullptr) {
    return {std::string("its prefix lacks ") + (out.destroy == nullptr ? "destroy" : "get_table"),
            kFixPrefix};
  }
  for (const auto& [name, address] : {std::pair("destroy", reinterpret_cast<const void*>(out.destroy)),
                                      std::pair("get_table", reinterpret_cast<const void*>(out.get_table))}) {
    if (!memory.readable(address)) {
      return unreadable(name, address);
    }
  }
  return {};
}

Refusal check_prefix(const MemoryReader& memory, const yoke_entry_args& served, const std::string& requested,
                     bool has_file, Prefix& prefix) {
  if (auto refusal = check_version(prefix.raw, served)) {
    return refusal;
  }
  if (prefix.raw.sanitizer != YOKE_SANITIZER_NONE && prefix.raw.sanitizer != own_sanitizer()) {
    return {std::string("it was built with ") + sanitizer_name(prefix.raw.sanitizer) +
                " sanitizer, and yoke with " + sanitizer_name(own_sanitizer()) + " sanitizer",
            "install a build of the plugin without it"};
  }
  if (prefix.raw.kind != YOKE_PLUGIN_KIND_BACKEND) {
    return {"its kind is " + std::to_string(prefix.raw.kind) + "; this libyoke supports kind " +
                std::to_string(YOKE_PLUGIN_KIND_BACKEND) + " (backends)",
            "update yoke, or install a backend"};
  }
  if (auto refusal = check_name(memory, prefix.raw, requested, has_file)) {
    return refusal;
  }
  if (auto refusal = read_text(memory, prefix.raw.plugin_version, "plugin_version", prefix.version)) {
    return refusal;
  }
  return read_text(memory, prefix.raw.vendor, "vendor", prefix.vendor);
}

}  // namespace yoke::loader
