// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/mnist_test.cpp: valid and damaged IDX files, plain and gzip, and MNIST itself if available.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/datasets.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "test_files.h"
#include "test_paths.h"

namespace yoke {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two training images and one test image of 1 x 3 pixels, three classes.
class MnistFolder : public ::testing::Test {
 protected:
  MnistFolder() {
    test::write_file(train_images(), idx_train_);
    test::write_file(train_labels(), test::idx_labels({2, 0}));
    test::write_file(test_images(), test::idx_images(1, 1, 3, std::string("\x01\x02\x03", 3)));
    test::write_file(test_labels(), test::idx_labels({1}));
  }
  std::filesystem::path train_images() const { return folder_ / "train-images-idx3-ubyte"; }
  std::filesystem::path train_labels() const { return folder_ / "train-labels-idx1-ubyte"; }
  std::filesystem::path test_images() const { return folder_ / "t10k-images-idx3-ubyte"; }
  std::filesystem::path test_labels() const { return folder_ / "t10k-labels-idx1-ubyte"; }
  std::string error_text(std::uint64_t class_count = 0) const {
    return error_of([&] { datasets::read_mnist(folder_.path(), class_count); }).what();
  }
  void gzip(const std::filesystem::path& path, const std::string& options = "") const {
    ASSERT_EQ(std::system(("gzip " + options + " " + path.string()).c_str()), 0);
  }

  TemporaryFolder folder_;
  const std::string idx_train_ = test::idx_images(2, 1, 3, std::string("\x00\x0a\x14\x1e\x28\xff", 6));
};

TEST_F(MnistFolder, SizesClassesAndMomentsComeFromTheFiles) {
  const auto data = datasets::read_mnist(folder_.path());

  EXPECT_EQ(data.row_count, 1U);
  EXPECT_EQ(data.column_count, 3U);
  EXPECT_EQ(data.class_count, 3U);
  EXPECT_THAT(data.train_images.dims(), ElementsAre(2, 3));
  EXPECT_THAT(data.test_images.dims(), ElementsAre(1, 3));
  EXPECT_THAT(values_of<std::uint8_t>(data.train_labels.host_bytes()), ElementsAre(2, 0));
  const std::array<double, 6> pixels = {0, 10, 20, 30, 40, 255};
  const double mean = 355.0 / 6;
  double squares = 0;
  for (const double pixel : pixels) {
    squares += (pixel - mean) * (pixel - mean);
  }
  EXPECT_NEAR(data.mean, mean, 1e-12);
  EXPECT_NEAR(data.deviation, std::sqrt(squares / 6), 1e-9);
  EXPECT_FLOAT_EQ(values_of<float>(data.train_images.host_bytes())[5],
                  static_cast<float>((255 - data.mean) / data.deviation));
  EXPECT_FLOAT_EQ(values_of<float>(data.test_images.host_bytes())[0],
                  static_cast<float>((1 - data.mean) / data.deviation));
}

TEST_F(MnistFolder, OtherImagesAreScaledAsGivenAndMayHaveLabels) {
  const auto all = datasets::read_images(folder_.path(), 3, 1, 2);
  EXPECT_THAT(values_of<float>(all.images.host_bytes()), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(values_of<std::uint8_t>(all.labels.host_bytes()), ElementsAre(1));
  EXPECT_EQ(all.row_count * 10 + all.column_count, 13U);
  EXPECT_THAT(error_of([&] { datasets::read_images(folder_.path(), 1, 1, 2); }).what(),
              HasSubstr("label 1 of item 0"));
  std::filesystem::remove(test_labels());
  EXPECT_FALSE(datasets::read_images(folder_.path(), 3, 1, 2).labels);
  EXPECT_THAT(datasets::read_images(train_images(), 3, 0, 1).images.dims(), ElementsAre(2, 3));
  EXPECT_THROW(datasets::read_images(train_labels(), 3, 0, 1), Error);
}

TEST_F(MnistFolder, ReadsGzipFilesAndNamesWithADot) {
  const auto plain = datasets::read_mnist(folder_.path());
  gzip(train_images());
  gzip(train_labels(), "-n");
  std::filesystem::rename(test_labels(), folder_ / "t10k-labels.idx1-ubyte");

  const auto packed = datasets::read_mnist(folder_.path());

  EXPECT_EQ(values_of<float>(packed.train_images.host_bytes()),
            values_of<float>(plain.train_images.host_bytes()));
  EXPECT_EQ(values_of<std::uint8_t>(packed.test_labels.host_bytes()),
            values_of<std::uint8_t>(plain.test_labels.host_bytes()));
}

TEST_F(MnistFolder, TruncatedFileIsAnErrorThatNamesFileAndOffset) {
  for (const bool packed : {false, true}) {
    if (packed) {
      test::write_file(train_images(), idx_train_);
      gzip(train_images());
    }
    const std::string path = train_images().string() + (packed ? ".gz" : "");
    const std::string whole = test::read_whole(path);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      test::write_file(path, whole.substr(0, size));
      EXPECT_THAT(error_text(), AllOf(HasSubstr(path), HasSubstr("byte"), HasSubstr("download it again")))
          << size;
    }
    std::filesystem::remove(path);
  }
}

TEST_F(MnistFolder, ChangedByteInAGzipFileNeverChangesThePixels) {
  gzip(train_images(), "-n");
  const std::string path = train_images().string() + ".gz";
  const std::string whole = test::read_whole(path);
  const auto right = values_of<float>(datasets::read_mnist(folder_.path()).train_images.host_bytes());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    test::write_file(path, changed);
    try {  // some header fields, such as the time stamp, have no effect
      EXPECT_EQ(values_of<float>(datasets::read_mnist(folder_.path()).train_images.host_bytes()), right)
          << at;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path)) << at;
    }
  }
}

