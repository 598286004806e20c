// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/compile.cpp: see compile.h.
#include "compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "device_text.h"
#include "image.h"
#include "options.h"
#include "settings.h"
#include "vendor.h"

namespace fake_gpu {
namespace {

namespace fs = std::filesystem;

struct KernelText {
  std::string name;
  std::string bound = "0";
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) {
    ++at;
  }
  return at;
}

// Reads "(...)" at `at` and moves past it.
std::string parenthesized(std::string_view text, std::size_t& at) {
  const std::size_t begin = at + 1;
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) {
      ++at;
      return std::string(text.substr(begin, at - 1 - begin));
    }
  }
  return "";
}

// Reads up to the parameters of the kernel: its name is the last word before them.
KernelText read_kernel(std::string_view text, std::size_t at) {
  KernelText result;
  while (at < text.size()) {
    at = skip_space(text, at);
    if (at >= text.size()) {
      break;
    }
    if (text[at] == '(') {
      return result;
    }
    const std::size_t begin = at;
    while (at < text.size() && is_word(text[at])) {
      ++at;
    }
    result.name = text.substr(begin, at - begin);
    at = std::max(skip_space(text, at), begin + 1);
    if (result.name == "__launch_bounds__" || result.name == "YK_KERNEL") {
      const std::string inside = parenthesized(text, at);
      result.bound = inside.substr(0, inside.find(','));
    }
  }
  return {};
}

// The kernels that a text defines. Lines of the preprocessor define none.
std::vector<KernelText> find_kernels(std::string_view source) {
  std::vector<KernelText> result;
  for (const std::string_view marker : {"YK_KERNEL(", "__global__"}) {
    for (std::size_t at = source.find(marker); at != std::string_view::npos;
         at = source.find(marker, at + 1)) {
      const std::size_t line = source.rfind('\n', at) + 1;  // 0 if there is none
      if (source[skip_space(source, line)] != '#') {
        result.push_back(read_kernel(source, at));
      }
    }
  }
  return result;
}

// `extern __shared__ T name[];` becomes a pointer to the memory that a launch asks for.
std::string with_dynamic_shared(std::string source) {
  const std::string marker = "extern __shared__ ";
  for (std::size_t at = source.find(marker); at != std::string::npos; at = source.find(marker, at + 1)) {
    const std::size_t bracket = source.find("[]", at);
    if (bracket == std::string::npos) {
      break;
    }
    std::size_t name = bracket;
    while (is_word(source[name - 1])) {
      --name;
    }
    const std::string type = source.substr(at + marker.size(), name - at - marker.size());
    source.replace(at, bracket + 2 - at,
                   "typedef " + type + " fgpu_dynamic; fgpu_dynamic* const " +
                       source.substr(name, bracket - name) + " = (fgpu_dynamic*)fgpu.dynamic_shared");
  }
  return source;
}

