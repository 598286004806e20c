// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/compiler.cpp: NVRTC and hiprtc, which compile without a GPU.
#include "compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

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

// The notes of a code object describe each kernel in YAML: keys in alphabetical order, some before its name.
std::map<std::string, Resources> from_notes(const std::string& code) {
  std::string path = (std::filesystem::temp_directory_path() / "yoke_code_XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0 || write(file, code.data(), code.size()) != static_cast<ssize_t>(code.size())) {
    throw std::runtime_error("cannot write a temporary file");
  }
  close(file);
  const std::string notes = output_of("llvm-readelf --notes '" + path + "'");
  unlink(path.c_str());
  static const std::regex pattern(
      R"(\.(group_segment_fixed_size|symbol|vgpr_count|vgpr_spill_count):\s+'?([A-Za-z0-9_]+))");
  std::map<std::string, Resources> result;
  Resources next;
  std::string name;
  for (std::sregex_iterator match(notes.begin(), notes.end(), pattern), end; match != end; ++match) {
    const std::string key = (*match)[1];
    const std::string value = (*match)[2];
    if (key == "group_segment_fixed_size") {
      next = {};
      next.shared = std::stol(value);
    } else if (key == "symbol") {
      name = value.substr(0, value.find(".kd"));
    } else if (key == "vgpr_count") {
      next.registers = std::stol(value);
    } else {
      next.spilled = std::stol(value);
      result[name] = next;
    }
  }
  return result;
}

}  // namespace

std::string compiler_version(Dialect dialect) {
  const Functions& functions = functions_of(dialect);
  int major = 0;
  int minor = 0;
  if (functions.version == nullptr || functions.version(&major, &minor) != 0) {
    return "";
  }
  return (dialect == Dialect::kCuda ? "NVRTC " : "hiprtc ") + std::to_string(major) + "." +
         std::to_string(minor);
}

std::map<std::string, Resources> resources_of(const std::string& source, const Target& target) {
  const Functions& functions = functions_of(target.dialect);
  if (target.dialect == Dialect::kCuda) {
    return from_log(compile(functions, source,
                            {"--gpu-architecture=sm_" + std::to_string(target.capability), "--fmad=false",
                             "--std=c++17", "--ptxas-options=-v"})
                        .log);
  }
  return from_notes(
      compile(functions, source,
              {"--offload-arch=" + target.architecture, "-ffp-contract=off", "-std=c++17", "-O3"})
          .code);
}

}  // namespace yoke::codegen::test
