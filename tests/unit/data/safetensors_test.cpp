// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/safetensors_test.cpp: saving and loading .safetensors files, also with the public Python reader, and
// files that are damaged or hostile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/safetensors.h>

#include <cstring>
#include <random>

#include "test_files.h"

namespace yoke {
namespace {

using program::Type;
using test::error_of;
using test::is_error;
using test::TemporaryFolder;
using test::values_of;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

template <class Number>
NamedArray array(std::string name, Type type, std::vector<std::uint64_t> dims,
                 const std::vector<Number>& values) {
  NamedArray made{.name = std::move(name), .type = type, .dims = std::move(dims), .bytes = {}};
  made.bytes.resize(values.size() * sizeof(Number));
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

// In the order of a file.
std::vector<NamedArray> every_type() {
  return {array<double>("f64", Type::kF64, {}, {0.1}),
          array<std::int64_t>("i64", Type::kI64, {1, 1, 1}, {-5000000000}),
          array<float>("0.weight", Type::kF32, {2, 3}, {0, 0.25F, 0.5F, 0.75F, 1, 1.25F}),
          array<std::int32_t>("i32", Type::kI32, {1}, {-5}),
          array<std::uint32_t>("u32", Type::kU32, {1}, {4294967295}),
          array<std::uint16_t>("bf16", Type::kBF16, {1}, {0x3f80}),
          array<float>("empty", Type::kF16, {0, 4}, {}),
          array<std::uint16_t>("f16", Type::kF16, {2}, {0x3c00, 0x7bff}),
          array<std::uint8_t>("bool", Type::kBool, {2}, {1, 0}),
          array<std::uint8_t>("u8 \"\xc3\xa9\"", Type::kU8, {3}, {0, 1, 255})};
}

std::string file_of(const std::string& header, const std::string& data,
                    std::optional<std::uint64_t> size = {}) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes += static_cast<char>(size.value_or(header.size()) >> (8 * i) & 0xffU);
  }
  return bytes + header + data;
}

TEST(Safetensors, EveryTypeIsLoadedAsSaved) {
  const TemporaryFolder folder;
  std::vector<NamedArray> shuffled = every_type();
  std::reverse(shuffled.begin(), shuffled.end());

  save_safetensors(folder / "all.safetensors", shuffled, {{"made by", "a test"}});
  const auto loaded = load_safetensors(folder / "all.safetensors");

  const auto expected = every_type();
  ASSERT_EQ(loaded.arrays.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(loaded.arrays[i].name, expected[i].name);
    EXPECT_EQ(loaded.arrays[i].type, expected[i].type) << expected[i].name;
    EXPECT_EQ(loaded.arrays[i].dims, expected[i].dims) << expected[i].name;
    EXPECT_EQ(loaded.arrays[i].bytes, expected[i].bytes) << expected[i].name;
  }
  EXPECT_THAT(loaded.metadata, ElementsAre(Pair("made by", "a test")));
  EXPECT_THAT(folder.names(), ElementsAre("all.safetensors"));
}

TEST(Safetensors, HeaderIsPaddedToEightBytes) {
  const TemporaryFolder folder;
  save_safetensors(folder / "a.safetensors", {{array<float>("w", Type::kF32, {2}, {1, 2})}});
  const std::string expected =
      file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" + std::string(2, ' '),
              std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  EXPECT_EQ(test::read_whole(folder / "a.safetensors"), expected);
}

TEST(Safetensors, PythonReadsSavedFilesAndItsFilesAreLoaded) {
  if (std::system("python3 -c 'import numpy, safetensors' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 on PATH does not have numpy and safetensors";
  }
  const TemporaryFolder folder;
  std::vector<NamedArray> arrays = every_type();
  std::erase_if(arrays,
                [](const NamedArray& each) { return each.name == "bf16"; });  // numpy has no such type
  save_safetensors(folder / "ours.safetensors", arrays, {{"key", "value"}});
  const std::string command =
      R"sh(python3 -c "
import numpy, sys
from safetensors import safe_open
from safetensors.numpy import save_file
with safe_open(sys.argv[1], framework='numpy') as f:
  assert f.metadata() == {'key': 'value'}
  z = {name: f.get_tensor(name) for name in f.keys()}
assert len(z) == 9, z
assert z['0.weight'].tolist() == [[0, .25, .5], [.75, 1, 1.25]]
assert z['f64'] == 0.1
assert z['f16'].tolist() == [1, 65504]
assert z['empty'].shape == (0, 4)
assert z['i64'][0, 0, 0] == -5000000000
assert z['i32'][0] == -5
assert z['u32'][0] == 4294967295
assert z['u8 \"é\"'].tolist() == [0, 1, 255]
assert z['bool'].tolist() == [True, False]
save_file(z, sys.argv[2], metadata={'key': 'value'})" )sh" +
      (folder / "ours.safetensors").string() + " " + (folder / "theirs.safetensors").string();
  ASSERT_EQ(std::system(command.c_str()), 0);

  const auto theirs = load_safetensors(folder / "theirs.safetensors");
  EXPECT_THAT(theirs.metadata, ElementsAre(Pair("key", "value")));
  ASSERT_EQ(theirs.arrays.size(), arrays.size());
  for (const NamedArray& each : arrays) {
    const auto found = std::find_if(theirs.arrays.begin(), theirs.arrays.end(),
                                    [&](const NamedArray& other) { return other.name == each.name; });
    ASSERT_NE(found, theirs.arrays.end()) << each.name;
    EXPECT_EQ(found->bytes, each.bytes) << each.name;
    EXPECT_EQ(found->dims, each.dims) << each.name;
  }
}

TEST(Safetensors, UnknownFieldsOfAnArrayAreIgnored) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"w":{"extra":{"a":[1,{"b":null}]},"dtype":"U8","more":-1.5,"shape":[2],"data_offsets":[0,2]}})";
  test::write_file(folder / "a.safetensors", file_of(header, "ab"));
  EXPECT_THAT(values_of<char>(load_safetensors(folder / "a.safetensors").arrays.at(0).bytes),
              ElementsAre('a', 'b'));
}

