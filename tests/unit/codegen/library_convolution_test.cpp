// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/library_convolution_test.cpp: which statements are convolutions for a library of the vendor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>

#include "codegen.h"

namespace yoke::codegen {
namespace {

std::string joined(const auto& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

// "x 2,3,6,5/90,30,5,1 w ... y ...", then what differs from the defaults.
std::string text_of(const LibraryConvolution& made) {
  constexpr const char* kKinds[] = {"forward", "input", "filter"};
  std::string text = kKinds[static_cast<std::size_t>(made.kind)];
  for (std::size_t i = 0; i < 3; ++i) {
    const Volume& volume = made.volumes[i];
    text += std::string(" ") + "xwy"[i] + " " + joined(volume.dims) + "/" + joined(volume.strides);
    text += volume.offset != 0 ? "@" + std::to_string(volume.offset) : "";
  }
  const auto add = [&](const char* name, const std::string& value, const char* usual) {
    text += value != usual ? std::string(" ") + name + " " + value : "";
  };
  add("groups", std::to_string(made.groups), "1");
  add("stride", joined(made.stride), "1,1");
  add("dilation", joined(made.dilation), "1,1");
  add("padding", joined(made.padding), "0,0");
  add("type", std::string(program::type_name(made.type)), "f32");
  return text + (made.accumulates ? " accumulates" : "");
}

// Computes every convolution, and remembers the last one.
class Recorder final : public VendorLibrary<LibraryConvolution> {
 public:
  const char* name() const override { return "dnn"; }
  bool is_available() override { return true; }
  std::optional<std::uint64_t> workspace_for(const LibraryConvolution& call) override {
    last = call;
    return 0;
  }
  LibraryConvolution last;
};

// What the library computes for the first launch, or the remark of that launch.
std::string found_in(const std::string& body) {
  const std::string text = "yoke.program 1\nprogram p() {\n" + body + "}\n";
  Recorder recorder;
  const Plan plan =
      generate(program::parse_and_verify(text).programs.at(0), Target{}, {.convolutions = &recorder});
  const Launch& first = plan.launches.at(0);
  return first.convolution ? text_of(*first.convolution) : first.remark;
}

constexpr const char* kForward =
    " arg x : f32[2, 3, 6, 5] in\n arg w : f32[4, 3, 3, 3] in\n arg y : f32[2, 4, 6, 5] out\n";
constexpr const char* kStrided =
    " arg x : f32[8, 3, 9, 9] in\n arg w : f32[4, 3, 3, 2] in\n arg y : f32[8, 4, 5, 3] out\n";

TEST(LibraryConvolutionTest, ForwardPassHasTheShapesOfTheProgram) {
  EXPECT_EQ(
      found_in(std::string(kForward) +
               " y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)\n"),
      "forward x 2,3,6,5/90,30,5,1 w 4,3,3,3/27,9,3,1 y 2,4,6,5/120,30,5,1 padding 1,1");
  EXPECT_EQ(
      found_in(std::string(kStrided) +
               " y[n, o, h, v] = sum[c, i, j] (x[n, c, 2*h + 2*i - 2, 3*v + j] * w[o, c, i, j] else 0)\n"),
      "forward x 8,3,9,9/243,81,9,1 w 4,3,3,2/18,6,2,1 y 8,4,5,3/60,15,3,1 stride 2,3 dilation 2,1 padding "
      "2,0");
}

TEST(LibraryConvolutionTest, ChannelsMayBeLast) {
  EXPECT_EQ(found_in(" arg x : bf16[2, 8, 9, 16] in\n arg w : bf16[32, 3, 3, 16] in\n"
                     " arg y : bf16[2, 8, 9, 32] out\n"
                     " y[n, h, v, o] = sum:f32[i, j, c] f32((x[n, h + i - 1, v + j - 1, c] else 0)) * "
                     "f32(w[o, i, j, c])\n"),
            "forward x 2,16,8,9/1152,1,144,16 w 32,16,3,3/144,1,48,16 y 2,32,8,9/2304,1,288,32 padding 1,1 "
            "type bf16");
  EXPECT_EQ(
      found_in(" arg x : f32[2, 8, 8, 16] in\n arg w : f32[32, 1, 1, 16] in\n arg y : f32[2, 4, 4, 32] out\n"
               " y[n, h, v, o] = sum[i:1, j:1, c] x[n, 2*h + i, 2*v + j, c] * w[o, i, j, c]\n"),
      "forward x 2,16,8,8/1024,1,128,16 w 32,16,1,1/16,1,16,16 y 2,32,4,4/512,1,128,32 stride 2,2");
}

TEST(LibraryConvolutionTest, GroupsShareAStride) {
  const std::string w = " arg w : f32[2, 4, 3, 3, 3] in\n";
  EXPECT_EQ(found_in(" arg x : f32[2, 2, 3, 7, 5] in\n" + w + " arg y : f32[2, 2, 4, 4, 3] out\n" +
                     " y[n, g, o, h, v] = sum[c, i, j] (x[n, g, c, 2*h + i - 1, 2*v + j - 1] * "
                     "w[g, o, c, i, j] else 0)\n"),
            "forward x 2,6,7,5/210,35,5,1 w 8,3,3,3/27,9,3,1 y 2,8,4,3/96,12,3,1 groups 2 stride 2,2 padding "
            "1,1");
  EXPECT_EQ(found_in(" arg x : f32[2, 2, 3, 7, 5] in\n" + w + " arg y : f32[2, 4, 2, 4, 3] out\n" +
                     " y[n, o, g, h, v] = sum[c, i, j] (x[n, g, c, 2*h + i - 1, 2*v + j - 1] * "
                     "w[g, o, c, i, j] else 0)\n"),
            "not by dnn: the channels of all groups have no common stride");
}

TEST(LibraryConvolutionTest, GradientsHaveTheShapesOfTheForwardPass) {
  const std::string arguments =
      " arg x : f32[8, 3, 9, 9] in\n arg w : f32[4, 3, 3, 2] in\n arg dy : f32[8, 4, 5, 3] in\n"
      " arg dx : f32[8, 3, 9, 9] inout\n arg dw : f32[4, 3, 3, 2] inout\n";
  const std::string shapes = " x 8,3,9,9/243,81,9,1 w 4,3,3,2/18,6,2,1 y 8,4,5,3/60,15,3,1 stride 2,3";
  EXPECT_EQ(found_in(arguments + " dx[n, c, h, v] += sum[o, i, j] (dy[n, o, (h - 2*i + 2) / 2, (v - j) / 3] *"
                                 " w[o, c, i, j] else 0)\n"),
            "input" + shapes + " dilation 2,1 padding 2,0 accumulates");
  EXPECT_EQ(found_in(arguments + " dw[o, c, i, j] += sum[n, h, v] (dy[n, o, h, v] * x[n, c, 2*i + 2*h - 2, "
                                 "j + 3*v] else 0)\n"),
            "filter" + shapes + " dilation 2,1 padding 2,0 accumulates");
}

TEST(LibraryConvolutionTest, FiltersOfOneElementAndRowsAreConvolutions) {
  const std::string arguments = " arg x : f32[4, 8, 5, 6] in\n arg w : f32[16, 8] in\n";
  EXPECT_EQ(found_in(arguments + " arg y : f32[4, 16, 5, 6] out\n"
                                 " y[n, o, h, v] = sum[c] x[n, c, h, v] * w[o, c]\n"),
            "forward x 4,8,5,6/240,30,6,1 w 16,8,1,1/8,1,1,1 y 4,16,5,6/480,30,6,1");
  EXPECT_EQ(found_in(" arg dy : f32[4, 16, 5, 6] in\n arg w : f32[16, 8] in\n arg dx : f32[4, 8, 5, 6] out\n"
                     " dx[n, c, h, v] = sum[o] dy[n, o, h, v] * w[o, c]\n"),
            "input x 4,8,5,6/240,30,6,1 w 16,8,1,1/8,1,1,1 y 4,16,5,6/480,30,6,1");
  EXPECT_EQ(found_in(" arg x : f32[4, 30, 8] in\n arg w : f32[16, 5, 8] in\n arg y : f32[4, 26, 16] out\n"
                     " y[n, h, o] = sum[i, c] x[n, h + i, c] * w[o, i, c]\n"),
            "forward x 4,8,1,30/240,1,240,8 w 16,8,1,5/40,1,40,8 y 4,16,1,26/416,1,416,16");
}

TEST(LibraryConvolutionTest, ResultMayBeRoundedByTheNextStatement) {
  EXPECT_EQ(
      found_in(" arg x : f16[8, 3, 6, 5] in\n arg w : f16[4, 3, 3, 3] in\n arg y : f16[8, 4, 4, 3] out\n"
               " temp t : f32[8, 4, 4, 3]\n"
               " t[n, o, h, v] = sum[c, i, j] f32(x[n, c, h + i, v + j]) * f32(w[o, c, i, j])\n"
               " y[n, o, h, v] = f16(t[n, o, h, v])\n"),
      "forward x 8,3,6,5/90,30,5,1 w 4,3,3,3/27,9,3,1 y 8,4,4,3/48,12,3,1 type f16");
}

TEST(LibraryConvolutionTest, OthersAreKernels) {
  const std::string forward = kForward;
  EXPECT_EQ(found_in(forward + " y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 2, v + j - 1] * w[o, c, i, j] "
                               "else 0)\n"),
            "not by dnn: the padding differs between the sides");
  EXPECT_EQ(found_in(forward + " y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] else 1) * "
                               "w[o, c, i, j]\n"),
            "not by dnn: the padding is not 0");
  EXPECT_EQ(found_in(" arg x : bf16[8, 3, 6, 5] in\n arg w : bf16[4, 3, 3, 3] in\n"
                     " arg y : f32[8, 4, 4, 3] out\n"
                     " y[n, o, h, v] = sum[c, i, j] f32(x[n, c, h + i, v + j]) * f32(w[o, c, i, j])\n"),
            "not by dnn: the result has another type than the factors");
  EXPECT_EQ(found_in(" arg x : f32[8, 3, 6, 5] in\n arg w : f32[4, 3, 3, 3] in\n"
                     " arg y : f32[8, 4, 4, 3] inout\n"
                     " y[n, o, h, v] max= sum[c, i, j] x[n, c, h + i, v + j] * w[o, c, i, j]\n"),
            "not by dnn: the assignment is neither = nor +=");
  EXPECT_EQ(
      found_in(" arg x : f32[8, 3, 6, 6] in\n arg w : f32[4, 3, 3, 3] in\n arg y : f32[8, 4, 4, 3] out\n"
               " y[n, o, h, v] = sum[c, i, j] x[n, c, h + i, v + j + 1] * w[o, c, i, j]\n"),
      "not by dnn: a tensor is too large or misaligned, or its elements overlap");
  EXPECT_EQ(found_in(" arg a : f32[48, 72] in\n arg b : f32[72, 40] in\n arg c : f32[48, 40] out\n"
                     " c[m, n] = sum[k] a[m, k] * b[k, n]\n"),
            "");
}

}  // namespace
}  // namespace yoke::codegen
