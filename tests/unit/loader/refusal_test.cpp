// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/refusal_test.cpp: files that are not plugins, and plugins with defects: the application's
// error, the stage that they reach, and that the process can continue.
#include <sys/stat.h>

#include <functional>

#include "loader_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A file that is refused before it is opened.
struct BadFile {
  const char* name;
  const char* error;
  // `plugin` has the bytes of a valid plugin.
  std::function<void(const std::filesystem::path& file, std::string plugin)> make;
};

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

BadFile with_contents(const char* name, const char* error, const std::string& contents) {
  return {name, error, [=](const auto& file, const auto&) { write_file(file, contents); }};
}

BadFile with_byte(const char* name, const char* error, std::size_t offset, char value) {
  return {name, error, [=](const auto& file, std::string plugin) {
            plugin[offset] = value;
            write_file(file, plugin);
          }};
}

namespace fs = std::filesystem;
const std::vector<BadFile> kBadFiles = {
    with_contents("Text", "it is a text file, not an ELF shared object",
                  "GROUP ( libyoke_backend_real.so )\n"),
    with_contents("Empty", "it is empty, not an ELF shared object", ""),
    with_contents("Binary", "it is not an ELF shared object", std::string(100, '\0')),
    with_byte("OtherMachine", "it is built for another machine (ELF machine 22", 18, '\x16'),
    with_byte("OtherClass", "it is built for another machine (ELF machine 62, class 1;", 4, 1),
    with_byte("ObjectFile", "it is an ELF file but not a shared object", 16, 1),
    {"Folder", "it is a folder, not a file",
     [](const auto& file, const auto&) { fs::create_directory(file); }},
    {"NamedPipe", "it is a named pipe, not a file",
     [](const auto& file, const auto&) { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); }},
    {"DanglingLink", "it is a symbolic link to a file that does not exist",
     [](const auto& file, const auto&) { fs::create_symlink("nowhere", file); }},
    {"LinkToItself", "its path cannot be resolved: Too many levels of symbolic links",
     [](const auto& file, const auto&) { fs::create_symlink(file, file); }},
    {"WritableFile", "is writable by every user (mode 0777), so any user can replace it; chmod o-w ",
     [](const auto& file, const auto& plugin) {
       write_file(file, plugin);
       ::chmod(file.c_str(), 0777);
     }},
    {"LinkIntoWritableFolder", "/open is writable by every user (mode 0777)",
     [](const auto& file, const auto& plugin) {
       const auto folder = file.parent_path() / "open";
       fs::create_directory(folder);
       ::chmod(folder.c_str(), 0777);
       write_file(folder / "real.so", plugin);
       fs::create_symlink(folder / "real.so", file);
     }},
};

class BadFileTest : public LoaderTest, public ::testing::WithParamInterface<BadFile> {};
INSTANTIATE_TEST_SUITE_P(Files, BadFileTest, ::testing::ValuesIn(kBadFiles),
                         ::testing::PrintToStringParamName());

TEST_P(BadFileTest, IsRefusedBeforeItIsOpened) {
  GetParam().make(file("bad"), read_whole(built("good")));
  Runtime runtime(with_probe());
  const auto outcome = load(runtime, "bad");
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(GetParam().error), HasSubstr("; " + outcome.report.fix)));
  EXPECT_NE(outcome.report.fix, "");
  EXPECT_EQ(outcome.report.stage, "found");
  EXPECT_EQ(outcome.report.probed, "no: it was refused before probing");
  EXPECT_FALSE(is_mapped(file("bad")));
  use_good_backend(runtime);
}

class RefusalTest : public LoaderTest {};

