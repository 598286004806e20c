// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/search_test.cpp: the folders that are searched and
// their order, listings, and unknown names.
#include <set>
#include <sstream>

#include "loader_test.h"
#include "test_paths.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class SearchTest : public LoaderTest {
 protected:
  RuntimeOptions with_environment() {
    auto given = options({});
    given.search_environment = true;
    return given;
  }
  // File names of the plugins that are mapped into this process.
  static std::set<std::string> mapped_plugins() {
    std::set<std::string> names;
    std::istringstream maps(read_whole("/proc/self/maps"));
    for (std::string line; std::getline(maps, line);) {
      if (const auto begin = line.find("libyoke_backend_"); begin != std::string::npos) {
        names.insert(line.substr(begin));
      }
    }
    return names;
  }
};

TEST_F(SearchTest, FirstFolderWinsAndShadowsOthers) {
  const auto first = place("good");
  const auto second = place("good", root_ / "second");
  auto given = with_probe();
  given.plugin_dirs.push_back(root_ / "second");
  Runtime runtime(given);
  EXPECT_EQ(runtime.backend("good")->path(), first);
  const auto found = reports_of(runtime, "good");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, first);
  EXPECT_EQ(found[0].shadowed_by, "");
  EXPECT_EQ(found[1].path, second);
  EXPECT_EQ(found[1].shadowed_by, first);
  EXPECT_FALSE(is_mapped(second));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("2 plugin.shadowed name=good"), HasSubstr(second.string()))));
}

TEST_F(SearchTest, RefusedFirstFileIsAnErrorEvenIfAnotherFolderHasTheName) {
  write_file(file("good"), "no plugin");
  place("good", root_ / "second");
  Runtime runtime(options({folder_, root_ / "second"}));
  EXPECT_THAT(load(runtime, "good").error, HasSubstr(file("good").string() + " was refused"));
}

TEST_F(SearchTest, FileWithSeveralPathsIsListedOnce) {
  const auto path = place("good");
  std::filesystem::create_directories(root_ / "links");
  std::filesystem::create_symlink(path, root_ / "links" / path.filename());
  std::filesystem::create_directory_symlink(folder_, root_ / "again");
  std::filesystem::create_directories(root_ / "hard");
  std::filesystem::create_hard_link(path, root_ / "hard" / path.filename());
  const Runtime runtime(options({root_ / "links", folder_, root_ / "again", root_ / "hard"}));
  const auto found = reports_of(runtime, "good");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, path) << "the path is canonical";
}

TEST_F(SearchTest, OnlyExactFileNamesArePlugins) {
  place("good");
  for (const char* name : {"yoke_backend_good.so", "libyoke_backend_.so", "libyoke_backend_good.so.1",
                           "libyoke_backend_good.txt"}) {
    std::filesystem::copy_file(built("good"), folder_ / name);
  }
  const Runtime runtime(options());
  EXPECT_EQ(reports_of(runtime, "good").size(), 1U);
  EXPECT_TRUE(reports_of(runtime, "").empty());
}

TEST_F(SearchTest, InvalidBackendNameIsListedWithTheReasonAndEscaped) {
  place("Good-2");
  write_file(file("x\x1b[2J"), "no plugin");
  Runtime runtime(options());
  EXPECT_FALSE(report_of(runtime, "Good-2").usable);
  EXPECT_THAT(report_of(runtime, "Good-2").verdict, HasSubstr("is not a valid backend name"));
  EXPECT_THAT(report_of(runtime, "x\\x1b[2J").verdict,
              HasSubstr("'x\\x1b[2J' in its file name is not a valid backend name"));
  EXPECT_THAT(error_of([&] { runtime.backend("absent"); }).what(),
              AllOf(HasSubstr("x\\x1b[2J was refused ("), Not(HasSubstr("\x1b"))));
}

