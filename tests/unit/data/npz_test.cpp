// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/npz_test.cpp: saving and loading .npz files, also with numpy; failed saves leave no file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/npz.h>

#include <cstring>

#include "test_files.h"
#include "test_paths.h"

namespace yoke {
namespace {

using program::Type;
using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using test::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Number>
NamedArray array(std::string name, Type type, std::vector<std::uint64_t> dims,
                 const std::vector<Number>& values) {
  NamedArray made{.name = std::move(name), .type = type, .dims = std::move(dims), .bytes = {}};
  made.bytes.resize(values.size() * sizeof(Number));
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

std::vector<NamedArray> every_type() {
  return {array<double>("f64", Type::kF64, {}, {0.1}),
          array<float>("0.weight", Type::kF32, {2, 3}, {0, 0.25F, 0.5F, 0.75F, 1, 1.25F}),
          array<std::uint16_t>("f16", Type::kF16, {2}, {0x3c00, 0x7bff}),
          array<std::uint16_t>("bf16", Type::kBF16, {1}, {0x3f80}),
          array<std::int64_t>("i64", Type::kI64, {1, 1, 1}, {-5000000000}),
          array<std::int32_t>("i32", Type::kI32, {1}, {-5}),
          array<std::uint32_t>("u32", Type::kU32, {1}, {4294967295}),
          array<std::uint8_t>("u8", Type::kU8, {3}, {0, 1, 255}),
          array<std::uint8_t>("bool", Type::kBool, {2}, {1, 0})};
}

TEST(Npz, EveryTypeIsLoadedAsSaved) {
  const TemporaryFolder folder;
  const auto saved = every_type();

  save_npz(folder / "all.npz", saved);
  const auto loaded = load_npz(folder / "all.npz");

  ASSERT_EQ(loaded.size(), saved.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(loaded[i].name, saved[i].name);
    EXPECT_EQ(loaded[i].type, saved[i].type) << saved[i].name;
    EXPECT_EQ(loaded[i].dims, saved[i].dims) << saved[i].name;
    EXPECT_EQ(loaded[i].bytes, saved[i].bytes) << saved[i].name;
  }
  EXPECT_THAT(folder.names(), ElementsAre("all.npz"));
}

TEST(Npz, FileWithoutArraysIsAnEmptyArchive) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {});
  EXPECT_THAT(load_npz(folder / "a.npz"), IsEmpty());
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 is not on PATH";
  }
  EXPECT_EQ(std::system(("python3 -m zipfile --list " + (folder / "a.npz").string() + " >/dev/null").c_str()),
            0);
}

TEST(Npz, EqualArraysGiveEqualFiles) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", every_type());
  save_npz(folder / "b.npz", every_type());
  EXPECT_EQ(test::read_whole(folder / "a.npz"), test::read_whole(folder / "b.npz"));
}

TEST(Npz, HeaderMatchesNumpy) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{array<float>("w", Type::kF32, {3}, {1, 2, 3})}});
  const std::string file = test::read_whole(folder / "a.npz");
  const std::string header(
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 67);
  const std::size_t at = file.find("\x93NUMPY");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(file.substr(at, header.size()), header);
  EXPECT_EQ(file[at + 127], '\n');  // numpy pads to a multiple of 64
}

