// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/load_file.cpp: the exported symbols, read from the ELF tables of the file.
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "groups.h"

namespace yoke::conformance {
namespace {

// An ELF file in memory; every read is bounds-checked.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    check(bytes_.size() >= sizeof(Elf64_Ehdr) && std::memcmp(bytes_.data(), ELFMAG, SELFMAG) == 0,
          path.string(), " is not an ELF file");
    if (bytes_[EI_CLASS] != ELFCLASS64) {
      unsupported("the file is not a 64-bit ELF file; this test reads no other format");
    }
    head_ = at<Elf64_Ehdr>(0);
  }

  template <class T>
  T at(std::uint64_t offset) const {
    check(offset <= bytes_.size() && bytes_.size() - offset >= sizeof(T), "the ELF file is truncated");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  Elf64_Shdr section(std::uint64_t index) const {
    check(head_.e_shoff != 0 && index < head_.e_shnum, "the file has no section headers; do not strip them");
    return at<Elf64_Shdr>(head_.e_shoff + index * head_.e_shentsize);
  }
  std::uint64_t section_count() const { return head_.e_shnum; }
  std::string string_at(const Elf64_Shdr& table, std::uint64_t offset) const {
    check(offset < table.sh_size && table.sh_offset + table.sh_size <= bytes_.size(),
          "the ELF file is truncated");
    const char* begin = bytes_.data() + table.sh_offset + offset;
    return {begin, std::find(begin, begin + (table.sh_size - offset), '\0')};
  }

 private:
  std::vector<char> bytes_;
  Elf64_Ehdr head_{};
};

struct Symbol {
  std::string name;
  unsigned binding;
  unsigned type;
};

// The symbols that other objects can link to: defined, neither local nor hidden. Absolute symbols are
// the names of version nodes and are skipped.
std::vector<Symbol> exported_symbols(const ElfFile& file) {
  std::vector<Symbol> symbols;
  for (std::uint64_t i = 0; i < file.section_count(); ++i) {
    const Elf64_Shdr section = file.section(i);
    if (section.sh_type != SHT_DYNSYM || section.sh_entsize < sizeof(Elf64_Sym)) {
      continue;
    }
    const Elf64_Shdr names = file.section(section.sh_link);
    for (std::uint64_t at = 0; at + section.sh_entsize <= section.sh_size; at += section.sh_entsize) {
      const auto symbol = file.at<Elf64_Sym>(section.sh_offset + at);
      const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS &&
          ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && visibility != STV_HIDDEN &&
          visibility != STV_INTERNAL) {
        symbols.push_back({file.string_at(names, symbol.st_name),
                           static_cast<unsigned>(ELF64_ST_BIND(symbol.st_info)),
                           static_cast<unsigned>(ELF64_ST_TYPE(symbol.st_info))});
      }
    }
  }
  return symbols;
}

void exports_one_symbol(Kit& kit) {
  const std::vector<Symbol> symbols = exported_symbols(ElfFile(kit.settings().plugin));
  const auto entry = std::find_if(symbols.begin(), symbols.end(), [](const Symbol& symbol) {
    return symbol.name == YOKE_PLUGIN_ENTRY_SYMBOL;
  });
  check(entry != symbols.end(), "the file does not export " YOKE_PLUGIN_ENTRY_SYMBOL);
  check_equal(entry->type, static_cast<unsigned>(STT_FUNC),
              "the ELF symbol type of " YOKE_PLUGIN_ENTRY_SYMBOL " (STT_FUNC)");
  if (symbols.size() > 1) {
    std::string others;
    constexpr std::size_t kMost = 5;
    std::size_t named = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.name != YOKE_PLUGIN_ENTRY_SYMBOL && named++ < kMost) {
        others += text(others.empty() ? "" : ", ", symbol.name,
                       symbol.binding == STB_GNU_UNIQUE ? " (unique in the process)" : "");
      }
    }
    fail(text("the file exports ", symbols.size() - 1, " other symbols: ", others,
              symbols.size() - 1 > kMost ? ", ..." : "",
              "; hide them (-fvisibility=hidden -fno-gnu-unique and a version script)"));
  }
}

void entry_in_file(Kit& kit) {
  Dl_info info{};
  check(
      ::dladdr(reinterpret_cast<const void*>(kit.library().entry()), &info) != 0 && info.dli_fname != nullptr,
      "dladdr cannot determine which file defines the entry");
  std::error_code failed;
  check(std::filesystem::equivalent(info.dli_fname, kit.settings().plugin, failed),
        "the entry is defined in ", info.dli_fname, ", a library that the plugin links");
}

}  // namespace

std::vector<Test> load_file_tests() {
  return {
      {"exports-one-symbol", "the file exports only yoke_plugin_entry", {1}, exports_one_symbol},
      {"entry-in-file",
       "the entry is defined in the plugin's file, not in a library that it links",
       {1, 31},
       entry_in_file},
  };
}

}  // namespace yoke::conformance
