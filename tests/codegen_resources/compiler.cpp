// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/compiler.cpp: NVRTC, hiprtc and clang, which compile without a GPU.
#include "compiler.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "test_paths.h"

namespace yoke::codegen::test {
namespace {

// Functions of both compilers, which differ in their prefix only.
struct Functions {
  int (*version)(int*, int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(void*, int, const char* const*) = nullptr;
  int (*log_size)(void*, std::size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*code_size)(void*, std::size_t*) = nullptr;
  int (*code)(void*, char*) = nullptr;
  int (*destroy)(void**) = nullptr;
};

Functions open(const std::vector<const char*>& libraries, const std::string& prefix, const char* code) {
  Functions functions;
  for (const char* path : libraries) {
    void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      continue;
    }
    const auto find = [&](auto& function, const std::string& name) {
      using Function = std::remove_reference_t<decltype(function)>;
      function = reinterpret_cast<Function>(dlsym(library, (prefix + name).c_str()));
    };
    find(functions.version, "Version");
    find(functions.create, "CreateProgram");
    find(functions.compile, "CompileProgram");
    find(functions.log_size, "GetProgramLogSize");
    find(functions.log, "GetProgramLog");
    find(functions.code_size, std::string("Get") + code + "Size");
    find(functions.code, std::string("Get") + code);
    find(functions.destroy, "DestroyProgram");
    break;
  }
  return functions;
}

const Functions& functions_of(Dialect dialect) {
  static const Functions nvrtc =
      open({std::getenv("YOKE_NVRTC_LIBRARY"), "libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"},
           "nvrtc", "CUBIN");
  static const Functions hiprtc =
      open({std::getenv("YOKE_HIPRTC_LIBRARY"), "libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.5"},
           "hiprtc", "Code");
  return dialect == Dialect::kCuda ? nvrtc : hiprtc;
}

struct Compiled {
  std::string log;
  std::string code;
};

Compiled compile(const Functions& functions, const std::string& source,
                 const std::vector<std::string>& options) {
  void* handle = nullptr;
  if (functions.create(&handle, source.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0) {
    throw std::runtime_error("the compiler cannot create a program");
  }
  std::vector<const char*> arguments;
  arguments.reserve(options.size());
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  const int status = functions.compile(handle, static_cast<int>(arguments.size()), arguments.data());
  Compiled result;
  std::size_t size = 0;
  functions.log_size(handle, &size);
  result.log.resize(size);
  functions.log(handle, result.log.data());
  if (status == 0) {
    functions.code_size(handle, &size);
    result.code.resize(size);
    functions.code(handle, result.code.data());
  }
  functions.destroy(&handle);
  if (status != 0) {
    throw std::runtime_error("error " + std::to_string(status) + ": " + result.log);
  }
  return result;
}

// A number of a structure in a file.
template <class T>
T number_at(const std::string& bytes, std::size_t offset) {
  T value = {};
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    throw std::runtime_error("the compiler's file is cut off");
  }
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// A cubin has a section ".nv.info.<kernel>" for each kernel: a list of attributes, of which one is the size of
// the parameters. An attribute has a format (4: two bytes of a size, then its value; else two bytes of a value),
// a number and the value.
void read_cubin(const std::string& file, std::map<std::string, Resources>& resources) {
  constexpr int kSized = 4;
  constexpr int kParameterBytes = 0x19;
  const auto sections = static_cast<std::size_t>(number_at<Elf64_Ehdr>(file, 0).e_shoff);
  const auto header = [&](std::size_t section) {
    return number_at<Elf64_Shdr>(file, sections + section * sizeof(Elf64_Shdr));
  };
  const auto count = number_at<Elf64_Ehdr>(file, 0).e_shnum;
  const Elf64_Shdr names = header(number_at<Elf64_Ehdr>(file, 0).e_shstrndx);
  const std::string prefix = ".nv.info.";
  for (std::size_t section = 0; section < count; ++section) {
    const Elf64_Shdr info = header(section);
    const std::string name = file.c_str() + names.sh_offset + info.sh_name;
    if (!name.starts_with(prefix)) {
      continue;
    }
    for (std::size_t at = info.sh_offset; at + 4 <= info.sh_offset + info.sh_size; at += 4) {
      const auto value = number_at<std::uint16_t>(file, at + 2);
      if (number_at<std::uint8_t>(file, at + 1) == kParameterBytes) {
        resources[name.substr(prefix.size())].arguments = value;
      }
      at += number_at<std::uint8_t>(file, at) == kSized ? value : 0U;
    }
  }
}

// The log of ptxas has a line for the name, one for spills and one for the rest of each kernel.
std::map<std::string, Resources> from_log(const std::string& log) {
  static const std::regex name("entry function '([^']+)'");
  static const std::regex spilled("([0-9]+) bytes spill stores");
  static const std::regex registers("Used ([0-9]+) registers");
  static const std::regex shared("([0-9]+) bytes smem");
  std::map<std::string, Resources> result;
  Resources* current = nullptr;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, name)) {
      current = &result[match[1]];
    }
    const auto number = [&](const std::regex& pattern, long& value) {
      if (current != nullptr && std::regex_search(line, match, pattern)) {
        value = std::stol(match[1]);
      }
    };
    number(spilled, current->spilled);
    number(registers, current->registers);
    number(shared, current->shared);
  }
  return result;
}