TEST(Npz, NumpyReadsSavedFiles) {
  if (std::system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 on PATH does not have numpy";
  }
  const TemporaryFolder folder;
  save_npz(folder / "all.npz", every_type());
  const std::string command =
      R"sh(python3 -c "
import numpy, sys
z = numpy.load(sys.argv[1])
assert z['0.weight'].tolist() == [[0, .25, .5], [.75, 1, 1.25]]
assert z['f64'] == 0.1
assert z['f16'].tolist() == [1, 65504]
assert z['bf16.bf16'][0] == 0x3f80
assert z['i64'][0, 0, 0] == -5000000000
assert z['i32'][0] == -5
assert z['u32'][0] == 4294967295
assert z['u8'].tolist() == [0, 1, 255]
assert z['bool'].tolist() == [True, False]" )sh" +
      (folder / "all.npz").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// numpy_compressed.npz was written by numpy.savez_compressed of numpy 2.
TEST(Npz, LoadsFilesCompressedByNumpy) {
  const auto arrays = load_npz(test::source_folder() + "/tests/unit/data/numpy_compressed.npz");

  ASSERT_EQ(arrays.size(), 8U);
  EXPECT_EQ(arrays[0].name, "weight");
  EXPECT_THAT(arrays[0].dims, ElementsAre(2, 3));
  EXPECT_THAT(values_of<float>(arrays[0].bytes), ElementsAre(0, 0.25F, 0.5F, 0.75F, 1, 1.25F));
  EXPECT_THAT(arrays[1].dims, IsEmpty());
  EXPECT_THAT(values_of<double>(arrays[1].bytes), ElementsAre(0.1));
  EXPECT_THAT(values_of<std::uint16_t>(arrays[2].bytes), ElementsAre(0x3c00, 0xc100, 0x7bff));
  EXPECT_THAT(values_of<std::int64_t>(arrays[3].bytes), ElementsAre(-(std::int64_t{1} << 62), 7));
  EXPECT_THAT(values_of<std::int32_t>(arrays[4].bytes), ElementsAre(-5));
  EXPECT_THAT(values_of<std::uint32_t>(arrays[5].bytes), ElementsAre(4294967295));
  EXPECT_EQ(arrays[6].bytes.size(), 256U);
  EXPECT_EQ(arrays[6].bytes[255], std::byte{255});
  EXPECT_EQ(arrays[7].type, Type::kBool);
}

TEST(Npz, FullDiskLeavesTheOldFileUnchanged) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{array<float>("old", Type::kF32, {1}, {1})}});
  const auto big = array<float>("big", Type::kF32, {100000}, std::vector<float>(100000));

  EXPECT_THAT(error_of([&] {
                const test::FileSizeLimit full(10000);
                save_npz(folder / "a.npz", {{big}});
              }),
              is_error(ErrorCode::kResourceExhausted, "cannot save to " + (folder / "a.npz").string() +
                                                          ": File too large; free some space"));
  EXPECT_EQ(load_npz(folder / "a.npz").at(0).name, "old");
  EXPECT_THAT(folder.names(), ElementsAre("a.npz"));
}

TEST(Npz, CheckCanSaveReportsPathsThatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { check_can_save(folder / "none/a.npz"); }).what(),
              HasSubstr("No such file or directory; create its folder first"));
  EXPECT_THAT(error_of([&] { check_can_save(folder.path()); }).what(), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of([&] { check_can_save("/dev/full"); }).what(), HasSubstr("not a regular file"));
  {
    std::filesystem::permissions(folder.path(),
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    const test::OrdinaryUser user;
    EXPECT_ERROR(ErrorCode::kPermissionDenied, check_can_save(folder / "a.npz"));
  }
  {
    const test::FileSizeLimit full(0);
    EXPECT_ERROR(ErrorCode::kResourceExhausted, check_can_save(folder / "a.npz"));
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  check_can_save(folder / "a.npz");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Npz, InvalidArraysAreErrorsBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const auto one = array<float>("a", Type::kF32, {1}, {1});
  auto misfit = one;
  misfit.dims = {2};
  auto nameless = one;
  nameless.name.clear();

  EXPECT_THAT(error_of([&] {
                save_npz(folder / "a.npz", {{one, one}});
              }).what(),
              HasSubstr("two arrays are named 'a'"));
  EXPECT_THAT(error_of([&] { save_npz(folder / "a.npz", {{misfit}}); }).what(),
              HasSubstr("array 'a' has 4 bytes"));
  EXPECT_THAT(error_of([&] { save_npz(folder / "a.npz", {{nameless}}); }).what(),
              HasSubstr("the name of an array has 0 bytes"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Npz, TruncatedFileIsAnErrorThatNamesIt) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{array<float>("w", Type::kF32, {3}, {1, 2, 3})}});
  const std::string whole = test::read_whole(folder / "a.npz");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_file(folder / "cut.npz", whole.substr(0, size));
    EXPECT_THAT(error_of([&] { load_npz(folder / "cut.npz"); }), is_error(ErrorCode::kDataLoss, "cut.npz"))
        << size;
  }
}

TEST(Npz, EntryThatClaimsMoreThanCompressionAllowsIsAnErrorBeforeAnythingIsAllocated) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{array<float>("w", Type::kF32, {3}, {1, 2, 3})}});
  std::string whole = test::read_whole(folder / "a.npz");
  const std::size_t directory = whole.find("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  for (const std::size_t size :
       {std::size_t{22}, directory + 24}) {  // in the local header and in the directory
    whole.replace(size, 4, "\xfe\xff\xff\xff");
  }
  for (const std::size_t method : {std::size_t{8}, directory + 10}) {
    whole[method] = 8;  // deflated
  }
  test::write_file(folder / "huge.npz", whole);

  EXPECT_THAT(error_of([&] { load_npz(folder / "huge.npz"); }),
              is_error(ErrorCode::kDataLoss, "w.npy: it claims to have 4294967294 bytes"));
}

