// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/resources_test.cpp: compiles the kernels of the corpus and of models with the compilers
// of the vendors, and compares the resources that they use with tables. YOKE_UPDATE_RESOURCES=1 writes the tables.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler.h"
#include "model_programs.h"
#include "prelude.h"
#include "test_paths.h"

namespace yoke::codegen::test {
namespace {

const std::string kFolder = yoke::test::source_folder() + "/tests/codegen_resources/";

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The program files of the corpus and of this folder, by name.
std::map<std::string, std::filesystem::path> program_files() {
  std::map<std::string, std::filesystem::path> files;
  for (const std::string& folder :
       {kFolder + "programs", yoke::test::source_folder() + "/plugin_api/program/corpus"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".yoke") {
        files[entry.path().stem()] = entry.path();
      }
    }
  }
  return files;
}

Target target_of(const std::string& name) {
  Target target;
  if (name.starts_with("sm_")) {
    target.capability = static_cast<std::uint32_t>(std::stoul(name.substr(3)));
    target.wgmma = name.ends_with('a');
  } else {
    target.dialect = Dialect::kHip;
    target.architecture = name;
    target.warp_size = name.starts_with("gfx1") ? 32 : 64;
    target.shared_bytes = 64 * 1024;
  }
  return target;
}

// All programs as one text, because a compiler takes longer to start than to compile a program. Equal kernels are
// compiled once.
class Programs {
 public:
  explicit Programs(const Target& target) : target_(target), source_(prelude(target.dialect)) {}

  void add_all(const std::string& name, const std::string& text) {
    SCOPED_TRACE(name);
    Target target = target_;
    target.atomics = name == "atomics";
    target.fused_attention = name == "fused_attention";
    for (const program::Program& program : program::parse_and_verify(text).programs) {
      add(name + "." + program.name, generate(program, target));
    }
  }

  // Of devices of capability 9.0 for wgmma, and of all from 8.0 on for other kernels that ask for more.
  long most_shared() const { return (target_.wgmma ? 227 : 99) * 1024L; }

  // A line for each kernel: the program, the kernel, its first statement, threads and resources.
  std::string table() const {
    const std::map<std::string, Resources> resources = resources_of(source_, target_);
    std::string lines;
    for (const auto& [name, kernel] : kernels_) {
      const auto found = resources.find(kernel.name);
      if (found == resources.end()) {
        ADD_FAILURE() << "the compiler does not report the kernel of " << name;
        continue;
      }
      const Resources& used = found->second;
      const long shared = used.shared + static_cast<long>(kernel.dynamic_shared_bytes);
      const std::string line =
          name + ": " + std::to_string(kernel.threads) + " threads, " + std::to_string(used.registers) +
          " registers, " + std::to_string(shared) + " bytes shared" +
          (used.spilled == 0 ? "" : ", " + std::to_string(used.spilled) + " spilled") + "\n";
      if (name.starts_with("products") || name.starts_with("rows") || name.starts_with("fused_attention")) {
        EXPECT_EQ(used.spilled, 0) << "registers are spilled by " << line;
      }
      EXPECT_LE(shared,
                kernel.dynamic_shared_bytes == 0 ? static_cast<long>(target_.shared_bytes) : most_shared())
          << line;
      EXPECT_EQ(used.arguments, argument_bytes_.at(kernel.name)) << line;
      lines += line;
    }
    return lines;
  }

 private:
  void add(const std::string& program, Plan plan) {
    const std::string space = "p" + std::to_string(spaces_++) + "_";
    const std::string start = "YK_KERNEL(";
    std::string rest = plan.source.substr(prelude(target_.dialect).size());
    const std::string functions = rest.substr(0, rest.find(start));
    std::string text = functions;
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      Kernel& kernel = plan.kernels[i];
      rest.erase(0, rest.find(start));
      std::string one = rest.substr(0, rest.find(start, 1));
      rest.erase(0, one.size());
      const std::size_t name = one.find(kernel.name + "(");
      ASSERT_NE(name, std::string::npos) << one;
      std::string nameless = one;
      if (!texts_.insert(functions + nameless.erase(name, kernel.name.size())).second) {
        continue;
      }
      text += one.insert(name, space);
      kernel.name.insert(0, space);
      kernels_.emplace_back(
          program + " kernel " + std::to_string(i) + " of statement " + std::to_string(kernel.statement),
          kernel);
      for (const Launch& launch : plan.launches) {
        if (launch.kernel == i) {
          const std::size_t count =
              launch.slots.size() + (launch.reads_symbols ? 1 : 0) + (launch.reads_variable ? 1 : 0);
          argument_bytes_[kernel.name] = static_cast<long>(8 * count);
        }
      }
    }
    source_.append("namespace ").append(space).append(" {\n").append(text).append("}\n");
  }