TEST_F(SearchTest, ListingIsSortedAndLoadsNothing) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  place("zzz");
  place("aaa");
  write_file(file("broken"), "no plugin");
  auto given = with_probe();
  given.probe.which = ProbeOptions::Which::kAll;
  const Runtime runtime(given);

  auto found = runtime.list_backends();
  std::erase_if(found, [&](const auto& one) { return one.path.parent_path() != folder_; });

  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "aaa");
  EXPECT_EQ(found[0].stage, "checked");
  EXPECT_EQ(found[0].verdict, "not loaded yet");
  EXPECT_EQ(found[0].probed, "no: it has not been loaded yet");
  EXPECT_EQ(found[1].name, "broken");
  EXPECT_EQ(found[1].stage, "found");
  EXPECT_THAT(found[1].verdict, HasSubstr("it is a text file"));
  EXPECT_FALSE(found[1].usable);
  EXPECT_EQ(found[2].name, "zzz");
  EXPECT_EQ(loaded(), "");
  EXPECT_FALSE(is_mapped(folder_));
}

TEST_F(SearchTest, LoadingOneBackendLoadsNoOther) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  place("good");
  place("other");
  const auto before = mapped_plugins();
  Runtime runtime(options());
  runtime.backend("good");
  const auto cc = Path(test::plugin_folder()) / file_name("cc");
  if (std::filesystem::exists(cc)) {
    EXPECT_EQ(runtime.backend("cc")->path(), std::filesystem::canonical(cc));
  }
  EXPECT_EQ(loaded(), "good\n");
  EXPECT_FALSE(is_mapped(file("other")));
  auto after = mapped_plugins();
  std::erase_if(after, [&](const auto& name) { return before.count(name) > 0; });
  EXPECT_THAT(after, ::testing::IsSubsetOf({file_name("good"), file_name("cc")}));
}

TEST_F(SearchTest, PluginPathIsSearchedInOrderWithoutEmptyAndRelativeEntries) {
  place("good");
  const auto second = place("good", root_ / "second");
  const Variable path("YOKE_PLUGIN_PATH",
                      "relative:" + (root_ / "second").string() + "::" + folder_.string());
  Runtime runtime(with_environment());

  const auto found = reports_of(runtime, "good");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, second);
  const auto skipped = [&](const char* text) {
    return AllOf(HasSubstr("3 plugin.path_skip"), HasSubstr(text));
  };
  EXPECT_THAT(lines_,
              AllOf(Contains(skipped("entry 'relative' is not absolute")), Contains(skipped("empty entry"))));
  EXPECT_THAT(error_of([&] { runtime.backend("absent"); }).what(),
              HasSubstr("entry 'relative' is not absolute"));
  const auto ignored = reports_of(runtime, "");
  ASSERT_EQ(ignored.size(), 2U);
  EXPECT_EQ(ignored[0].path, "relative");
  EXPECT_FALSE(ignored[0].usable);
  EXPECT_THAT(ignored[0].verdict, HasSubstr("entry 'relative' is not absolute"));
  EXPECT_THAT(ignored[1].fix, HasSubstr("remove the extra ':'"));
}

TEST_F(SearchTest, FolderOfPluginDirsThatDoesNotExistIsReported) {
  RuntimeOptions given = options({root_ / "none"});
  Runtime runtime(given);
  const auto ignored = reports_of(runtime, "");
  ASSERT_EQ(ignored.size(), 1U);
  EXPECT_THAT(ignored[0].verdict,
              HasSubstr("plugin_dirs' entry '" + (root_ / "none").string() + "' does not exist"));
}

TEST_F(SearchTest, FolderOfThePluginPathThatDoesNotExistIsReportedAndSearchedLater) {
  const auto late = root_ / "late";
  write_file(root_ / "file", "");
  const Variable path("YOKE_PLUGIN_PATH", late.string() + ":" + (root_ / "file").string());
  Runtime runtime(with_environment());

  const auto ignored = reports_of(runtime, "");
  ASSERT_EQ(ignored.size(), 2U);
  EXPECT_THAT(ignored[0].verdict, HasSubstr("entry '" + late.string() + "' does not exist"));
  EXPECT_THAT(ignored[1].verdict, HasSubstr("file' is not a folder"));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("3 plugin.path_skip"), HasSubstr("is not a folder"))));
  const auto placed = place("good", late);
  EXPECT_THAT(
      error_of([&] { runtime.backend("goood"); }).what(),
      AllOf(HasSubstr("no backend 'goood'; did you mean 'good'? Found "), HasSubstr("does not exist")));
  EXPECT_EQ(reports_of(runtime, "good").front().path, placed);
}

