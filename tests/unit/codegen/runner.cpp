// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/runner.cpp: compiles plans for the CPU and runs them.
#include "runner.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "prelude.h"
#include "test_paths.h"

namespace yoke::codegen::test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// All kernels share the memory that a launch would have.
std::string with_dynamic_shared(std::string text) {
  text = replaced(std::move(text), "extern __shared__ yk_1024_bytes shared[];",
                  "static yk_1024_bytes shared[227];");
  return replaced(std::move(text), "extern __shared__ yk_16_bytes rows_shared[];",
                  "static yk_16_bytes rows_shared[227 * 64];");
}

std::string symbol_name(std::size_t plan, const std::string& kernel) {
  return "p" + std::to_string(plan) + "_" + kernel;
}

std::size_t parameter_count(const Launch& launch) {
  return launch.slots.size() + (launch.reads_symbols ? 1 : 0) + (launch.reads_variable ? 1 : 0);
}

// Calls a kernel with an array of its parameters, all of which have 64 bits.
std::string trampoline(const std::string& name, std::size_t parameters) {
  std::string types;
  std::string values;
  for (std::size_t i = 0; i < parameters; ++i) {
    types += (i == 0 ? "" : ", ") + std::string("unsigned long long");
    values += (i == 0 ? "a[" : ", a[") + std::to_string(i) + "]";
  }
  return "extern \"C\" void call_" + name + "(const unsigned long long* a) { (void)a; ((void (*)(" + types +
         "))&" + name + ")(" + values + "); }\n";
}

std::string source_of(std::span<const Plan> plans, Dialect dialect) {
  const std::string_view begin = prelude(dialect);
  std::string text = "#include \"" + yoke::test::source_folder() + "/tests/unit/codegen/cpu_device.h\"\n";
  text.append("extern \"C\" void run(void (*kernel)(const unsigned long long*), const unsigned* grid, ")
      .append("unsigned threads, bool with_fibers, const unsigned long long* arguments) {\n")
      .append("  cpu_device::run(kernel, grid, threads, with_fibers, arguments);\n}\n")
      .append(begin);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    text += "namespace p" + std::to_string(i) + " {\n" +
            replaced(with_dynamic_shared(plans[i].source.substr(begin.size())), " yoke_",
                     " " + symbol_name(i, "yoke_"));
    std::vector<bool> done(plans[i].kernels.size());
    for (const Launch& launch : plans[i].launches) {
      if (!done[launch.kernel]) {
        text += trampoline(symbol_name(i, plans[i].kernels[launch.kernel].name), parameter_count(launch));
        done[launch.kernel] = true;
      }
    }
    text += "}\n";
  }
  return text;
}

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "yoke_codegen_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot create a temporary folder");
    }
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Whether the threads of a kernel wait for each other, so that they must be fibers.
bool waits(const Plan& plan, const std::string& kernel) {
  const std::size_t first = plan.source.find(" " + kernel + "(");
  const std::string text = plan.source.substr(first, plan.source.find("YK_KERNEL(", first) - first);
  return text.find("YK_S") != std::string::npos || text.find("yk_warp_") != std::string::npos ||
         text.find("yk_block_") != std::string::npos;
}

}  // namespace

std::string no_compiler() {
  return std::system("c++ --version > /dev/null 2>&1") == 0 ? "" : "there is no C++ compiler 'c++'";
}

void CpuPlans::Close::operator()(void* library) const {
  dlclose(library);
}

CpuPlans::CpuPlans(std::vector<Plan> plans, const Target& target) : plans_(std::move(plans)) {
  const Folder folder;
  const std::string source = folder.path / "kernels.cpp";
  const std::string object = folder.path / "kernels.so";
  const std::string log = folder.path / "log";
  std::ofstream(source) << source_of(plans_, target.dialect);
  const std::string command =
      "c++ -std=c++20 -w -O0 -g0 -ffp-contract=off -fno-strict-aliasing -shared -fPIC -DYOKE_FAKE_GPU" +
      (target.architecture.empty() ? "" : " -D__" + target.architecture + "__") +
      (target.wgmma ? " -D__CUDA_ARCH_FEAT_SM90_ALL" : "") +
      " -DCPU_DEVICE_WARP=" + std::to_string(target.warp_size) + " -o " + object + " " + source + " > " +
      log + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("the kernels do not compile:\n" + contents(log).substr(0, 4000) + "\n" +
                             contents(source));
  }
  library_.reset(dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library_ == nullptr) {
    throw std::runtime_error(dlerror());
  }
}

void CpuPlans::run(std::size_t number, std::span<std::byte* const> arguments, std::byte* workspace,
                   std::span<const std::int64_t> symbols) const {
  using Kernel = void (*)(const std::uint64_t*);
  const auto run =
      reinterpret_cast<void (*)(Kernel, const std::uint32_t*, std::uint32_t, bool, const std::uint64_t*)>(
          dlsym(library_.get(), "run"));
  const Plan& plan = plans_[number];
  for (const Round& round : plan.rounds) {
    for (std::uint64_t i = 0; i < round.count; ++i) {
      for (std::uint32_t at = round.first_launch; at < round.last_launch; ++at) {
        const Launch& launch = plan.launches[at];
        const codegen::Kernel& kernel = plan.kernels[launch.kernel];
        std::vector<std::uint64_t> parameters;
        for (const Slot& slot : launch.slots) {
          std::byte* base = slot.argument == Slot::kWorkspace ? workspace : arguments[slot.argument];
          parameters.push_back(reinterpret_cast<std::uint64_t>(base + slot.offset));
        }
        if (launch.reads_symbols) {
          parameters.push_back(reinterpret_cast<std::uint64_t>(symbols.data()));
        }
        if (launch.reads_variable) {
          parameters.push_back(static_cast<std::uint64_t>(round.low) +
                               i * static_cast<std::uint64_t>(round.step));
        }
        const auto call = reinterpret_cast<Kernel>(
            dlsym(library_.get(), ("call_" + symbol_name(number, kernel.name)).c_str()));
        run(call, launch.grid.data(), kernel.threads, waits(plan, kernel.name), parameters.data());
      }
    }
  }
}

}  // namespace yoke::codegen::test
