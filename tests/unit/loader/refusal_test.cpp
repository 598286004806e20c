// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/refusal_test.cpp: every way a file can be no usable plugin, and the sentence that a user
// reads.
#include "fixture.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RefusalTest : public LoaderTest {
 protected:
  // Puts a file there, asks for it by name, and gives back the sentence.
  std::string sentence_for(const std::filesystem::path& folder) {
    Runtime runtime(options({folder}));
    const auto error = error_of([&] { runtime.backend("good"); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("libyoke_backend_good.so was refused: "));
    return error.what();
  }
  std::filesystem::path file() const { return root_ / "libyoke_backend_good.so"; }
};

TEST_F(RefusalTest, ATextFileIsRefusedAsText) {
  write(file(), "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(sentence_for(root_), HasSubstr("it is a text file, not an ELF shared object"));
}

TEST_F(RefusalTest, AnEmptyFileIsRefused) {
  write(file(), "");
  EXPECT_THAT(sentence_for(root_), HasSubstr("it is empty, not an ELF shared object"));
}

TEST_F(RefusalTest, AFileCutAtAnyPlaceIsRefusedBeforeTheLinkerSeesIt) {
  const auto whole = read(built("good"));
  for (const std::size_t kept :
       {std::size_t{10}, std::size_t{60}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(kept);
    write(file(), whole.substr(0, kept));
    EXPECT_THAT(sentence_for(root_), HasSubstr("it is cut short"));
  }
}

TEST_F(RefusalTest, AnotherMachinesFileIsRefused) {
  auto bytes = read(built("good"));
  bytes[18] = static_cast<char>(0xf3);  // e_machine: RISC-V
  bytes[19] = 0;
  write(file(), bytes);
  EXPECT_THAT(sentence_for(root_), HasSubstr("it is built for another machine (ELF machine 243"));
}

TEST_F(RefusalTest, A32BitFileIsRefused) {
  auto bytes = read(built("good"));
  bytes[4] = 1;  // ELFCLASS32
  write(file(), bytes);
  EXPECT_THAT(sentence_for(root_), HasSubstr("another machine"));
}

TEST_F(RefusalTest, AnObjectFileIsRefused) {
  auto bytes = read(built("good"));
  bytes[16] = 1;  // ET_REL
  write(file(), bytes);
  EXPECT_THAT(sentence_for(root_), HasSubstr("no shared object"));
}

TEST_F(RefusalTest, AFolderIsRefused) {
  std::filesystem::create_directories(file());
  EXPECT_THAT(sentence_for(root_), HasSubstr("it is a folder, not a file"));
}

TEST_F(RefusalTest, ADanglingLinkIsRefused) {
  std::filesystem::create_symlink(root_ / "nowhere.so", file());
  EXPECT_THAT(sentence_for(root_), HasSubstr("a symbolic link to a file that does not exist"));
}

TEST_F(RefusalTest, ALinkToItselfIsRefused) {
  std::filesystem::create_symlink(file(), file());
  EXPECT_THAT(sentence_for(root_), HasSubstr("its path cannot be resolved"));
}

TEST_F(RefusalTest, AnUndefinedSymbolKeepsTheLinkersText) {
  EXPECT_THAT(refusal_of("undefined_symbol").what(),
              AllOf(HasSubstr("the linker refused it: "), HasSubstr("undefined symbol: nobody_defines_this"),
                    Not(HasSubstr("boost"))));
}

TEST_F(RefusalTest, APluginWithoutEntryIsRefused) {
  EXPECT_THAT(refusal_of("no_entry").what(), HasSubstr("it exports no yoke_plugin_entry"));
}

TEST_F(RefusalTest, AnEntryOfAnotherLibraryIsRefused) {
  EXPECT_THAT(refusal_of("foreign_entry").what(), HasSubstr("comes from another library that it links"));
}

TEST_F(RefusalTest, AWrongMagicNumberIsRefusedAndNothingElseOfItIsTouched) {
  EXPECT_THAT(refusal_of("wrong_magic").what(), HasSubstr("does not begin with yoke's magic number"));
  EXPECT_THAT(lines_, Not(::testing::Contains(HasSubstr("test.destroy"))));
}

TEST_F(RefusalTest, AShortPrefixIsRefused) {
  EXPECT_THAT(refusal_of("short_prefix").what(), HasSubstr("its prefix has 8 bytes"));
}

TEST_F(RefusalTest, APrefixWithoutDestroyIsRefused) {
  EXPECT_THAT(refusal_of("null_destroy").what(), HasSubstr("its prefix lacks destroy"));
}

TEST_F(RefusalTest, ANewerMajorIsRefusedWithBothVersionsAndIsReleased) {
  EXPECT_THAT(refusal_of("newer_major").what(),
              AllOf(HasSubstr("it speaks plugin ABI " + version(YOKE_ABI_MAJOR + 1, YOKE_ABI_MINOR) +
                              ", and this libyoke serves " + version(YOKE_ABI_MAJOR, 0) + " to " +
                              version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR)),
                    HasSubstr("update yoke")));
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("test.destroy")));
}

TEST_F(RefusalTest, AnotherSanitizerIsRefused) {
  EXPECT_THAT(refusal_of("sanitizer").what(), HasSubstr("it was built with the memory sanitizer"));
}

TEST_F(RefusalTest, ThePluginsOwnReasonIsKept) {
  EXPECT_THAT(refusal_of("refuses").what(),
              HasSubstr("its entry answered FAILED_PRECONDITION: this plugin speaks ABI 3 only"));
}

TEST_F(RefusalTest, OkWithoutAPluginIsRefused) {
  EXPECT_THAT(refusal_of("null_plugin").what(), HasSubstr("its entry answered OK without a plugin"));
}

TEST_F(RefusalTest, AnotherNameThanTheFilesIsRefused) {
  EXPECT_THAT(refusal_of("wrong_name", "mistaken").what(),
              HasSubstr("it calls itself 'good', not 'mistaken'"));
}

TEST_F(RefusalTest, AllMissingFunctionsAreListedAtOnce) {
  EXPECT_THAT(
      refusal_of("missing_functions").what(),
      HasSubstr(
          "yoke.backend/1 lacks device_open, to_host; yoke.stream/1 lacks stream_create, stream_destroy, "
          "stream_query, stream_wait, event_record, event_destroy, event_query, event_wait, "
          "stream_wait_event; "))
      << "and none of the optional ones";
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("test.destroy")));
}

TEST_F(RefusalTest, AMissingTableIsRefused) {
  EXPECT_THAT(refusal_of("no_table").what(), HasSubstr("does not offer the required table yoke.backend/1"));
}

TEST_F(RefusalTest, TheReportRemembersHowFarARefusedFileGot) {
  Runtime runtime(options({folder_with("newer_major")}));
  ASSERT_EQ(of(runtime, "good").at(0).verdict, "not loaded yet");

  EXPECT_THROW(runtime.backend("good"), Error);

  const auto report = of(runtime, "good").at(0);
  EXPECT_FALSE(report.usable);
  EXPECT_EQ(report.stage, "entered");
  EXPECT_THAT(report.verdict,
              HasSubstr("it speaks plugin ABI " + version(YOKE_ABI_MAJOR + 1, YOKE_ABI_MINOR)));
  EXPECT_THAT(report.mend, HasSubstr("update yoke"));
  EXPECT_THAT(lines_,
              ::testing::Contains(AllOf(HasSubstr("3 plugin.refuse name=good"), HasSubstr("stage=entered"))));
}

}  // namespace
}  // namespace yoke::test