// The standard output of a shell command.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char part[4096];
  while (pipe != nullptr && std::fgets(part, sizeof part, pipe.get()) != nullptr) {
    text += part;
  }
  return text;
}

const std::string kClang = "clang++-19";

// A folder that is removed with its owner.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "yoke_code_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot create a temporary folder");
    }
    path = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

std::string contents_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A code object, not linked: linking needs lld, and no kernel calls a function of another file.
std::string clang_code(const std::string& source, const std::string& architecture) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return "'" + (folder.path / name).string() + "'"; };
  std::ofstream(folder.path / "kernels.hip") << source;
  const std::string shim = yoke::test::source_folder() + "/tests/codegen_resources/clang_hip.h";
  const std::string command = kClang + " -x hip --cuda-device-only --offload-arch=" + architecture +
                              " -nogpulib -nogpuinc -std=c++17 -O3 -ffp-contract=off -w -include '" + shim +
                              "' -S -o " + file("kernels.s") + " " + file("kernels.hip") + " > " +
                              file("log") + " 2>&1 && " + kClang +
                              " --target=amdgcn-amd-amdhsa -mcpu=" + architecture + " -c -o " +
                              file("kernels.o") + " " + file("kernels.s") + " > " + file("log") + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(contents_of(folder.path / "log").substr(0, 4000));
  }
  return contents_of(folder.path / "kernels.o");
}

// The notes of a code object describe each kernel in YAML: keys in alphabetical order, some before its name.
std::map<std::string, Resources> from_notes(const std::string& code) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path / "code";
  std::ofstream(file, std::ios::binary) << code;
  const std::string notes = output_of("llvm-readelf --notes '" + file.string() + "'");
  static const std::regex pattern(
      R"(\.(group_segment_fixed_size|offset|size|value_kind|symbol|vgpr_count|vgpr_spill_count):\s+'?([A-Za-z0-9_]+))");
  std::map<std::string, Resources> result;
  Resources next;
  std::string name;
  long last = 0;  // of the argument
  for (std::sregex_iterator match(notes.begin(), notes.end(), pattern), end; match != end; ++match) {
    const std::string key = (*match)[1];
    const std::string value = (*match)[2];
    if (key == "offset") {
      next.arguments = std::stol(value) == 0 ? 0 : next.arguments;
      last = std::stol(value);
    } else if (key == "size") {
      last += std::stol(value);
    } else if (key == "value_kind") {
      next.arguments = value.starts_with("hidden") ? next.arguments : last;
    } else if (key == "group_segment_fixed_size") {
      next.shared = std::stol(value);
    } else if (key == "symbol") {
      name = value.substr(0, value.find(".kd"));
    } else if (key == "vgpr_count") {
      next.registers = std::stol(value);
    } else {
      next.spilled = std::stol(value);
      result[name] = next;
      next = {};
    }
  }
  return result;
}

}  // namespace

bool is_new_amd(const Target& target) {
  return target.architecture == "gfx942" || target.architecture == "gfx1100";
}

