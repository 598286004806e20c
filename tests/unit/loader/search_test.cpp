// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/search_test.cpp: where plugins are looked for, in which order, and what a listing says.
#include <set>
#include <sstream>

#include "fixture.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class SearchTest : public LoaderTest {
 protected:
  static std::string file_of(const std::string& name) { return "libyoke_backend_" + name + ".so"; }
  // File names of the plugins that are mapped into this process.
  static std::set<std::string> mapped_plugins() {
    std::set<std::string> names;
    std::istringstream maps(read("/proc/self/maps"));
    for (std::string line; std::getline(maps, line);) {
      if (const auto begin = line.find("libyoke_backend_"); begin != std::string::npos) {
        names.insert(line.substr(begin));
      }
    }
    return names;
  }
  RuntimeOptions with_environment() {
    auto given = options({});
    given.search_environment = true;
    return given;
  }
};

TEST_F(SearchTest, TheFirstFolderWinsAndTheOthersAreShadowed) {
  const auto first = folder_with("good");
  const auto second = folder_with("second");
  Runtime runtime(options({first, second}));

  const auto found = of(runtime, "good");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, first / "libyoke_backend_good.so");
  EXPECT_EQ(found[0].shadowed_by, "");
  EXPECT_EQ(found[1].path, second / "libyoke_backend_good.so");
  EXPECT_EQ(found[1].shadowed_by, found[0].path.string());
  EXPECT_EQ(runtime.backend("good")->path(), found[0].path);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("2 plugin.shadowed name=good"), HasSubstr(second.string()))));
}

TEST_F(SearchTest, ARefusedFileInTheFirstFolderIsAnErrorAndNeverASilentSecondChoice) {
  write(root_ / "first" / "libyoke_backend_good.so", "no plugin");
  Runtime runtime(options({root_ / "first", folder_with("good")}));
  EXPECT_THAT(error_of([&] { runtime.backend("good"); }).what(),
              HasSubstr("first/libyoke_backend_good.so was refused"));
}

TEST_F(SearchTest, OneFileUnderTwoPathsCountsOnce) {
  const auto folder = folder_with("good");
  std::filesystem::create_directories(root_ / "links");
  std::filesystem::create_symlink(folder / "libyoke_backend_good.so",
                                  root_ / "links" / "libyoke_backend_good.so");
  std::filesystem::create_directory_symlink(folder, root_ / "again");
  std::filesystem::create_directories(root_ / "hard");
  std::filesystem::create_hard_link(folder / "libyoke_backend_good.so",
                                    root_ / "hard" / "libyoke_backend_good.so");
  Runtime runtime(options({root_ / "links", folder, root_ / "again", root_ / "hard"}));

  const auto found = of(runtime, "good");

  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, folder / "libyoke_backend_good.so") << "the path is canonical";
}

TEST_F(SearchTest, OnlyTheExactFileNameIsAPlugin) {
  const auto folder = folder_with("good");
  for (const char* name : {"yoke_backend_good.so", "libyoke_backend_.so", "libyoke_backend_good.so.1",
                           "libyoke_backend_good.txt"}) {
    std::filesystem::copy_file(built("good"), folder / name);
  }
  Runtime runtime(options({folder}));
  EXPECT_EQ(of(runtime, "good").size(), 1U);
  EXPECT_TRUE(of(runtime, "").empty());
}

TEST_F(SearchTest, AFileWhoseNameIsNoBackendNameIsListedWithTheReason) {
  std::filesystem::copy_file(built("good"), root_ / "libyoke_backend_Good-2.so");
  Runtime runtime(options({root_}));

  const auto found = of(runtime, "Good-2");

  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].usable);
  EXPECT_THAT(found[0].verdict, HasSubstr("is no backend name"));
}

TEST_F(SearchTest, ListingIsSortedSaysWhyAndLoadsNothing) {
  folder_with("good");
  const auto folder = root_ / "good";
  std::filesystem::copy_file(built("decoy", "decoy"), folder / "libyoke_backend_decoy.so");
  write(folder / "libyoke_backend_broken.so", "no plugin");
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  Runtime runtime(options({folder}));

  auto found = runtime.list_backends();
  std::erase_if(found, [&](const auto& one) { return one.path.parent_path() != folder; });

  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "broken");
  EXPECT_EQ(found[0].stage, "found");
  EXPECT_FALSE(found[0].usable);
  EXPECT_NE(found[0].mend, "");
  EXPECT_EQ(found[1].name, "decoy");
  EXPECT_EQ(found[1].stage, "checked");
  EXPECT_EQ(found[1].verdict, "not loaded yet");
  EXPECT_EQ(found[2].name, "good");
  EXPECT_FALSE(std::filesystem::exists(root_ / "loaded"));
  EXPECT_FALSE(is_mapped(folder.string()));
}

TEST_F(SearchTest, AskingForOneBackendMapsNoOther) {
  const auto folder = folder_with("good");
  std::filesystem::copy_file(built("decoy", "decoy"), folder / "libyoke_backend_decoy.so");
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  Runtime runtime(options({folder}));

  runtime.backend("good");

  EXPECT_EQ(read(root_ / "loaded"), "good\n");
  EXPECT_TRUE(is_mapped((folder / "libyoke_backend_good.so").string()));
  EXPECT_FALSE(is_mapped("libyoke_backend_decoy.so"));
}

