// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/convolution_test.cpp: convolutions that the fakes of cuDNN and MIOpen compute, and what the
// plugins do without these libraries. Each test runs in its own process, because the fakes read variables once.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "products_on_fakes.h"

namespace yoke::gpu {
namespace {

// A convolution of images with the channels last, as the frontends write it, and its gradients.
struct Shape {
  const char* name;
  int size[2];
  int kernel[2] = {3, 3};
  int stride[2] = {1, 1};
  int dilation[2] = {1, 1};
  int padding[2] = {0, 0};
  int groups = 1;
  bool is_channels_first = false;
};

constexpr Shape kShapes[] = {
    {.name = "plain", .size = {8, 9}},
    {.name = "padded", .size = {8, 7}, .padding = {1, 1}},
    {.name = "strided", .size = {9, 8}, .stride = {2, 3}, .padding = {1, 0}},
    {.name = "dilated", .size = {9, 11}, .dilation = {2, 3}, .padding = {2, 3}},
    {.name = "one", .size = {20, 19}, .kernel = {1, 1}, .stride = {2, 2}},
    {.name = "even", .size = {8, 8}, .kernel = {2, 4}, .stride = {2, 2}, .padding = {0, 1}},
    {.name = "grouped", .size = {6, 7}, .padding = {1, 1}, .groups = 2},
    {.name = "first_one", .size = {16, 17}, .kernel = {1, 1}, .is_channels_first = true},
    {.name = "first", .size = {9, 8}, .stride = {2, 1}, .padding = {1, 1}, .is_channels_first = true},
    {.name = "first_grouped", .size = {7, 8}, .padding = {1, 0}, .groups = 3, .is_channels_first = true},
};
constexpr int kImages = 3;
constexpr int kIn = 4;  // channels of a group
constexpr int kOut = 5;

enum class Kind { kForward, kInput, kFilter };

std::string dims(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) {
    text += (text.empty() ? "" : ", ") + one;
  }
  return "[" + text + "]";
}

std::string number(int value) {
  return std::to_string(value);
}

// The program of one of the three, with this type and assignment.
// NOLINTNEXTLINE(readability-function-size): the parts of one text
std::string body_of(const Shape& shape, Kind kind, const std::string& type, const std::string& assign) {
  const auto image = [&](const std::string& n, const std::string& g, const std::string& c,
                         const std::string& h, const std::string& w) {
    std::vector<std::string> channels = {g, c};
    if (shape.groups == 1) {
      channels.erase(channels.begin());
    }
    std::vector<std::string> all = {n};
    const auto put = [&](const std::vector<std::string>& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    put(shape.is_channels_first ? channels : std::vector{h, w});
    put(shape.is_channels_first ? std::vector{h, w} : channels);
    return dims(all);
  };
  const auto filter = [&](const std::string& g, const std::string& o, const std::string& c,
                          const std::string& h, const std::string& w) {
    std::vector<std::string> all = {o, h, w, c};
    if (shape.is_channels_first) {
      all = {o, c, h, w};
    }
    if (shape.groups != 1) {
      all.insert(all.begin(), g);
    }
    return dims(all);
  };
  std::string out[2];
  std::string direct[2];
  std::string inverse[2];
  for (int i = 0; i < 2; ++i) {
    const int reach = shape.dilation[i] * (shape.kernel[i] - 1);
    const std::string stride = number(shape.stride[i]);
    const std::string dilation = number(shape.dilation[i]);
    const std::string padding = number(shape.padding[i]);
    const std::string h = i == 0 ? "h" : "v";
    const std::string k = i == 0 ? "k" : "l";
    out[i] = number((shape.size[i] + 2 * shape.padding[i] - reach - 1) / shape.stride[i] + 1);
    direct[i] = stride + "*" + h + " + " + dilation + "*" + k + " - " + padding;
    inverse[i] = h + " - " + dilation + "*" + k + " + " + padding;
    inverse[i] = shape.stride[i] == 1 ? inverse[i] : "(" + inverse[i] + ") / " + stride;
    if (shape.kernel[i] == 1) {
      direct[i] = stride + "*" + h;
      inverse[i] = shape.stride[i] == 1 ? h : "(" + h + ") / " + stride;
    }
  }
  const std::string g = number(shape.groups);
  const std::string roles[] = {kind == Kind::kInput ? (assign == "=" ? "out" : "inout") : "in",
                               kind == Kind::kFilter ? (assign == "=" ? "out" : "inout") : "in",
                               kind == Kind::kForward ? (assign == "=" ? "out" : "inout") : "in"};
  std::string text = " arg x : " + type +
                     image(number(kImages), g, number(kIn), number(shape.size[0]), number(shape.size[1])) +
                     " " + roles[0] + "\n arg w : " + type +
                     filter(g, number(kOut), number(kIn), number(shape.kernel[0]), number(shape.kernel[1])) +
                     " " + roles[1] + "\n arg y : " + type +
                     image(number(kImages), g, number(kOut), out[0], out[1]) + " " + roles[2] + "\n ";
  const bool is_one = shape.kernel[0] == 1;
  const std::string k = is_one ? "0" : "k";
  const std::string l = is_one ? "0" : "l";
  const std::string window = is_one ? "" : ", k, l";
  const auto cast = [&](const std::string& read) { return type == "f32" ? read : "f32(" + read + ")"; };
  const std::string w = cast("w" + filter("g", "o", "c", k, l));
  if (kind == Kind::kForward) {
    return text + "y" + image("n", "g", "o", "h", "v") + " " + assign + " sum:f32[c" + window + "] (" +
           cast("x" + image("n", "g", "c", direct[0], direct[1])) + " * " + w + " else 0)\n";
  }
  if (kind == Kind::kInput) {
    return text + "x" + image("n", "g", "c", "h", "v") + " " + assign + " sum:f32[o" + window + "] (" +
           cast("y" + image("n", "g", "o", inverse[0], inverse[1])) + " * " + w + " else 0)\n";
  }
  return text + "w" + filter("g", "o", "c", k, l) + " " + assign + " sum:f32[n, h:" + out[0] +
         ", v:" + out[1] + "] (" + cast("y" + image("n", "g", "o", "h", "v")) + " * " +
         cast("x" + image("n", "g", "c", direct[0], direct[1])) + " else 0)\n";
}

class ConvolutionTest : public testing::TestWithParam<bool> {
 protected:
  Conditions conditions(std::map<std::string, std::string> variables = {}) const {
    Conditions made = {GetParam(), {}, std::move(variables)};
    made.options.convolutions = true;
    return made;
  }
  std::string library() const { return GetParam() ? "MIOpen" : "cuDNN"; }
  std::string variable() const { return GetParam() ? "YOKE_MIOPEN_LIBRARY" : "YOKE_CUDNN_LIBRARY"; }
};
INSTANTIATE_TEST_SUITE_P(Vendors, ConvolutionTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& one) { return one.param ? "Hip" : "Cuda"; });

// The remark without the shapes.
std::string fault_without_shapes(const Conditions& setup, const std::string& name, const std::string& body,
                                 const std::string& start) {
  const Product product = {name.c_str(), body.c_str(), ""};
  const std::string reason = Bound(setup, product).reason();
  return reason.starts_with(start) ? fault_of(setup, product, reason)
                                   : name + ": '" + reason + "' instead of '" + start + "'\n" + body;
}

const std::pair<Kind, const char*> kKinds[] = {{Kind::kForward, "convolution, "},
                                               {Kind::kInput, "gradient of the input, "},
                                               {Kind::kFilter, "gradient of the filters, "}};

TEST_P(ConvolutionTest, LibraryComputesConvolutionsAndGradientsWithinTheReferencesBounds) {
  for (const auto& [kind, what] : kKinds) {
    expect_ok([&, k = kind, start = "by " + library() + ": " + what]() -> std::string {
      std::string faults;
      for (const Shape& shape : kShapes) {
        for (const char* type : {"f32", "bf16", "f16"}) {
          faults += fault_without_shapes(conditions(), std::string(shape.name) + " " + type,
                                         body_of(shape, k, type, "="), start);
        }
      }
      return faults;
    });
  }
}

TEST_P(ConvolutionTest, OnlyCudnnAddsToTheResult) {
  for (const auto& [kind, what] : kKinds) {
    const std::string start = GetParam()
                                  ? "not by hipBLASLt: reads may be out of range; not by MIOpen: it does "
                                    "not support the convolution"
                                  : std::string("by cuDNN: ") + what;
    expect_ok([&, k = kind]() -> std::string {
      std::string faults;
      for (const std::size_t shape : {1U, 6U, 8U}) {
        faults += fault_without_shapes(conditions(), kShapes[shape].name,
                                       body_of(kShapes[shape], k, "f32", "+="), start);
      }
      return faults;
    });
  }
}

TEST_P(ConvolutionTest, ResultIsRoundedTogetherWithTheConvolution) {
  const std::string body =
      " arg x : f16[3, 8, 9, 4] in\n arg w : f16[5, 3, 3, 4] in\n arg y : f16[3, 6, 7, 5] out\n"
      " temp t : f32[3, 6, 7, 5]\n"
      " t[n, h, v, o] = sum[k, l, c] f32(x[n, h + k, v + l, c]) * f32(w[o, k, l, c])\n"
      " y[n, h, v, o] = f16(t[n, h, v, o])\n";
  expect_ok([&]() -> std::string {
    return fault_without_shapes(conditions(), "rounded", body, "by " + library() + ": convolution, ");
  });
}

// The second launch records a graph of two convolutions and a kernel, and the third one launches it.
TEST_P(ConvolutionTest, GraphsContainConvolutions) {
  const std::string body =
      " arg x : f32[3, 8, 9, 4] in\n arg w : f32[4, 3, 3, 4] in\n arg y : f32[3, 8, 9, 4] out\n"
      " temp t : f32[3, 8, 9, 4]\n temp u : f32[3, 8, 9, 4]\n"
      " t[n, h, v, o] = sum[k, l, c] (x[n, h + k - 1, v + l - 1, c] * w[o, k, l, c] else 0)\n"
      " u[n, h, v, o] = max(t[n, h, v, o], 0)\n"
      " y[n, h, v, o] = sum[k, l, c] (u[n, h + k - 1, v + l - 1, c] * w[o, k, l, c] else 0)\n";
  expect_ok([&]() -> std::string {
    const std::string fault =
        fault_without_shapes(conditions(), "graph", body, "by " + library() + ": convolution, ");
    return fault + (the_log.find("graph.skip") == std::string::npos ? "" : the_log);
  });
}

TEST_P(ConvolutionTest, WorkspaceIsPartOfTheRoutines) {
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  expect_ok([&]() -> std::string {
    const Product product = {"padded", body.c_str(), ""};
    const std::uint64_t bytes = Bound(conditions(), product).workspace_byte_count();
    const std::uint64_t sums = 4 * kImages * kOut * 8 * 7;
    return bytes >= sums && bytes < sums + 256 ? "" : "the workspace has " + std::to_string(bytes) + " bytes";
  });
}

TEST_P(ConvolutionTest, KernelsComputeConvolutionsWithoutTheLibrary) {
  const std::map<std::string, std::map<std::string, std::string>> cases = {
      {"nonexistent.so", {{variable(), "/nonexistent.so"}}},
      {"is too old: libm.so.6 has no", {{variable(), "libm.so.6"}}},
      {GetParam() ? "its version is 2.20, and yoke needs 3.0" : "its version is 7.6, and yoke needs 8.0",
       {{"FAKE_GPU_DNN", GetParam() ? "22000" : "7605"}}},
      {"Create failed with status 1;", {{"FAKE_GPU_FAIL", "dnn_create:1:1"}}}};
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  const std::string remark =
      std::string("not by ") + (GetParam() ? "hipBLASLt" : "cublasLt") + ": reads may be out of range";
  for (const auto& [sign, variables] : cases) {
    expect_ok([&, s = sign, v = variables]() -> std::string {
      const std::string fault = fault_of(conditions(v), {"padded", body.c_str(), ""}, remark);
      const bool is_logged =
          the_log.find("convolutions.skip") != std::string::npos && the_log.find(s) != std::string::npos;
      return fault + (is_logged ? "" : "the log lacks '" + s + "': " + the_log);
    });
  }
}

TEST_P(ConvolutionTest, OptionsTurnTheLibraryOff) {
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  for (const bool vendor : {true, false}) {
    expect_ok([&]() -> std::string {
      Conditions off = conditions();
      off.options.convolutions = !vendor;
      off.options.vendor = vendor;
      const Product product = {"padded", body.c_str(), ""};
      const std::string fault = fault_of(off, product, Bound(off, product).reason());
      return fault + (the_log.find("convolutions.") == std::string::npos ? "" : the_log);
    });
  }
}

TEST_P(ConvolutionTest, NextAlgorithmOrAKernelReplacesOneThatIsNotSupported) {
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  const std::string code = GetParam() ? "6" : "3000";
  const std::string refused = std::string("not by ") + (GetParam() ? "hipBLASLt" : "cublasLt") +
                              ": reads may be out of range; not by " + library() +
                              ": it does not support the convolution";
  const std::map<std::string, std::string> cases = {
      {"dnn_forward_workspace:1:" + code, "by " + library() + ": convolution, "},
      {"dnn_forward_workspace:1+:" + code, refused},
      {"dnn_forward_find:1+:" + code, refused},
      {"dnn_tensor_set:1+:" + code, refused},
      {"dnn_convolution_groups:1+:7", refused}};  // a failure
  for (const auto& [call, start] : cases) {
    expect_ok([&, c = call, s = start]() -> std::string {
      const std::string fault = fault_without_shapes(conditions({{"FAKE_GPU_FAIL", c}}), c, body, s);
      return fault +
             (the_log.find("convolutions.plan") != std::string::npos ? "" : "the log lacks the reason");
    });
  }
}

TEST_P(ConvolutionTest, ConvolutionThatFailsIsAnErrorThatNamesTheCall) {
  const std::string functions[] = {
      GetParam() ? "miopenConvolutionForwardImmediate" : "cudnnConvolutionForward",
      GetParam() ? "miopenConvolutionBackwardDataImmediate" : "cudnnConvolutionBackwardData",
      GetParam() ? "miopenConvolutionBackwardWeightsImmediate" : "cudnnConvolutionBackwardFilter"};
  const std::string members[] = {"forward", "input", "filter"};
  for (const auto& [kind, what] : kKinds) {
    const auto i = static_cast<std::size_t>(kind);
    const std::string body = body_of(kShapes[1], kind, "f32", "=");
    expect_ok([&]() -> std::string {
      Bound bound(conditions({{"FAKE_GPU_FAIL", "dnn_" + members[i] + ":1:8"}}), {"fails", body.c_str(), ""});
      try {
        bound.run();
      } catch (const sdk::Failure& failure) {
        const std::string sign =
            functions[i] + " failed with status 8; set the option vendor_convolution=off";
        const bool is_named = failure.text().find(sign) != std::string::npos;
        return failure.code() == YOKE_STATUS_UNAVAILABLE && is_named ? "" : failure.text();
      }
      return "the launch succeeds";
    });
  }
}

TEST_P(ConvolutionTest, FingerprintNamesTheAlgorithm) {
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  const auto fingerprint = [&](const Conditions& setup) {
    return Bound(setup, {"padded", body.c_str(), ""}).fingerprint();
  };
  expect_ok([&]() -> std::string {
    const std::string usual = fingerprint(conditions());
    const std::string again = fingerprint(conditions());
    Conditions tf32 = conditions();
    tf32.options.tf32 = true;
    const bool is_new = fingerprint(tf32) != usual;
    return usual == again && is_new ? "" : "the fingerprints are wrong";
  });
  expect_ok([&]() -> std::string {
    const std::string code = GetParam() ? "6" : "3000";
    const std::string other = fingerprint(conditions({{"FAKE_GPU_FAIL", "dnn_forward_workspace:1:" + code}}));
    return fingerprint(conditions()) != other ? "" : "another algorithm has the same fingerprint";
  });
}

TEST_P(ConvolutionTest, OnlyCudnnRoundsToTf32IfAllowed) {
  const std::string body = body_of(kShapes[1], Kind::kForward, "f32", "=");
  expect_ok([&]() -> std::string {
    Conditions tf32 = conditions();
    tf32.options.tf32 = true;
    const Product product = {"padded", body.c_str(), ""};
    const bool is_equal = Bound(conditions(), product).run() == Bound(tf32, product).run();
    return is_equal == GetParam() ? "" : "tf32 is wrong";
  });
}

}  // namespace
}  // namespace yoke::gpu