// Most changes are found by zlib, whose errors have texts of their own.
TEST(Npz, ChangedByteOfACompressedFileIsAnErrorOrHasNoEffect) {
  const TemporaryFolder folder;
  const std::string file = test::source_folder() + "/tests/unit/data/numpy_compressed.npz";
  const std::string whole = test::read_whole(file);
  const auto right = load_npz(file);
  std::size_t error_count = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    test::write_file(folder / "changed.npz", changed);
    try {
      const auto arrays = load_npz(folder / "changed.npz");
      for (std::size_t i = 0; i < arrays.size() && i < right.size(); ++i) {
        EXPECT_EQ(arrays[i].bytes, right[i].bytes) << "byte " << at;
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("changed.npz"));
      ++error_count;
    }
  }
  EXPECT_GT(error_count, whole.size() / 2);
}

TEST(Npz, ChangedByteNeverChangesTheValues) {
  const TemporaryFolder folder;
  save_npz(folder / "a.npz", {{array<float>("w", Type::kF32, {3}, {1, 2, 3})}});
  const std::string whole = test::read_whole(folder / "a.npz");
  const auto right = load_npz(folder / "a.npz").at(0).bytes;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    test::write_file(folder / "changed.npz", changed);
    try {
      const auto arrays = load_npz(folder / "changed.npz");
      EXPECT_TRUE(arrays.empty() || arrays[0].bytes == right) << "byte " << at;
    } catch (const Error&) {
    }
  }
}

// A .npy file of version 1 with this header and data.
std::string npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}

TEST(Npy, OneArrayIsLoaded) {
  const TemporaryFolder folder;
  test::write_file(folder / "a.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }\n",
                                         std::string("\1\0\0\0\2\0\0\0", 8)));
  const NamedArray loaded = load_npy(folder / "a.npy");
  EXPECT_EQ(loaded.type, Type::kI32);
  EXPECT_THAT(loaded.dims, ElementsAre(2, 1));
  EXPECT_THAT(values_of<std::int32_t>(loaded.bytes), ElementsAre(1, 2));
  EXPECT_EQ(loaded.name, "");
}

TEST(Npy, SavedArrayIsReadAgain) {
  const TemporaryFolder folder;
  const NamedArray array{
      "unused", Type::kU8, {2, 2}, {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}};
  save_npy(folder / "a.npy", array);
  const NamedArray loaded = load_npy(folder / "a.npy");
  EXPECT_EQ(loaded.bytes, array.bytes);
  EXPECT_EQ(loaded.dims, array.dims);
  EXPECT_EQ(loaded.type, array.type);
}

TEST(Npy, HostileHeadersAreErrors) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& header, ErrorCode code, const std::string& why) {
    test::write_file(folder / "a.npy", npy(header, "12345678"));
    EXPECT_THAT(error_of([&] { load_npy(folder / "a.npy"); }), is_error(code, "a.npy: ", why)) << header;
  };
  const std::string order = "'fortran_order': False, ";
  refuses("{'descr': '|O', " + order + "'shape': (1,), }", ErrorCode::kUnimplemented,
          "unsupported element type");
  refuses("{'descr': '>f4', " + order + "'shape': (2,), }", ErrorCode::kUnimplemented,
          "unsupported element type");
  refuses("{'descr': '<u2', " + order + "'shape': (4,), }", ErrorCode::kUnimplemented,
          "uint16 is not supported");
  refuses("{'descr': [('a', '<f4')], " + order + "'shape': (2,), }", ErrorCode::kUnimplemented,
          "its elements are records of several fields");
  refuses("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", ErrorCode::kUnimplemented,
          "Fortran order");
  refuses("{'descr': '<f4', " + order + "'shape': (-2,), }", ErrorCode::kDataLoss, "invalid 'shape'");
  refuses("{'descr': '<f4', " + order + "'shape': (2.0,), }", ErrorCode::kDataLoss, "invalid 'shape'");
  refuses("{'descr': '<f4', " + order + "'shape': 2, }", ErrorCode::kDataLoss, "invalid 'shape'");
  refuses("{'descr': '<f4', " + order + "'shape': (99999999999999999999,), }", ErrorCode::kDataLoss,
          "invalid 'shape'");
  refuses("{'descr': '<f4', " + order + "'shape': (4611686018427387904, 8), }", ErrorCode::kDataLoss,
          "its dims are too large");
  refuses("{'descr': '<f4', " + order + "'shape': (3,), }", ErrorCode::kDataLoss,
          "bytes, but its type and dims need 12");
  refuses("{'descr': '<f4', " + order + "}", ErrorCode::kDataLoss, "has no 'shape'");
  refuses("", ErrorCode::kDataLoss, "has no 'descr'");
}

}  // namespace
}  // namespace yoke
