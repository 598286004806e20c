// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/private_library_test.cpp: an allow-list also covers a plugin's private libraries.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <random>

#include "../../support/count_allocations.h"
#include "loader/allow_list.h"
#include "loader/elf_needs.h"
#include "loader/private_libraries.h"
#include "loader_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path built_folder(const std::string& way) {
  return std::filesystem::path(LOADER_TEST_PLUGINS) / ("private_" + way);
}

// A line of an allow-list.
std::string line(const std::filesystem::path& path, const std::string& name = {}) {
  const loader::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return loader::sha256_of(file.get()) + "  " + (name.empty() ? path.string() : name) + "\n";
}

// The plugin needs the library `outer`, which needs `inner`. With DT_RUNPATH each names the folder of the
// next; with DT_RPATH the plugin names both.
class PrivateLibraryTest : public LoaderTest, public ::testing::WithParamInterface<const char*> {
 protected:
  PrivateLibraryTest() {
    std::filesystem::copy(built_folder(GetParam()), folder_, std::filesystem::copy_options::recursive);
  }
  static std::string name() { return std::string("private_") + GetParam(); }
  Path plugin() const { return file(name()); }
  Path outer() const { return folder_ / library("outer"); }
  Path inner() const { return folder_ / "inner" / library("inner"); }
  // A name per parameter: the linker reuses a mapped library of the same name.
  static std::string library(const std::string& name) {
    return "libloader_test_" + name + "_" + GetParam() + ".so";
  }

  std::string error(const RuntimeOptions& given) {
    Runtime runtime(given);
    return load(runtime, name()).error;
  }
};
INSTANTIATE_TEST_SUITE_P(By, PrivateLibraryTest, ::testing::Values("runpath", "rpath"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(PrivateLibraryTest, UnlistedLibraryIsRefusedBeforeAnythingRuns) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  EXPECT_THAT(error(allowing(line(plugin()) + line(inner()))),
              AllOf(HasSubstr("its library " + outer().string() + " is refused: it is not in the allow-list"),
                    HasSubstr("add the line that sha256sum prints for it")));
  EXPECT_THAT(error(allowing(line(plugin()) + line(outer()))),
              AllOf(HasSubstr("its library " + outer().string()),
                    HasSubstr("inner/" + library("inner") + " is refused: it is not in the allow-list")));
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << loaded();
}

TEST_P(PrivateLibraryTest, ListedLibrariesAreLoaded) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  EXPECT_EQ(error(allowing(line(plugin()) + line(outer()) + line(inner()))), "");
  EXPECT_EQ(loaded(), "inner\nouter\n" + name() + "\n");
}

TEST_P(PrivateLibraryTest, LibrariesAreNotCheckedWithoutAnAllowList) {
  EXPECT_EQ(error(options()), "");
}

TEST_P(PrivateLibraryTest, OtherBuildOfALibraryIsRefused) {
  const auto given = allowing(line(plugin()) + line(outer()) + line(inner()));
  std::ofstream(inner(), std::ios::binary | std::ios::app) << "more";
  EXPECT_THAT(error(given), AllOf(HasSubstr("inner/" + library("inner") + " is refused: its sha256 is "),
                                  HasSubstr("install the listed build")));
}

TEST_P(PrivateLibraryTest, VariantForANewerProcessorIsCheckedToo) {
  const auto variant = folder_ / "glibc-hwcaps" / "x86-64-v9" / outer().filename();
  std::filesystem::create_directories(variant.parent_path());
  write_file(variant, read_whole(outer()) + "more");
  EXPECT_THAT(error(allowing(line(plugin()) + line(outer()) + line(inner()))),
              HasSubstr("its library " + variant.string() + " is refused: it is not in the allow-list"));
}

TEST_P(PrivateLibraryTest, FailedAllocationNeverAdmitsAnUnlistedVariant) {
  const auto variant = folder_ / "glibc-hwcaps" / "x86-64-v9" / outer().filename();
  std::filesystem::create_directories(variant.parent_path());
  write_file(variant, read_whole(outer()) + "more");
  const auto list =
      loader::AllowList::read(allowing(line(plugin()) + line(outer()) + line(inner())).allow_list);
  const loader::Trust trust{.allow_list = &list};
  loader::Admission admission = loader::admit_alone(loader::resolve(plugin()), trust);
  ASSERT_FALSE(admission.refusal) << admission.refusal.reason;
  std::uint64_t failed = 0;
  bool is_reached = true;
  for (std::uint64_t first = 0; is_reached; ++first) {
    bool is_admitted = false;
    admission.libraries.clear();
    {
      const FailAllocations failing(first, FailAllocations::Which::kOne);
      try {
        is_admitted = !loader::admit_private_libraries(plugin(), trust, admission);
      } catch (const std::bad_alloc&) {
        ++failed;
      }
      is_reached = FailAllocations::call_count() > first;
    }
    EXPECT_FALSE(is_admitted) << "call " << first << " of operator new failed";
  }
  EXPECT_GT(failed, 50U);
}