std::string compiler_version(const Target& target) {
  if (is_new_amd(target)) {
    const std::string text = output_of(kClang + " --version 2> /dev/null");
    static const std::regex version("clang version ([0-9]+\\.[0-9]+)");
    std::smatch match;
    return std::regex_search(text, match, version) ? "clang " + match[1].str() : "";
  }
  const Functions& functions = functions_of(target.dialect);
  int major = 0;
  int minor = 0;
  if (functions.version == nullptr || functions.version(&major, &minor) != 0) {
    return "";
  }
  return (target.dialect == Dialect::kCuda ? "NVRTC " : "hiprtc ") + std::to_string(major) + "." +
         std::to_string(minor);
}

namespace {

// The file of the target's compiler, with its size and time, which change with each release.
std::string compiler_file(const Target& target) {
  std::filesystem::path file;
  if (is_new_amd(target)) {
    const std::string path = output_of("command -v " + kClang);
    file = path.substr(0, path.find('\n'));
  } else {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(functions_of(target.dialect).compile), &info) == 0) {
      throw std::runtime_error("the file of the compiler is unknown");
    }
    file = info.dli_fname;
  }
  const auto changed = std::filesystem::last_write_time(file).time_since_epoch().count();
  return std::filesystem::canonical(file).string() + ' ' + std::to_string(std::filesystem::file_size(file)) +
         ' ' + std::to_string(changed);
}

constexpr const char* kLast = "end";  // no kernel has this name

// Nothing if the file is missing or cut off.
std::map<std::string, Resources> read_kept(const std::filesystem::path& file) {
  std::map<std::string, Resources> kept;
  std::ifstream text(file);
  Resources each;
  for (std::string name; text >> name;) {
    if (name == kLast) {
      return kept;
    }
    text >> each.registers >> each.shared >> each.arguments >> each.spilled;
    kept[name] = each;
  }
  return {};
}

// If the folder cannot be written, the next run compiles again.
void keep(const std::map<std::string, Resources>& resources, const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const std::filesystem::path part = file.string() + "." + std::to_string(getpid());
  {
    std::ofstream text(part);
    for (const auto& [name, each] : resources) {
      text << name << ' ' << each.registers << ' ' << each.shared << ' ' << each.arguments << ' '
           << each.spilled << '\n';
    }
    text << kLast << '\n';
  }
  std::filesystem::rename(part, file, ignored);
}

std::map<std::string, Resources> compile_for(const Target& target, const std::string& source) {
  if (is_new_amd(target)) {
    return from_notes(clang_code(source, target.architecture));
  }
  const Functions& functions = functions_of(target.dialect);
  if (target.dialect == Dialect::kCuda) {
    const Compiled compiled =
        compile(functions, source,
                {"--gpu-architecture=sm_" + std::to_string(target.capability) + (target.wgmma ? "a" : ""),
                 "--fmad=false", "--std=c++17", "--ptxas-options=-v"});
    if (compiled.log.find("(C75") != std::string::npos) {
      throw std::runtime_error("the compiler added waits to wgmma: " + compiled.log);
    }
    std::map<std::string, Resources> resources = from_log(compiled.log);
    read_cubin(compiled.code, resources);
    return resources;
  }
  return from_notes(
      compile(functions, source,
              {"--offload-arch=" + target.architecture, "-ffp-contract=off", "-std=c++17", "-O3"})
          .code);
}

}  // namespace

std::map<std::string, Resources> resources_of(const std::string& source, const Target& target) {
  const std::filesystem::path folder = YOKE_TEST_CACHE_FOLDER "/resources";
  const std::string here = yoke::test::source_folder() + "/tests/codegen_resources/";
  const std::string key = compiler_file(target) + '\n' + target.architecture + ' ' +
                          std::to_string(target.capability) + '\n' + contents_of(here + "compiler.cpp") +
                          contents_of(here + "clang_hip.h") + source;
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  const std::filesystem::path file =
      folder / (std::to_string(hash.high64) + "-" + std::to_string(hash.low64));
  std::map<std::string, Resources> resources = read_kept(file);
  if (resources.empty()) {
    resources = compile_for(target, source);
    keep(resources, file);
  }
  return resources;
}

}  // namespace yoke::codegen::test