TEST_F(SearchTest, PluginPathIsSearchedInOrderAndRefusesEmptyAndRelativeEntries) {
  const auto first = folder_with("good");
  const auto second = folder_with("second");
  std::filesystem::create_directories(root_ / "relative");
  const Variable path("YOKE_PLUGIN_PATH", "relative:" + second.string() + "::" + first.string());
  Runtime runtime(with_environment());

  const auto found = of(runtime, "good");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, second / "libyoke_backend_good.so");
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("3 plugin.path_skip"),
                                     HasSubstr("entry 'relative' is not absolute"))));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("3 plugin.path_skip"), HasSubstr("empty entry"))));
  EXPECT_THAT(error_of([&] { runtime.backend("absent"); }).what(),
              HasSubstr("entry 'relative' is not absolute"));
  const auto ignored = of(runtime, "");
  ASSERT_EQ(ignored.size(), 2U) << "they are in the report as well";
  EXPECT_EQ(ignored[0].path, "relative");
  EXPECT_FALSE(ignored[0].usable);
  EXPECT_THAT(ignored[0].verdict, HasSubstr("entry 'relative' is not absolute"));
  EXPECT_THAT(ignored[1].mend, HasSubstr("remove the stray ':'"));
}

TEST_F(SearchTest, TheWorkingDirectoryIsNeverSearched) {
  const auto folder = folder_with("good");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const Variable path("YOKE_PLUGIN_PATH", ":.");
  Runtime runtime(with_environment());
  const auto found = of(runtime, "good");
  const auto error = error_of([&] { runtime.backend("good"); });
  std::filesystem::current_path(before);

  EXPECT_TRUE(found.empty());
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST_F(SearchTest, TheUsersFolderComesAfterThePluginPath) {
  const Variable data("XDG_DATA_HOME", (root_ / "data").string());
  const Variable path("YOKE_PLUGIN_PATH", folder_with("second").string());
  const auto user = root_ / "data" / "yoke" / "plugins";
  std::filesystem::create_directories(user);
  std::filesystem::copy_file(built("good"), user / "libyoke_backend_good.so");

  const auto found = of(Runtime(with_environment()), "good");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].path, user / "libyoke_backend_good.so");
  EXPECT_TRUE(of(Runtime(options({})), "good").empty()) << "search_environment is off";
}

TEST_F(SearchTest, TheUsersFolderIsBelowHomeWithoutXdg) {
  const Variable data("XDG_DATA_HOME", "");
  const Variable home("HOME", root_.string());
  const auto user = root_ / ".local" / "share" / "yoke" / "plugins";
  std::filesystem::create_directories(user);
  std::filesystem::copy_file(built("good"), user / "libyoke_backend_good.so");
  EXPECT_EQ(of(Runtime(with_environment()), "good").size(), 1U);
}

TEST_F(SearchTest, ARelativeXdgFolderIsRefusedWithAMessage) {
  const Variable data("XDG_DATA_HOME", "data");
  Runtime runtime(with_environment());
  EXPECT_THAT(lines_, Contains(HasSubstr("XDG_DATA_HOME is 'data', which is not absolute")));
}

TEST_F(SearchTest, ARelativePluginDirIsAnError) {
  const auto error = error_of([&] { Runtime(options({"plugins"})); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("plugin_dirs: 'plugins' is not absolute"));
}

TEST_F(SearchTest, AnUnknownBackendsErrorListsThoseFoundAndWhyOthersWereRefused) {
  const auto folder = folder_with("good");
  write(folder / "libyoke_backend_broken.so", "no plugin");
  Runtime runtime(options({folder}));

  const auto error = error_of([&] { runtime.backend("cudaa"); });

  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no backend 'cudaa': found "), HasSubstr("good"),
                                  HasSubstr("broken was refused ("), HasSubstr("it is a text file"),
                                  HasSubstr("put libyoke_backend_cudaa.so in"), HasSubstr(folder.string())));
}

TEST_F(SearchTest, ANameThatIsNoNameFindsNoFile) {
  const auto folder = folder_with("good");
  Runtime runtime(options({folder}));
  for (const auto& name :
       std::vector<std::string>{"../good/good", "", "Good", "9lives", "good.so", std::string(65, 'a')}) {
    SCOPED_TRACE(name);
    const auto error = error_of([&] { runtime.backend(name); });
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("a backend's name is [a-z][a-z0-9_]*"));
  }
}

TEST_F(SearchTest, TheInstallFolderLiesBesideLibyoke) {
  Runtime runtime(options({}));
  const auto beside = std::filesystem::canonical(LOADER_TEST_LIBYOKE).parent_path() / "yoke";
  EXPECT_THAT(error_of([&] { runtime.backend("absent"); }).what(),
              HasSubstr(beside.string() + " (the install folder)"));
}

// The plugins of the build tree itself.
TEST_F(SearchTest, AskingForCcMapsNoOtherPluginOfTheInstallFolder) {
  const std::filesystem::path folder = YOKE_TEST_PLUGIN_DIR;
  if (!std::filesystem::exists(folder / file_of("cc"))) {
    GTEST_SKIP() << "the cc backend was not built";
  }
  const auto before = mapped_plugins();
  const auto backend = Runtime(options({})).backend("cc");
  auto after = mapped_plugins();
  EXPECT_EQ(backend->path(), std::filesystem::canonical(folder / file_of("cc")));
  std::erase_if(after, [&](const auto& name) { return before.count(name) > 0; });
  EXPECT_THAT(after, ::testing::IsSubsetOf({file_of("cc")}));
}

TEST_F(SearchTest, ThePluginsOfTheBuildTreeLoadWithoutAnySetting) {
  if (!std::filesystem::exists(std::filesystem::path(YOKE_TEST_PLUGIN_DIR) / file_of("null"))) {
    GTEST_SKIP() << "the null backend was not built";
  }
  EXPECT_GE(Runtime(options({})).backend("null")->device_count(), 1U);
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