// The linker needs only the right to search the folder.
TEST_P(PrivateLibraryTest, VariantInAFolderThatCannotBeListedIsRefused) {
  const auto variants = folder_ / "glibc-hwcaps";
  std::filesystem::create_directories(variants / "x86-64-v9");
  std::filesystem::copy_file(outer(), variants / "x86-64-v9" / outer().filename());
  const auto list =
      loader::AllowList::read(allowing(line(plugin()) + line(outer()) + line(inner())).allow_list);
  const loader::Trust trust{.allow_list = &list};
  loader::Admission admission = loader::admit_alone(loader::resolve(plugin()), trust);
  ASSERT_FALSE(admission.refusal) << admission.refusal.reason;
  ::chmod(root_.path().c_str(), 0711);
  ::chmod(variants.c_str(), 0111);
  const bool is_root = ::geteuid() == 0;  // who may list every folder
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  const auto refusal = loader::admit_private_libraries(plugin(), trust, admission);
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  ::chmod(variants.c_str(), 0700);
  EXPECT_THAT(refusal.reason,
              AllOf(HasSubstr("its library folder " + variants.string() + " cannot be listed"),
                    HasSubstr("Permission denied")));
}

TEST_P(PrivateLibraryTest, LibrariesThatNeedEachOtherAreCheckedOnce) {
  std::filesystem::remove(inner());
  std::filesystem::copy_file(outer(), inner());  // so that it needs itself
  std::filesystem::create_directory_symlink(".", inner().parent_path() / "inner");
  EXPECT_THAT(error(allowing(line(plugin()) + line(outer()) + line(inner()))), Not(HasSubstr("refused")));
}

TEST_P(PrivateLibraryTest, LibraryIsListedByItsNameOrTheNameOfALink) {
  const auto versioned = folder_ / (library("outer") + ".1.2");
  std::filesystem::rename(outer(), versioned);
  std::filesystem::create_symlink(versioned.filename(), outer());
  const auto others = line(plugin()) + line(inner());
  EXPECT_EQ(error(allowing(others + line(outer(), outer().filename()))), "");
  EXPECT_EQ(error(allowing(others + line(outer(), versioned.filename()))), "");
  EXPECT_THAT(error(allowing(others + line(outer(), "libother.so"))), HasSubstr("not in the allow-list"));
}

// The log line is written between the check and the mapping, so the sink swaps the file at the worst moment.
TEST_P(PrivateLibraryTest, LibrarySwappedAfterTheCheckDoesNotRun) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  auto given = allowing(line(plugin()) + line(outer()) + line(inner()));
  given.log_sink = [&](LogLevel, std::string_view text) {
    if (text.starts_with("plugin.open ")) {
      std::filesystem::copy_file(inner(), folder_ / "new");
      std::filesystem::rename(folder_ / "new", inner());
    }
  };
  EXPECT_THAT(error(given),
              HasSubstr(library("inner") + " was replaced while being loaded; try again when its"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << loaded();
}

class ElfNeedsTest : public LoaderTest {
 protected:
  static Path private_plugin(const std::string& way) {
    return built_folder(way) / file_name("private_" + way);
  }
  static std::optional<loader::ElfNeeds> needs_of(const std::filesystem::path& path) {
    const loader::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return loader::read_needs(file.get(), std::filesystem::file_size(path));
  }
};

TEST_F(ElfNeedsTest, ReadsLibrariesAndFoldersUnexpanded) {
  const auto by_runpath = needs_of(private_plugin("runpath"));
  ASSERT_TRUE(by_runpath);
  EXPECT_THAT(by_runpath->libraries, Contains("libloader_test_outer_runpath.so"));
  EXPECT_THAT(by_runpath->runpath, ElementsAre("$ORIGIN"));
  EXPECT_TRUE(by_runpath->rpath.empty());
  const auto by_rpath = needs_of(private_plugin("rpath"));
  ASSERT_TRUE(by_rpath);
  EXPECT_THAT(by_rpath->rpath, ElementsAre("$ORIGIN", "${ORIGIN}/inner"));
  EXPECT_TRUE(by_rpath->runpath.empty());
}

TEST_F(ElfNeedsTest, RelativeFolderIsRefusedUnderAnAllowList) {
  Runtime runtime(allowing(line(place("relative_runpath"))));
  EXPECT_THAT(
      load(runtime, "relative_runpath").error,
      AllOf(HasSubstr("it searches 'lib/private' for libraries, which depends on the working directory"),
            HasSubstr("link it with absolute folders or with $ORIGIN")));
}

TEST_F(ElfNeedsTest, ExpandsOriginToAbsolutePathsOnly) {
  const auto expand = [](const std::string& text) { return loader::expand_origin(text, "/opt/y"); };
  EXPECT_EQ(expand("$ORIGIN"), "/opt/y");
  EXPECT_EQ(expand("${ORIGIN}/../lib"), "/opt/y/../lib");
  EXPECT_EQ(expand("/usr/lib"), "/usr/lib");
  for (const char* text : {"", ".", "lib", "$LIB", "/x/${PLATFORM}", "lib/$ORIGIN", "/x/$"}) {
    EXPECT_EQ(expand(text), std::nullopt) << text;
  }
}

TEST_F(ElfNeedsTest, DamagedFilesDoNotCrashTheReader) {
  const auto whole = read_whole(private_plugin("runpath"));
  const auto damaged = root_ / "damaged";
  std::mt19937 random(11);
  int answered = 0;
  for (int round = 0; round < 200; ++round) {
    auto bytes = whole.substr(0, round % 4 == 0 ? random() % whole.size() : whole.size());
    for (int change = 0; change < 20 && !bytes.empty(); ++change) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 1024)] = static_cast<char>(random());
    }
    write_file(damaged, bytes);
    const auto needs = needs_of(damaged);
    answered += needs ? 1 : 0;
    EXPECT_LE(needs ? needs->libraries.size() : 0, 256U);
  }
  EXPECT_LT(answered, 200);
}

}  // namespace
}  // namespace yoke::test