TEST_F(SearchTest, WorkingDirectoryIsNeverSearched) {
  place("good");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const Variable path("YOKE_PLUGIN_PATH", ":.");
  Runtime runtime(with_environment());
  const auto found = reports_of(runtime, "good");
  const auto error = error_of([&] { runtime.backend("good"); });
  std::filesystem::current_path(before);
  EXPECT_TRUE(found.empty());
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST_F(SearchTest, UserFolderComesAfterThePluginPathAndIsInHomeWithoutXdgDataHome) {
  const Variable data("XDG_DATA_HOME", (root_ / "data").string());
  const Variable path("YOKE_PLUGIN_PATH", folder_.string());
  place("good");
  const auto user = place("good", root_ / "data" / "yoke" / "plugins");
  const auto found = reports_of(Runtime(with_environment()), "good");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].path, user);
  EXPECT_TRUE(reports_of(Runtime(options({})), "good").empty()) << "search_environment is off";
  const Variable no_data("XDG_DATA_HOME", "");
  const Variable home("HOME", root_.path().string());
  const auto in_home = place("good", root_ / ".local" / "share" / "yoke" / "plugins");
  EXPECT_EQ(reports_of(Runtime(with_environment()), "good").at(1).path, in_home);
}

TEST_F(SearchTest, RelativeFoldersAreIgnoredInTheEnvironmentAndErrorsInTheOptions) {
  const Variable data("XDG_DATA_HOME", "data");
  const Runtime runtime(with_environment());
  EXPECT_THAT(lines_, Contains(HasSubstr("XDG_DATA_HOME is 'data', which is not absolute")));
  EXPECT_THAT(error_of([&] { Runtime(options({"plugins"})); }),
              is_error(ErrorCode::kInvalidArgument, "plugin_dirs: 'plugins' is not absolute"));
}

TEST_F(SearchTest, ErrorForAnUnknownNameListsOthersAndFolders) {
  place("good");
  write_file(file("broken"), "no plugin");
  Runtime runtime(options());
  const auto error = error_of([&] { runtime.backend("cudaa"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  const auto install_folder = std::filesystem::canonical(LOADER_TEST_LIBYOKE).parent_path() / "yoke";
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no backend 'cudaa'"), HasSubstr("good"),
                                  HasSubstr("broken was refused ("), HasSubstr("it is a text file"),
                                  HasSubstr("put libyoke_backend_cudaa.so in"), HasSubstr(folder_.string()),
                                  HasSubstr(install_folder.string() + " (the install folder)")));
}

TEST_F(SearchTest, InvalidNamesAreNotSearched) {
  place("good");
  Runtime runtime(options());
  for (const auto& name :
       std::vector<std::string>{"../good/good", "", "Good", "9lives", "good.so", std::string(65, 'a')}) {
    EXPECT_THAT(error_of([&] { runtime.backend(name); }),
                is_error(ErrorCode::kNotFound, "a backend name is [a-z][a-z0-9_]*"))
        << name;
  }
}

TEST_F(SearchTest, LibyokeLinksNoNumericsAndNoGpuLibrary) {
  FILE* pipe = ::popen("ldd " LOADER_TEST_LIBYOKE, "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  for (char line[512]; ::fgets(line, sizeof(line), pipe) != nullptr;) {
    text += line;
  }
  ASSERT_EQ(::pclose(pipe), 0);
  ASSERT_THAT(text, HasSubstr("libc.so"));
  for (const char* name : {"dnnl", "OpenCL", "cuda", "cublas", "cudnn", "nccl", "hip", "roc", "gomp"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

}  // namespace
}  // namespace yoke::test
