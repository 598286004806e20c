// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/private_library_test.cpp: an allow-list holds for the libraries that a plugin brings
// along as well.
#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "fixture.h"
#include "loader/allow_list.h"
#include "loader/elf_needs.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The plugin needs the library `outer`, which needs `inner`. With DT_RUNPATH each names the folder of the
// next; with DT_RPATH the plugin names both.
class PrivateLibraryTest : public LoaderTest, public ::testing::WithParamInterface<const char*> {
 protected:
  PrivateLibraryTest() : folder_(folder_with("brings_by_" + std::string(GetParam()))) {
    std::filesystem::copy(
        built(folder_.filename()).parent_path(), folder_,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing);
  }
  std::filesystem::path plugin() const { return folder_ / "libyoke_backend_good.so"; }
  std::filesystem::path outer() const { return folder_ / file("outer"); }
  std::filesystem::path inner() const { return folder_ / "inner" / file("inner"); }
  // Each way has its own: the linker takes what is mapped already under that name.
  static std::string file(const std::string& name) {
    return "libloader_test_" + name + "_" + GetParam() + ".so";
  }

  static std::string line(const std::filesystem::path& path, const std::string& name = {}) {
    const loader::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return loader::sha256_of(file.get()) + "  " + (name.empty() ? path.string() : name) + "\n";
  }
  RuntimeOptions allowing(const std::string& lines) {
    write(root_ / "allowed", lines);
    auto given = options({folder_});
    given.allow_list = root_ / "allowed";
    return given;
  }
  // What asking for the plugin says; empty: it loads.
  std::string asked(const RuntimeOptions& given) {
    try {
      Runtime(given).backend("good");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  const std::filesystem::path folder_;
};
INSTANTIATE_TEST_SUITE_P(Ways, PrivateLibraryTest, ::testing::Values("runpath", "rpath"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(PrivateLibraryTest, WhatIsNotListedIsRefusedBeforeAnythingOfThePluginRuns) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  EXPECT_THAT(asked(allowing(line(plugin()) + line(inner()))),
              AllOf(HasSubstr("its library " + outer().string() + " is refused: it is not in the allow-list"),
                    HasSubstr("add what sha256sum prints for it")));
  EXPECT_THAT(asked(allowing(line(plugin()) + line(outer()))),
              AllOf(HasSubstr("its library " + outer().string()),
                    HasSubstr("inner/" + file("inner") + " is refused: it is not in the allow-list")));
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << read(root_ / "loaded");
}

TEST_P(PrivateLibraryTest, WithAllOfThemListedItLoads) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  EXPECT_EQ(asked(allowing(line(plugin()) + line(outer()) + line(inner()))), "");
  EXPECT_EQ(read(root_ / "loaded"), "inner\nouter\ngood\n");
}

TEST_P(PrivateLibraryTest, WithoutAnAllowListNothingIsAskedOfThem) {
  EXPECT_EQ(asked(options({folder_})), "");
}

TEST_P(PrivateLibraryTest, AnotherBuildOfALibraryIsRefused) {
  const auto given = allowing(line(plugin()) + line(outer()) + line(inner()));
  std::ofstream(inner(), std::ios::binary | std::ios::app) << "more";
  EXPECT_THAT(asked(given), AllOf(HasSubstr("inner/" + file("inner") + " is refused: its sha256 is "),
                                  HasSubstr("install the build that was allowed")));
}

TEST_P(PrivateLibraryTest, AVariantForABetterProcessorCountsAsWell) {
  const auto variant = folder_ / "glibc-hwcaps" / "x86-64-v9" / outer().filename();
  write(variant, read(outer()) + "more");
  EXPECT_THAT(asked(allowing(line(plugin()) + line(outer()) + line(inner()))),
              HasSubstr("its library " + variant.string() + " is refused: it is not in the allow-list"));
}

TEST_P(PrivateLibraryTest, ALibraryIsListedByItsOwnNameOrByThatOfALinkToIt) {
  const auto versioned = folder_ / (file("outer") + ".1.2");
  std::filesystem::rename(outer(), versioned);
  std::filesystem::create_symlink(versioned.filename(), outer());
  const auto others = line(plugin()) + line(inner());
  EXPECT_EQ(asked(allowing(others + line(outer(), outer().filename()))), "");
  EXPECT_EQ(asked(allowing(others + line(outer(), versioned.filename()))), "");
  EXPECT_THAT(asked(allowing(others + line(outer(), "libother.so"))), HasSubstr("not in the allow-list"));
}

// The log's line stands between check and open, so its receiver swaps at the worst moment.
TEST_P(PrivateLibraryTest, ALibraryThatIsSwappedAfterTheCheckDoesNotRun) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  auto given = allowing(line(plugin()) + line(outer()) + line(inner()));
  given.log_sink = [&](LogLevel, std::string_view text) {
    if (text.starts_with("plugin.open ")) {
      std::filesystem::copy_file(inner(), folder_ / "new");
      std::filesystem::rename(folder_ / "new", inner());
    }
  };
  EXPECT_THAT(asked(given),
              HasSubstr(file("inner") + " was replaced while it was loaded; try again when its"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded")) << read(root_ / "loaded");
}

class ElfNeedsTest : public LoaderTest {
 protected:
  static std::optional<loader::ElfNeeds> needs_of(const std::filesystem::path& path) {
    const loader::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return loader::read_needs(file.get(), std::filesystem::file_size(path));
  }
};

TEST_F(ElfNeedsTest, LibrariesAndFoldersAreReadAsTheyStand) {
  const auto by_runpath = needs_of(built("brings_by_runpath"));
  ASSERT_TRUE(by_runpath);
  EXPECT_THAT(by_runpath->libraries, Contains("libloader_test_outer_runpath.so"));
  EXPECT_THAT(by_runpath->runpath, ElementsAre("$ORIGIN"));
  EXPECT_TRUE(by_runpath->rpath.empty());
  const auto by_rpath = needs_of(built("brings_by_rpath"));
  ASSERT_TRUE(by_rpath);
  EXPECT_THAT(by_rpath->rpath, ElementsAre("$ORIGIN", "${ORIGIN}/inner"));
  EXPECT_TRUE(by_rpath->runpath.empty());
}

TEST_F(ElfNeedsTest, AFolderThatDependsOnTheWorkingDirectoryIsRefusedUnderAnAllowList) {
  const auto folder = folder_with("relative_runpath");
  const loader::Descriptor file(::open((folder / "libyoke_backend_good.so").c_str(), O_RDONLY | O_CLOEXEC));
  write(root_ / "allowed", loader::sha256_of(file.get()) + "  libyoke_backend_good.so\n");
  auto given = options({folder});
  given.allow_list = root_ / "allowed";
  Runtime runtime(given);
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              AllOf(HasSubstr("it looks for libraries in 'lib/private', and which file that is cannot be"),
                    HasSubstr("link it with absolute folders or with $ORIGIN")));
}

TEST_F(ElfNeedsTest, OnlyOriginIsExpandedAndOnlyToAnAbsolutePath) {
  const auto expand = [](const std::string& text) { return loader::expand_origin(text, "/opt/y"); };
  EXPECT_EQ(expand("$ORIGIN"), "/opt/y");
  EXPECT_EQ(expand("${ORIGIN}/../lib"), "/opt/y/../lib");
  EXPECT_EQ(expand("/usr/lib"), "/usr/lib");
  for (const char* text : {"", ".", "lib", "$LIB", "/x/${PLATFORM}", "lib/$ORIGIN", "/x/$"}) {
    EXPECT_EQ(expand(text), std::nullopt) << text;
  }
}

TEST_F(ElfNeedsTest, ADamagedFileIsAnAnswerAndNoCrash) {
  const auto whole = read(built("brings_by_runpath"));
  const auto damaged = root_ / "damaged";
  std::mt19937 random(11);
  int answered = 0;
  for (int round = 0; round < 200; ++round) {
    auto bytes = whole.substr(0, round % 4 == 0 ? random() % whole.size() : whole.size());
    for (int change = 0; change < 20 && !bytes.empty(); ++change) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 1024)] = static_cast<char>(random());
    }
    write(damaged, bytes);
    const auto needs = needs_of(damaged);
    answered += needs ? 1 : 0;
    EXPECT_LE(needs ? needs->libraries.size() : 0, 256U);
  }
  EXPECT_LT(answered, 200);
}

}  // namespace
}  // namespace yoke::test