TEST_F(MnistFolder, FileThatIsTooLongIsAnError) {
  test::write_file(train_images(), idx_train_ + "x");
  EXPECT_EQ(error_text(),
            train_images().string() +
                ": the header declares 2 x 1 x 3 bytes of data, but 7 follow byte 16; the file is too long: "
                "download it again");
}

TEST_F(MnistFolder, DimensionsThatOverflowAreAnError) {
  test::write_file(train_images(), test::idx_images(0xffffffffU, 0xffffffffU, 0xffffffffU, "x"));
  EXPECT_THAT(error_text(), HasSubstr("dimension 1 at byte 8 is 4294967295, which is invalid"));
  test::write_file(train_images(), test::idx_images(0, 1, 3, ""));
  EXPECT_THAT(error_text(), HasSubstr("dimension 0 at byte 4 is 0"));
}

TEST_F(MnistFolder, LabelFileInPlaceOfAnImageFileIsAnError) {
  test::write_file(train_images(), test::idx_labels(std::vector<std::uint8_t>(20)));
  EXPECT_THAT(error_text(),
              HasSubstr("the magic number at byte 0 is 0x00000801, but an IDX file of unsigned bytes "
                        "with 3 dimensions starts with 0x00000803"));
}

TEST_F(MnistFolder, DifferentNumbersOfImagesAndLabelsAreAnError) {
  test::write_file(train_labels(), test::idx_labels({2, 0, 1}));
  EXPECT_EQ(error_text(), train_images().string() + " holds 2 images, but " + train_labels().string() +
                              " holds 3 labels; fetch both again");
}

TEST_F(MnistFolder, LabelOutOfRangeIsAnError) {
  test::write_file(test_labels(), test::idx_labels({3}));
  EXPECT_EQ(error_text(),
            test_labels().string() +
                ": label 3 of item 0, at byte 8, is out of range for 3 classes (0 to 2); fix the "
                "file or the number of classes");
  test::write_file(train_labels(), test::idx_labels({2, 10}));
  EXPECT_THAT(error_text(10),
              HasSubstr("label 10 of item 1, at byte 9, is out of range for 10 classes (0 to 9)"));
  EXPECT_EQ(datasets::read_mnist(folder_.path()).class_count, 11U);
}

TEST_F(MnistFolder, ImagesOfDifferentSizesAreAnError) {
  test::write_file(test_images(), test::idx_images(1, 3, 1, "abc"));
  EXPECT_THAT(error_text(), HasSubstr("holds images of 3 x 1 pixels, but"));
}

TEST_F(MnistFolder, MissingFileIsAnError) {
  std::filesystem::remove(test_labels());
  EXPECT_THAT(error_text(), HasSubstr("has no t10k-labels-idx1-ubyte and no t10k-labels-idx1-ubyte.gz"));
}

TEST_F(MnistFolder, FolderWithoutReadPermissionIsAnError) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::none);
  const test::OrdinaryUser user;
  EXPECT_THAT(error_text(),
              HasSubstr("cannot read the folder " + folder_.path().string() + ": Permission denied"));
}

TEST_F(MnistFolder, FileWithoutReadPermissionIsAnError) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(train_images(), std::filesystem::perms::none);
  const test::OrdinaryUser user;
  EXPECT_THAT(error_text(), HasSubstr("cannot read " + train_images().string() + ": Permission denied"));
}

TEST(Mnist, EmptyOrMissingFolderIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { datasets::read_mnist(folder.path()); }).what(),
              HasSubstr("is empty; put MNIST's four IDX files there"));
  EXPECT_THAT(error_of([&] { datasets::read_mnist(folder / "none"); }).what(),
              HasSubstr("No such file or directory"));
  test::write_file(folder / "file", "x");
  EXPECT_THAT(error_of([&] { datasets::read_mnist(folder / "file"); }).what(), HasSubstr("Not a directory"));
}

// The expected counts and moments come from the documentation of the data set.
TEST(Mnist, RealFilesHaveTheKnownCounts) {
  const char* set = std::getenv("YOKE_TEST_DATA");
  const std::filesystem::path folder =
      std::filesystem::path(set != nullptr ? set : test::source_folder() + "/../shared/data") / "mnist";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << folder << " does not exist; set YOKE_TEST_DATA to the folder that contains mnist/";
  }
  const auto data = datasets::read_mnist(folder);

  EXPECT_THAT(data.train_images.dims(), ElementsAre(60000, 784));
  EXPECT_THAT(data.test_images.dims(), ElementsAre(10000, 784));
  EXPECT_EQ(data.class_count, 10U);
  const auto count = [](const Tensor& labels) {
    std::vector<int> counts(10);
    for (const std::uint8_t label : values_of<std::uint8_t>(labels.host_bytes())) {
      ++counts[label];
    }
    return counts;
  };
  EXPECT_THAT(count(data.train_labels),
              ElementsAre(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949));
  EXPECT_THAT(count(data.test_labels), ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  EXPECT_NEAR(data.mean, 33.3184, 5e-5);
  EXPECT_NEAR(data.deviation, 78.5675, 5e-5);
}

}  // namespace
}  // namespace yoke