std::string full_text(const std::string& source, const Options& options) {
  const std::string& architecture = options.architecture;
  const unsigned warp_size = warp_size_of(architecture);
  std::string text = "#define YOKE_FAKE_GPU 1\n#define FGPU_HIP " + std::to_string(kHip ? 1 : 0) +
                     "\n#define FGPU_WARP_SIZE " + std::to_string(warp_size) + "\n";
  if (kHip) {
    text += "#define __HIPCC_RTC__ 1\n#define __HIP_DEVICE_COMPILE__ 1\n#define __" + architecture + "__ 1\n";
  } else {
    text += "#define __CUDACC_RTC__ 1\n#define __CUDA_ARCH__ " + architecture.substr(3) + "0\n";
    text += options.is_specific ? "#define __CUDA_ARCH_FEAT_SM" + architecture.substr(3) + "_ALL 1\n" : "";
  }
  text += kKernelAbi;
  text += kDevicePrelude;
  text += "\n#line 1 \"kernels\"\n" + with_dynamic_shared(source) + "\n#line 1 \"table of kernels\"\n";
  text += "static const fgpu_kernel fgpu_table[] = {\n";
  const auto kernels = find_kernels(source);
  for (const KernelText& kernel : kernels) {
    text += "FGPU_KERNEL(" + kernel.name + ", " + kernel.bound + "),\n";
  }
  text += "{}};\nextern \"C\" __attribute__((visibility(\"default\"))) const fgpu_module fgpu_kernels = {" +
          std::to_string(kernels.size()) + ", fgpu_table, &fgpu, __bss_start, _end};\n";
  return text;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string make_image(const std::string& library, const std::string& architecture) {
  ImageHeader header;
  header.magic = kImageMagic;
  architecture.copy(header.architecture.data(), header.architecture.size() - 1);
  header.byte_count = library.size();
  header.hash = hash_bytes(library.data(), library.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + library;
}

// "PTX" is an image for compute_90 instead of sm_90.
Compiled compiled_from(const std::string& image, const Options& options) {
  Compiled result;
  result.image = options.is_virtual ? "" : image;
  if (!kHip) {
    ImageHeader header;
    std::memcpy(&header, image.data(), sizeof(header));
    header.architecture = {};
    ("compute_" + options.architecture.substr(3))
        .copy(header.architecture.data(), header.architecture.size() - 1);
    result.ptx =
        std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + image.substr(sizeof(header));
  }
  return result;
}

bool is_image(const std::string& bytes) {
  ImageHeader header;
  if (bytes.size() < sizeof(header)) {
    return false;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header.magic == kImageMagic && header.byte_count == bytes.size() - sizeof(header) &&
         header.hash == hash_bytes(bytes.data() + sizeof(header), header.byte_count);
}

std::vector<std::string> command_for(const fs::path& source, const fs::path& output) {
  std::vector<std::string> words = {FAKE_GPU_CXX,
                                    "-x",
                                    "c++",
                                    "-std=c++20",
                                    "-O1",
                                    "-w",
                                    "-shared",
                                    "-fPIC",
                                    "-nostdinc",
                                    "-nostartfiles",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-math-errno",
                                    "-ffp-contract=off",
                                    "-fvisibility=hidden",
                                    "-fstrict-aliasing"};
  for (std::string_view flags = FAKE_GPU_KERNEL_FLAGS; !flags.empty();) {
    const std::size_t end = std::min(flags.find(' '), flags.size());
    words.emplace_back(flags.substr(0, end));
    flags.remove_prefix(std::min(end + 1, flags.size()));
  }
  words.insert(words.end(), {source.string(), "-o", output.string(), "-Wl,--as-needed", "-lm"});
  return words;
}

// Runs a command and returns its status; its output goes to a file.
int run_command(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (failure == 0) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  return status;
}

// Removes results that no process used for a week.
void forget_old_results(const fs::path& folder) {
  std::error_code ignored;
  const auto oldest = fs::file_time_type::clock::now() - std::chrono::hours(24 * 7);
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.last_write_time(ignored) < oldest) {
      fs::remove(entry.path(), ignored);
    }
  }
}

fs::path cache_folder() {
  const char* chosen = std::getenv("FAKE_GPU_CACHE");
  fs::path folder = chosen != nullptr ? chosen : FAKE_GPU_CACHE_FOLDER;
  std::error_code ignored;
  if (fs::create_directories(folder, ignored)) {
    return folder;
  }
  static std::atomic_flag looked;
  if (!looked.test_and_set()) {
    forget_old_results(folder);
  }
  return folder;
}

std::string key_of(const std::string& text) {
  std::string all = text + __VERSION__;
  for (const std::string& word : command_for("", "")) {
    all += '\n' + word;
  }
  char name[40] = {};
  (void)std::snprintf(
      name, sizeof(name), "%016llx%016llx",
      static_cast<unsigned long long>(hash_bytes(all.data(), all.size())),
      static_cast<unsigned long long>(hash_bytes(all.data(), all.size(), 0x9e3779b97f4a7c15ULL)));
  return name;
}

}  // namespace

Compiled compile(const std::string& source, const std::vector<std::string>& words) {
  const Options options = read_options(words);
  if (options.code != 0) {
    return {options.code, options.log, "", ""};
  }
  static std::atomic<unsigned> compilations = 0;
  const std::string text = full_text(source, options);
  const fs::path folder = cache_folder();
  const fs::path known = folder / (key_of(text) + ".image");
  std::error_code ignored;
  if (std::string image = read_file(known); is_image(image)) {
    fs::last_write_time(known, fs::file_time_type::clock::now(), ignored);
    return compiled_from(image, options);
  }
  const std::string stem = "new-" + std::to_string(getpid()) + "-" + FAKE_GPU_NAME("cuda", "hip") + "-" +
                           std::to_string(++compilations);
  const fs::path input = folder / (stem + ".cpp");
  const fs::path output = folder / (stem + ".so");
  const fs::path log = folder / (stem + ".log");
  write_file(input, text);
  Compiled result;
  if (run_command(command_for(input, output), log) == 0) {
    const std::string image = make_image(read_file(output), options.architecture);
    write_file(output, image);
    fs::rename(output, known, ignored);
    result = compiled_from(image, options);
  } else {
    result.code = kCompilationFailed;
    result.log = read_file(log);
  }
  for (const fs::path& file : {input, output, log}) {
    fs::remove(file, ignored);
  }
  return result;
}

}  // namespace fake_gpu