  Target target_;
  std::string source_;
  std::vector<std::pair<std::string, Kernel>> kernels_;
  std::map<std::string, long> argument_bytes_;  // by the name of a kernel
  std::set<std::string> texts_;                 // of kernels, without their names
  std::size_t spaces_ = 0;
};

// Every model on every architecture takes minutes.
bool compiles_all() {
  const char* text = std::getenv("YOKE_RESOURCES");
  return (text != nullptr && std::string(text) == "all") || std::getenv("YOKE_UPDATE_RESOURCES") != nullptr;
}

// The lines of a table without those of kernels that are only compiled on request.
std::string compiled_lines(const std::string& table) {
  std::istringstream lines(table);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += line.starts_with(kLargestModel) && !compiles_all() ? "" : line + "\n";
  }
  return result;
}

// Why kernels for the target cannot be compiled here; empty if they can.
std::string missing_compiler(const Target& target) {
  if (compiler_version(target).empty()) {
    return target.dialect == Dialect::kCuda ? "NVRTC 13 (libnvrtc.so.13) is not installed"
           : is_new_amd(target) ? "clang++-19, which knows " + target.architecture + ", is not installed"
                                : "hiprtc (libamdhip64-dev) is not installed";
  }
  if (target.dialect == Dialect::kHip && std::system("llvm-readelf --version > /dev/null 2>&1") != 0) {
    return "llvm-readelf, which reads the resources of code objects, is not installed";
  }
  return "";
}

// Compares the kernels with a table, or writes the table.
void check_table(const Programs& programs, const Target& target, const std::string& file) {
  std::string table = "# " + compiler_version(target) + ", " + file + '\n';
  ASSERT_NO_THROW(table += programs.table());
  const std::string path = kFolder + "tables/" + file + ".txt";
  if (std::getenv("YOKE_UPDATE_RESOURCES") != nullptr) {
    std::ofstream(path) << table;
  }
  const std::string expected = compiled_lines(contents(path));
  if (expected.empty()) {
    FAIL() << path << " is missing; YOKE_UPDATE_RESOURCES=1 writes it";
  }
  if (expected.substr(0, expected.find('\n')) != table.substr(0, table.find('\n'))) {
    GTEST_SKIP() << "all kernels compile; the table is for another compiler: "
                 << expected.substr(0, expected.find('\n'));
  }
  EXPECT_EQ(table, expected) << "if this is intended, run the test with YOKE_UPDATE_RESOURCES=1 and commit "
                             << path;
}

class ResourcesTest : public testing::TestWithParam<const char*> {};

TEST_P(ResourcesTest, KernelsCompileAndMatchTheTable) {
  const Target target = target_of(GetParam());
  if (const std::string missing = missing_compiler(target); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  Programs programs(target);
  for (const auto& [name, path] : program_files()) {
    if (target.wgmma && name != "products") {
      continue;  // the same as without
    }
    if (target.dialect == Dialect::kHip && name == "fused_attention") {
      continue;  // the option has no effect
    }
    programs.add_all(name, contents(path));
  }
  check_table(programs, target, GetParam());
}

// gfx908 differs from gfx90a only in products of bf16.
std::vector<const char*> architectures() {
  std::vector<const char*> names = {"sm_80",  "sm_90",   "sm_90a", "sm_100", "gfx906",
                                    "gfx90a", "gfx1030", "gfx942", "gfx1100"};
  if (compiles_all()) {
    names.push_back("gfx908");
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, ResourcesTest, testing::ValuesIn(architectures()),
                         [](const auto& one) { return std::string(one.param); });

class ModelResourcesTest : public testing::TestWithParam<const char*> {};

TEST_P(ModelResourcesTest, KernelsCompileAndMatchTheTable) {
  const Target target = target_of(GetParam());
  if (const std::string missing = missing_compiler(target); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  Programs programs(target);
  for (const auto& [name, text] : model_programs(compiles_all())) {
    programs.add_all(name, text);
  }
  check_table(programs, target, std::string("models_") + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Architectures, ModelResourcesTest,
                         testing::ValuesIn(compiles_all()
                                               ? std::vector<const char*>{"sm_80", "sm_90", "sm_100",
                                                                          "gfx906", "gfx90a", "gfx1030"}
                                               : std::vector<const char*>{"sm_90", "gfx90a"}),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace yoke::codegen::test