struct Crafted {
  const char* header;
  const char* reason;
  std::size_t data = 8;  // bytes
};

TEST(Safetensors, HostileHeadersAreErrorsThatSayWhatIsWrong) {
  const std::string deep = R"({"w":{"x":)" + std::string(100000, '[');
  const std::string axes = R"({"w":{"shape":[)" + std::string(200, '1') + "]}}";
  const std::string many = R"({"w":{"shape":[1)" + [] {
    std::string ones;
    for (int i = 0; i < 100; ++i) {
      ones += ",1";
    }
    return ones;
  }() + "]}}";
  const Crafted cases[] = {
      {"[]", "does not begin with '{'"},
      {" {}", "does not begin with '{'"},
      {"{}", "8 bytes at the end belong to no array"},
      {R"({"w":1})", "'w' has a number where it cannot be"},
      {R"({"w":[]})", "'w' has a list where it cannot be"},
      {R"({"w":{}})", "lacks 'dtype', 'shape' or 'data_offsets'"},
      {R"({"w":{"dtype":"F32","shape":[2]}})", "lacks 'dtype', 'shape' or 'data_offsets'"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},})", "is not JSON, at its byte"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} x)", "is not JSON, at its byte"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
       "does not begin where the one before it ends"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "too many numbers in 'data_offsets'"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
       "does not begin where the one before it ends"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "does not begin where the one before it ends"},
      {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "or exceeds the file"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "4 bytes at the end belong to no array"},
      {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       "array 'w' has 8 bytes, but its type and dims need 12"},
      {R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
       "has a negative number where it cannot be"},
      {R"({"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
       "has the number 2.0 where it cannot be"},
      {R"({"w":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "has a string where it cannot be"},
      {R"({"w":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "'shape' has a number where it cannot be"},
      {R"({"w":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})",
       "its dims are too large"},
      {R"({"w":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,8]}})",
       "its type and dims need 0"},
      {R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
       "its dims are too large"},
      {R"({"w":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}})", "where it cannot be"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", "exceeds the file"},
      {R"({"w":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "has the element type 'F31'"},
      {R"({"w":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", "'dtype' has a number where it cannot be"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "has the field 'dtype' twice"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "array 'w' is there twice"},
      {R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "does not begin where the one before it ends"},
      {R"({"__metadata__":{"a":1},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "'a' has a number"},
      {R"({"__metadata__":{"a":"1","a":"2"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "has 'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "has '__metadata__' twice"},
      {"{\"\xff\":1}", "is not JSON"},
      {deep.c_str(), "nested too deeply"},
      {axes.c_str(), "where it cannot be"},
      {many.c_str(), "too many numbers in 'shape'"},
  };
  const TemporaryFolder folder;
  for (const Crafted& each : cases) {
    test::write_file(folder / "bad.safetensors", file_of(each.header, std::string(each.data, 'x')));
    EXPECT_THAT(error_of([&] { load_safetensors(folder / "bad.safetensors"); }),
                is_error(ErrorCode::kDataLoss, "bad.safetensors: ", each.reason, "download or save it again"))
        << std::string(each.header).substr(0, 200);
  }
  for (const std::uint64_t size : {std::uint64_t{3}, std::uint64_t{100'000'001}, ~std::uint64_t{0}}) {
    test::write_file(folder / "bad.safetensors", file_of("{}", "", size));
    EXPECT_THAT(
        error_of([&] { load_safetensors(folder / "bad.safetensors"); }),
        is_error(ErrorCode::kDataLoss, "it claims to have a header of " + std::to_string(size) + " bytes"));
  }
  test::write_file(folder / "i8.safetensors",
                   file_of(R"({"w":{"dtype":"I8","shape":[8],"data_offsets":[0,8]}})", "12345678"));
  EXPECT_THAT(error_of([&] { load_safetensors(folder / "i8.safetensors"); }),
              is_error(ErrorCode::kUnimplemented, "'I8'", "convert it"));
}

// No truncated or changed file crashes, and every error is a sentence that names the file.
TEST(Safetensors, DamagedFilesNeverCrash) {
  const TemporaryFolder folder;
  save_safetensors(folder / "a.safetensors", every_type(), {{"key", "value"}});
  const std::string whole = test::read_whole(folder / "a.safetensors");
  const auto is_clean = [&](const std::string& bytes) {
    test::write_file(folder / "bad.safetensors", bytes);
    try {
      std::uint64_t total = 0;
      for (const NamedArray& each : load_safetensors(folder / "bad.safetensors").arrays) {
        total += each.bytes.size();
      }
      EXPECT_LT(total, bytes.size());
      return true;
    } catch (const Error& error) {
      EXPECT_THAT(error, AnyOf(is_error(ErrorCode::kDataLoss), is_error(ErrorCode::kUnimplemented)));
      EXPECT_THAT(error.what(), HasSubstr("bad.safetensors: "));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return false;
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(is_clean(whole.substr(0, size))) << size;
  }
  std::mt19937 random(17);
  std::size_t accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = whole;
    for (auto flips = 1 + random() % 4; flips > 0; --flips) {
      changed[random() % changed.size()] ^= static_cast<char>(1U << random() % 8);
    }
    accepted += is_clean(changed) ? 1U : 0U;
  }
  EXPECT_LT(accepted, 500U);  // changes of values and names cannot be seen
}

TEST(Safetensors, ArraysThatTheFormatCannotHoldAreErrorsBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const auto fails = [&](const NamedArray& each, const char* why) {
    EXPECT_THAT(error_of([&] { save_safetensors(folder / "a.safetensors", {{each}}); }),
                is_error(ErrorCode::kInvalidArgument, why));
  };
  fails(array<float>("__metadata__", Type::kF32, {1}, {1}), "reserves the name '__metadata__'");
  fails(array<float>("\xff", Type::kF32, {1}, {1}), "is not UTF-8");
  fails(array<float>("", Type::kF32, {1}, {1}), "has 0 bytes");
  fails(array<float>("w", Type::kF32, {2}, {1}), "array 'w' has 4 bytes, but its type and dims need 8");
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(Safetensors, FileNameChoosesTheFormat) {
  const TemporaryFolder folder;
  const std::vector<NamedArray> arrays = {array<float>("w", Type::kF32, {2}, {1, 2})};
  for (const char* name : {"a.npz", "a.safetensors", "B.NPZ", "B.SafeTensors"}) {
    save_arrays(folder / name, arrays);
    EXPECT_THAT(values_of<float>(load_arrays(folder / name).at(0).bytes), ElementsAre(1, 2)) << name;
  }
  EXPECT_EQ(test::read_whole(folder / "a.npz").substr(0, 2), "PK");
  EXPECT_EQ(load_safetensors(folder / "a.safetensors").arrays.size(), 1U);
  EXPECT_EQ(test::read_whole(folder / "B.NPZ").substr(0, 2), "PK");
  EXPECT_EQ(load_safetensors(folder / "B.SafeTensors").arrays.size(), 1U);
}

}  // namespace
}  // namespace yoke