TEST_F(RefusalTest, TruncatedFileIsRefusedWhereverItIsCut) {
  const auto whole = read_whole(built("good"));
  for (const std::size_t kept :
       {std::size_t{10}, std::size_t{60}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write_file(file("bad"), whole.substr(0, kept));
    Runtime runtime(options());
    EXPECT_THAT(load(runtime, "bad").error, HasSubstr("it is truncated")) << kept;
  }
}

TEST_F(RefusalTest, NewerMajorIsRefusedWithBothVersionsAndDestroyed) {
  const auto version = [](int major, int minor) {
    return std::to_string(major) + "." + std::to_string(minor);
  };
  place("newer_major");
  Runtime runtime(options());
  ASSERT_EQ(report_of(runtime, "newer_major").verdict, "not loaded yet");
  const auto outcome = load(runtime, "newer_major");
  const auto verdict = "it uses plugin ABI " + version(YOKE_ABI_MAJOR + 1, YOKE_ABI_MINOR) +
                       "; this libyoke supports " + version(YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR) + " to " +
                       version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR);
  EXPECT_THAT(outcome.error, HasSubstr(verdict));
  EXPECT_THAT(outcome.report.verdict, HasSubstr(verdict));
  EXPECT_EQ(outcome.report.stage, "entered");
  EXPECT_THAT(outcome.report.fix, HasSubstr("update yoke"));
  EXPECT_THAT(lines_,
              Contains(AllOf(HasSubstr("3 plugin.refuse name=newer_major"), HasSubstr("stage=entered"))));
  EXPECT_THAT(lines_, Contains("2 test.destroy backend=newer_major"));
}

TEST_F(RefusalTest, RefusedPluginIsDestroyedUnlessItsPrefixIsInvalid) {
  place("unknown_kind");
  place("wrong_magic");
  Runtime runtime(options());
  EXPECT_NE(load(runtime, "unknown_kind").error, "");
  EXPECT_THAT(lines_, Contains("2 test.destroy backend=unknown_kind"));
  EXPECT_NE(load(runtime, "wrong_magic").error, "");
  EXPECT_THAT(lines_, Not(Contains("2 test.destroy backend=wrong_magic")));
}

