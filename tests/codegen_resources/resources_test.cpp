// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/resources_test.cpp: compiles the kernels of the corpus and of models with NVRTC and
// hiprtc, and compares the resources that they use with tables. YOKE_UPDATE_RESOURCES=1 writes the tables.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler.h"
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
  } else {
    target.dialect = Dialect::kHip;
    target.architecture = name;
    target.warp_size = name.starts_with("gfx10") ? 32 : 64;
    target.shared_bytes = 64 * 1024;
  }
  return target;
}

// All programs as one text, because a compiler takes longer to start than to compile a program.
class Programs {
 public:
  explicit Programs(const Target& target) : target_(target), source_(prelude(target.dialect)) {
    for (const auto& [name, path] : program_files()) {
      SCOPED_TRACE(path);
      for (const program::Program& program : program::parse_and_verify(contents(path)).programs) {
        add(name + "." + program.name, generate(program, target));
      }
    }
  }

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
      const std::string line =
          name + ": " + std::to_string(kernel.threads) + " threads, " + std::to_string(used.registers) +
          " registers, " + std::to_string(used.shared) + " bytes shared" +
          (used.spilled == 0 ? "" : ", " + std::to_string(used.spilled) + " spilled") + "\n";
      if (name.starts_with("products") || name.starts_with("rows")) {
        EXPECT_EQ(used.spilled, 0) << "registers are spilled by " << line;
      }
      EXPECT_LE(used.shared, static_cast<long>(target_.shared_bytes)) << line;
      lines += line;
    }
    return lines;
  }

 private:
  void add(const std::string& program, Plan plan) {
    const std::string space = "p" + std::to_string(spaces_++);
    std::string text = plan.source.substr(prelude(target_.dialect).size());
    const std::string from = ") yoke_";
    const std::string to = ") " + space + "_yoke_";
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    source_.append("namespace ").append(space).append(" {\n").append(text).append("}\n");
    for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
      Kernel& kernel = plan.kernels[i];
      kernel.name = space + "_" + kernel.name;
      kernels_.emplace_back(
          program + " kernel " + std::to_string(i) + " of statement " + std::to_string(kernel.statement),
          kernel);
    }
  }

  Target target_;
  std::string source_;
  std::vector<std::pair<std::string, Kernel>> kernels_;
  std::size_t spaces_ = 0;
};

class ResourcesTest : public testing::TestWithParam<const char*> {};

TEST_P(ResourcesTest, KernelsCompileAndMatchTheTable) {
  const Target target = target_of(GetParam());
  const std::string version = compiler_version(target.dialect);
  if (version.empty()) {
    GTEST_SKIP() << (target.dialect == Dialect::kCuda ? "NVRTC 13 (libnvrtc.so.13) is not installed"
                                                      : "hiprtc (libamdhip64-dev) is not installed");
  }
  if (target.dialect == Dialect::kHip && std::system("llvm-readelf --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "llvm-readelf, which reads the resources of code objects, is not installed";
  }
  std::string table = "# " + version + ", " + GetParam() + '\n';
  ASSERT_NO_THROW(table += Programs(target).table());
  const std::string path = kFolder + "tables/" + GetParam() + ".txt";
  if (std::getenv("YOKE_UPDATE_RESOURCES") != nullptr) {
    std::ofstream(path) << table;
  }
  const std::string expected = contents(path);
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

INSTANTIATE_TEST_SUITE_P(Architectures, ResourcesTest,
                         testing::Values("sm_80", "sm_90", "sm_100", "gfx906", "gfx90a", "gfx1030"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace yoke::codegen::test
