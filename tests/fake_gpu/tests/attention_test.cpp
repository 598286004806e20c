// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/attention_test.cpp: attention that the fake of cuDNN computes, and what the plugins do without
// it. Each test runs in its own process, because the fakes read variables once.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../../support/exact_attention.h"
#include "products_on_fakes.h"

namespace yoke::gpu {
namespace {

using test::body_of;
using test::compare_attention;
using Shape = test::AttentionShape;

std::string remark_of(const Shape& shape, const std::string& who = "cuDNN") {
  return "by " + who + ": " + (shape.is_causal ? "causal " : "") + "attention, " +
         std::to_string(shape.batch * shape.heads) + " heads of " + std::to_string(shape.size) + ", " +
         std::to_string(shape.queries) + " queries, " + std::to_string(shape.keys) + " keys";
}

Conditions conditions(std::map<std::string, std::string> variables = {}, bool is_hip = false) {
  Conditions made = {is_hip, {}, std::move(variables)};
  made.options.attention = true;
  return made;
}

const std::string kKernels = "yoke's kernels";

// Kernels that do not store scores, and no library.
Conditions fused(std::map<std::string, std::string> variables = {}, bool is_hip = false) {
  Conditions made = {is_hip, {}, std::move(variables)};
  made.fused_attention = true;
  return made;
}

// The third launch of a routine launches a graph.
std::string fault_of(const Conditions& setup, const Shape& shape, const std::string& remark) {
  const std::string body = body_of(shape);
  Bound bound(setup, Product{"attention", body.c_str(), ""});
  if (bound.reason() != remark) {
    return "'" + bound.reason() + "' instead of '" + remark + "'\n" + the_log;
  }
  const conformance::Contents first = bound.run();
  std::string fault = compare_attention(shape, conformance::initial_arguments(bound.one()), first);
  for (int launch = 0; launch < 2 && fault.empty(); ++launch) {
    fault = bound.run() == first ? "" : "a launch gives different results than the first";
  }
  return fault;
}

// What kernels compute is compared with the reference executor.
std::string fault_of_kernels(const Conditions& setup, const Shape& shape, const std::string& remark) {
  const std::string body = body_of(shape);
  return fault_of(setup, Product{"kernels", body.c_str(), ""}, remark);
}

constexpr Shape kShapes[] = {{},
                             {.type = "f16"},
                             {.is_causal = false},
                             {.has_gradient = false},
                             {.queries = 40, .keys = 24},
                             {.queries = 20, .keys = 33, .size = 8, .value_size = 24},
                             {.type = "f16", .batch = 1, .heads = 1, .size = 128, .value_size = 128},
                             {.queries = 7, .keys = 5, .is_causal = false, .has_gradient = false}};

TEST(AttentionTest, LibraryComputesAttentionAndGradientsWithinTheRoundingOf16Bits) {
  for (const Shape& shape : kShapes) {
    expect_ok([&] { return fault_of(conditions(), shape, remark_of(shape)); });
  }
}

TEST(AttentionTest, FusedKernelsMatchWithinTheRoundingOf16Bits) {
  for (const Shape& shape : kShapes) {
    expect_ok([&] { return fault_of(fused(), shape, remark_of(shape, kKernels)); });
  }
}

TEST(AttentionTest, FusedKernelsComputeWhatTheLibraryDoesNot) {
  const std::pair<std::map<std::string, std::string>, Shape> refused[] = {
      {{{"YOKE_CUDNN_LIBRARY", "/nonexistent.so"}}, {}},
      {{{"FAKE_GPU_CAPABILITY", "100"}}, {}},
      {{{"FAKE_GPU_FAIL", "dnn_descriptor_finalize:1+:3000"}}, {}}};
  for (const auto& [variables, shape] : refused) {
    expect_ok([&, v = variables, s = shape] {
      Conditions both = conditions(v);
      both.fused_attention = true;
      return fault_of(both, s, remark_of(s, kKernels));
    });
  }
  expect_ok([] {
    Conditions both = conditions();
    both.fused_attention = true;
    return fault_of(both, Shape{}, remark_of({}));
  });
}

TEST(AttentionTest, FusedKernelsLeaveOtherDevicesAndHeadsToStatements) {
  const std::string size = "the size of a head is not a multiple of 8 up to 128";
  const std::string unit = "the device has no mma.sync for 16-bit floats";
  struct Case {
    Conditions setup;
    Shape shape;
    std::string reason;
  };
  const Case cases[] = {{fused({{"FAKE_GPU_CAPABILITY", "75"}}), {}, unit},
                        {fused({}, true), {}, unit},
                        {fused(), {.size = 136}, size},
                        {fused(), {.value_size = 136}, size}};
  for (const Case& one : cases) {
    expect_ok([&]() -> std::string {
      const std::string body = body_of(one.shape);
      const std::string reason = Bound(one.setup, Product{"refused", body.c_str(), ""}).reason();
      const bool is_said = reason.find("attention not by yoke's kernels: " + one.reason) != std::string::npos;
      return is_said ? fault_of_kernels(one.setup, one.shape, reason) : reason;
    });
  }
}

// No scores: the statistics, and two floats for each of 128 queries of a head.
TEST(AttentionTest, FusedKernelsNeedWorkspaceOnlyForStatistics) {
  expect_ok([]() -> std::string {
    const std::string body = body_of({.queries = 100, .keys = 200});
    const std::uint64_t bytes = Bound(fused(), Product{"attention", body.c_str(), ""}).workspace_byte_count();
    return bytes == 2560 + 6 * 128 * 8 ? "" : std::to_string(bytes);
  });
}

// Kernels round the scores too, to 8 bits, so the results differ by as much.
TEST(AttentionTest, OperandsMayBePartsOfATensor) {
  expect_ok([]() -> std::string {
    std::string body = body_of({.has_gradient = false});
    const std::pair<std::string, std::string> changes[] = {
        {" arg q : bf16[2, 24, 3, 16] in\n arg k : bf16[2, 24, 3, 16] in\n arg v : bf16[2, 24, 3, 16] in\n",
         " arg p : bf16[2, 24, 3, 3, 16] in\n"},
        {"q[b, i, h, d]", "p[b, i, 0, h, d]"},
        {"k[b, j, h, d]", "p[b, j, 1, h, d]"},
        {"v[b, j, h, d]", "p[b, j, 2, h, d]"}};
    for (const auto& [from, to] : changes) {
      body.replace(body.find(from), from.size(), to);
    }
    Conditions off = conditions();
    off.options.attention = false;
    const Product product = {"parts", body.c_str(), ""};
    Bound bound(conditions(), product);
    const conformance::Contents library = bound.run();
    const conformance::Contents kernels = Bound(off, product).run();
    const auto element = [](const conformance::Contents& contents, std::size_t i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, contents[1].data() + 2 * i, 2);
      return std::bit_cast<float>(std::uint32_t{bits} << 16U);
    };
    for (std::size_t i = 0; i < library[1].size() / 2; ++i) {
      if (!(std::abs(element(library, i) - element(kernels, i)) <= 0x1p-6)) {
        return "element " + std::to_string(i) + " is " + std::to_string(element(library, i)) +
               " instead of " + std::to_string(element(kernels, i));
      }
    }
    return bound.reason() == remark_of({}) ? "" : bound.reason();
  });
}

TEST(AttentionTest, ArgumentsNeedTheAlignmentOfTheLibrary) {
  expect_ok([]() -> std::string {
    const std::string body = body_of({});
    const Bound bound(conditions(), Product{"attention", body.c_str(), ""});
    const bool fits =
        std::all_of(bound.alignments().begin(), bound.alignments().end(),
                    [](std::uint32_t alignment) { return alignment == codegen::kLibraryAlignment; });
    return fits && bound.alignments().size() == 8 ? "" : "an argument needs less";
  });
}

// No scores: the workspaces of the library and the statistics.
TEST(AttentionTest, WorkspaceIsThatOfTheLibrary) {
  expect_ok([]() -> std::string {
    Conditions off = conditions();
    off.options.attention = false;
    const std::string body = body_of({.queries = 128, .keys = 128, .has_gradient = false});
    const Product product = {"attention", body.c_str(), ""};
    const std::uint64_t kernels = Bound(off, product).workspace_byte_count();
    const std::uint64_t library = Bound(conditions(), product).workspace_byte_count();
    return kernels >= 6 * 128 * 128 * 6 && library == 0 ? "" : std::to_string(library);
  });
}

const std::string kNotBy = "attention not by cuDNN: ";
const std::string kUnsupported = kNotBy + "it does not support the attention";

const std::string kUsual = ": the loops are not those of matrices";  // without the option

TEST(AttentionTest, KernelsComputeAttentionWithoutTheLibrary) {
  const std::map<std::string, std::map<std::string, std::string>> cases = {
      {"nonexistent.so", {{"YOKE_CUDNN_LIBRARY", "/nonexistent.so"}}},
      {"is too old: libm.so.6 has no", {{"YOKE_CUDNN_LIBRARY", "libm.so.6"}}},
      {"its version is 9.18, and yoke needs 9.19", {{"FAKE_GPU_DNN", "91800"}}},
      {"Create failed with status 1; set the option vendor_attention=off",
       {{"FAKE_GPU_FAIL", "dnn_create:1:1"}}}};
  for (const auto& [sign, variables] : cases) {
    expect_ok([&, s = sign, v = variables]() -> std::string {
      const std::string fault = fault_of_kernels(conditions(v), {}, "not by cublasLt" + kUsual);
      const bool is_logged =
          the_log.find("attentions.skip") != std::string::npos && the_log.find(s) != std::string::npos;
      return fault + (is_logged ? "" : "the log lacks '" + s + "': " + the_log);
    });
  }
}

TEST(AttentionTest, OptionsTurnTheLibraryOff) {
  for (const bool vendor : {true, false}) {
    expect_ok([&]() -> std::string {
      Conditions off = conditions();
      off.options.attention = !vendor;
      off.options.vendor = vendor;
      const std::string body = body_of({});
      const Product product = {"off", body.c_str(), ""};
      const std::string fault = fault_of(off, product, Bound(off, product).reason());
      return fault + (the_log.find("attentions.") == std::string::npos ? "" : the_log);
    });
  }
}

TEST(AttentionTest, MiopenComputesNone) {
  expect_ok([]() -> std::string {
    const std::string remark =
        "not by hipBLASLt" + kUsual + "; attention not by MIOpen: it does not support the attention";
    return fault_of_kernels(conditions({}, true), {}, remark);
  });
}

TEST(AttentionTest, KernelsComputeWhatDevicesAndHeadsDoNotAllow) {
  struct Case {
    const char* capability;
    Shape shape;
    bool is_supported;
  };
  const Case cases[] = {{"75", {.has_gradient = false}, false},
                        {"80", {}, true},
                        {"89", {}, true},
                        {"100", {}, false},
                        {"120", {.has_gradient = false}, true},
                        {"90", {.size = 12}, false},
                        {"90", {.size = 136}, false},
                        {"90", {.value_size = 136}, false},
                        {"90", {.queries = 1, .keys = 24}, false}};
  for (const Case& one : cases) {
    expect_ok([&]() -> std::string {
      const Conditions setup = conditions({{"FAKE_GPU_CAPABILITY", one.capability}});
      if (one.is_supported) {
        return fault_of(setup, one.shape, remark_of(one.shape));
      }
      const std::string body = body_of(one.shape);
      const std::string reason = Bound(setup, Product{"refused", body.c_str(), ""}).reason();
      const bool is_taken = reason.find("by cuDNN: causal") != std::string::npos;
      return is_taken ? reason : fault_of_kernels(setup, one.shape, reason);
    });
  }
}

TEST(AttentionTest, KernelsReplacePlansThatFail) {
  const char* const cases[] = {
      "dnn_descriptor_create:1+:2000", "dnn_descriptor_create:7+:1",      "dnn_descriptor_set:3:3000",
      "dnn_descriptor_set:3+:2",       "dnn_descriptor_get:1+:3000",      "dnn_descriptor_get:2+:5000",
      "dnn_descriptor_finalize:20+:4", "dnn_descriptor_finalize:1+:3000", "dnn_descriptor_destroy:1+:4"};
  for (const std::string call : cases) {
    expect_ok([&]() -> std::string {
      const bool is_taken = call.starts_with("dnn_descriptor_destroy");
      const std::string remark = "not by cublasLt" + kUsual + "; " + kUnsupported;
      const Conditions setup = conditions({{"FAKE_GPU_FAIL", call}});
      const std::string fault =
          is_taken ? fault_of(setup, Shape{}, remark_of({})) : fault_of_kernels(setup, {}, remark);
      return fault + (the_log.find("attentions.plan") != std::string::npos ? "" : "the log lacks the reason");
    });
  }
}

// The graph of the forward pass has 48 descriptors that become final; the heuristic and the plans follow.
TEST(AttentionTest, AnotherEngineReplacesOneThatFails) {
  const Shape forward = {.has_gradient = false};
  for (const char* const call : {"49:4", "50:4", "51:5000"}) {
    expect_ok([&]() -> std::string {
      const Conditions setup =
          conditions({{"FAKE_GPU_FAIL", std::string("dnn_descriptor_finalize:") + call}});
      const std::string fault = fault_of(setup, forward, remark_of(forward));
      return fault.empty() ? "" : call + (": " + fault);
    });
  }
}

// Each layer asks for the same plan.
TEST(AttentionTest, FailedSearchesAreNotRepeated) {
  expect_ok([]() -> std::string {
    const std::string body = body_of({.has_gradient = false});
    const std::string text = text_of(Product{"fails", body.c_str(), ""});
    const auto context =
        machine_of(conditions({{"FAKE_GPU_FAIL", "dnn_descriptor_finalize:49+:4"}}))->context(0);
    for (int layer = 0; layer < 2; ++layer) {
      const std::string reason = verdicts(*context, text, {conditions().options}).at(0).reason;
      if (reason.find(kUnsupported) == std::string::npos) {
        return reason;
      }
    }
    const std::size_t first = the_log.find("attentions.plan");
    const bool is_once = first != std::string::npos && first == the_log.rfind("attentions.plan");
    return is_once && the_log.find("failed with status 4") != std::string::npos ? "" : the_log;
  });
}

// Only planned, because it has millions of scores.
TEST(AttentionTest, LargeWorkspacesAreLeftToKernels) {
  expect_ok([]() -> std::string {
    const Shape large = {.batch = 8, .heads = 8, .queries = 1024, .keys = 1024};
    const std::string body = body_of(large);
    const auto context = machine_of(conditions())->context(0);
    const std::string reason =
        verdicts(*context, text_of(Product{"large", body.c_str(), ""}), {conditions().options}).at(0).reason;
    return reason.find(kUnsupported) != std::string::npos ? "" : reason;
  });
}

TEST(AttentionTest, AttentionThatFailsIsAnErrorThatNamesTheCall) {
  expect_ok([]() -> std::string {
    const std::string body = body_of({});
    Bound bound(conditions({{"FAKE_GPU_FAIL", "dnn_graph_execute:1:5000"}}),
                Product{"fails", body.c_str(), ""});
    try {
      bound.run();
    } catch (const sdk::Failure& failure) {
      const char* const sign =
          "cudnnBackendExecute failed with status 5000; set the option vendor_attention=off";
      const bool is_named = failure.text().find(sign) != std::string::npos;
      return failure.code() == YOKE_STATUS_UNAVAILABLE && is_named ? "" : failure.text();
    }
    return "the launch succeeds";
  });
}

TEST(AttentionTest, FingerprintNamesTheEngineAndItsKnobs) {
  const auto fingerprint = [](const Shape& shape, const Conditions& setup) {
    const std::string body = body_of(shape);
    return Bound(setup, Product{"attention", body.c_str(), ""}).fingerprint();
  };
  expect_ok([&]() -> std::string {
    const std::string usual = fingerprint({}, conditions());
    const bool is_logged = the_log.find(" engine 2 32=12\"") != std::string::npos;
    Conditions off = conditions();
    off.options.attention = false;
    const bool is_new =
        fingerprint({}, off) != usual && fingerprint({.is_causal = false}, conditions()) != usual;
    return fingerprint({}, conditions()) == usual && is_new && is_logged
               ? ""
               : "a fingerprint is wrong: " + the_log;
  });
}

}  // namespace
}  // namespace yoke::gpu