constexpr Defect kDefects[] = {
    {"missing_dependency",
     "the dynamic linker refused it: libloader_test_dependency.so: cannot open shared object", "checked"},
    {"undefined_symbol", "undefined symbol: loader_test_library", "checked"},
    {"sanitizer_library",
     "it was built with the thread sanitizer, and this process was started without its runtime, "
     "libtsan.so.99; to test this build, start yoke-conformance with LD_PRELOAD=libtsan.so.99",
     "checked"},
    {"sanitizer_function",
     "it was built with the address sanitizer, and this process was started without its runtime", "checked"},
    {"no_entry", "it does not export yoke_plugin_entry", "opened"},
    {"foreign_entry", "its yoke_plugin_entry is defined in another library that it links", "opened"},
    {"entry_is_data", "its yoke_plugin_entry is data, not a function", "opened"},
    {"refuses", "its entry failed with UNAVAILABLE: the driver is too old\\x07", "entered"},
    {"throw_in_entry", "its entry threw an exception: oops\\x1b[2J", "entered"},
    {"null_plugin", "its entry returned OK without a plugin", "entered"},
    {"garbage_plugin", ", where yoke's magic number is missing", "entered"},
    {"wild_plugin", "its entry returned the address 0x10, which is not readable memory", "entered"},
    {"misaligned_plugin", "which is not aligned to 8 bytes", "entered"},
    {"wrong_magic", ", where yoke's magic number is missing", "entered"},
    {"prefix_size_zero", "its prefix_size is 0; this libyoke's is 72", "entered"},
    {"prefix_size_small", "its prefix_size is 16; this libyoke's is 72", "entered"},
    {"prefix_size_absurd", "its prefix_size is 4294967295; this libyoke's is 72", "entered"},
    {"null_destroy", "its prefix lacks destroy", "entered"},
    {"wild_get_table", "its get_table points to unreadable memory (0x10)", "entered"},
    {"newer_major", "it uses plugin ABI 1.", "entered"},
    {"newer_minor", "it uses plugin ABI 0.5; this libyoke supports 0.3 to 0.4; update yoke", "entered"},
    {"older_minor", "it uses plugin ABI 0.2; this libyoke supports 0.3 to 0.4; install a newer build",
     "entered"},
    {"unknown_kind", "its kind is 7; this libyoke supports kind 1 (backends); update yoke", "entered"},
    {"sanitizer", "it was built with the memory sanitizer", "entered"},
    {"wrong_name", "its name is 'other', not 'wrong_name'", "entered"},
    {"path_name", "its name '../../etc/passwd' is invalid", "entered"},
    {"empty_name", "its name is empty", "entered"},
    {"null_name", "its name is NULL", "entered"},
    {"wild_name", "its name points to unreadable memory (0x10)", "entered"},
    {"long_name", "its name has more than 64 characters ('xxxxxxxxxxxxxxxxxxxxxxxx...')", "entered"},
    {"not_utf8_name", "its name 'caf\\xe9\\x1b[2J' is invalid", "entered"},
    {"wild_version", "its plugin_version points to unreadable memory (0x10)", "entered"},
    {"no_table", "it does not offer the required table yoke.backend/1", "entered"},
    {"throw_in_get_table", "its get_table threw an exception of an unknown type", "entered"},
    {"wild_table", "its table yoke.backend/1 is at the unreadable address 0x10", "entered"},
    {"misaligned_table", "its table yoke.backend/1 is not aligned to 8 bytes", "entered"},
    {"table_size_zero", "its table yoke.backend/1 has struct_size 0; this libyoke's has ", "entered"},
    {"table_size_small", "required functions are missing: yoke.backend/1 lacks to_host, live_counts;",
     "entered"},
    {"table_size_older", "", "loaded"},
    {"table_size_newer", "", "loaded"},
    {"table_size_absurd", "its table yoke.backend/1 has struct_size 18446744073709551615", "entered"},
    {"null_required",
     "required functions are missing: yoke.backend/1 lacks device_open, to_host; yoke.stream/1 lacks "
     "stream_create, "
     "stream_destroy, stream_query, stream_wait, event_record, event_destroy, event_query, event_wait, "
     "stream_wait_event; ",
     "entered"},
    {"wild_required", "required functions are missing: yoke.backend/1 lacks device_open;", "entered"},
    {"null_optional", "", "loaded"},
};

class DefectTest : public LoaderTest, public ::testing::WithParamInterface<Defect> {
 protected:
  static void check(const Outcome& outcome) {
    const Defect& defect = GetParam();
    EXPECT_EQ(outcome.report.stage, defect.stage);
    if (*defect.error == '\0') {
      EXPECT_EQ(outcome.error, "");
    } else {
      EXPECT_THAT(outcome.error, AllOf(HasSubstr(defect.error), HasSubstr(outcome.report.fix)));
      EXPECT_NE(outcome.report.fix, "");
    }
    for (const char byte : outcome.error) {
      EXPECT_TRUE(byte >= 0x20 && byte < 0x7f) << "unprintable byte " << static_cast<int>(byte);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Defects, DefectTest, ::testing::ValuesIn(kDefects),
                         ::testing::PrintToStringParamName());

TEST_P(DefectTest, IsRefusedByTheProbe) {
  const auto outcome = load(with_probe(), GetParam().name);
  check(outcome);
  EXPECT_EQ(outcome.report.probed, "yes");
  EXPECT_EQ(is_mapped(file(GetParam().name)), outcome.error.empty());
}

TEST_P(DefectTest, IsRefusedInTheProcess) {
  const auto outcome = load(options(), GetParam().name);
  check(outcome);
  EXPECT_EQ(outcome.report.probed, "no: probing is turned off");
}

TEST_P(DefectTest, IsRefusedThroughLayers) {
  auto given = options();
  given.layers.names = "validate,trace";
  given.layers.trace_file = root_ / "trace";
  check(load(given, GetParam().name));
}

}  // namespace
}  // namespace yoke::test
