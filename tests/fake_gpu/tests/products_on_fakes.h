// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/products_on_fakes.h: products on devices of the fakes, compared with the reference executor.
#pragma once

#include <cuda/vendor.h>
#include <gpu/buffer.h>
#include <gpu/routine.h>
#include <gtest/gtest.h>
#include <hip/vendor.h>
#include <yoke/plugin.h>
#include <yoke/program/text.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evaluate.h"
#include "own_process.h"

namespace yoke::gpu {

struct Product {
  const char* name;
  const char* body;
  const char* by;  // what can_compile says about the first statement, after the name of the library
};

struct Conditions {
  bool is_hip = false;
  LibraryOptions options;
  std::map<std::string, std::string> variables;
  bool wgmma = false;
  bool fused_attention = false;

  PlanOptions plan() const { return {options, false, wgmma, fused_attention}; }
};

inline std::string the_log;

inline std::shared_ptr<Machine> machine_of(const Conditions& setup) {
  const std::string cuda = FAKE_GPU_FOLDER "/cuda/libcuda.so.1";
  const std::string hip = FAKE_GPU_FOLDER "/hip/libamdhip64.so.5";
  std::map<std::string, std::string> variables = {
      {"YOKE_CUDA_LIBRARY", cuda},
      {"YOKE_HIP_LIBRARY", hip},
      {"YOKE_CUBLASLT_LIBRARY", cuda},
      {"YOKE_HIPBLASLT_LIBRARY", hip},
      {"YOKE_CUDNN_LIBRARY", cuda},
      {"YOKE_MIOPEN_LIBRARY", hip},
      {"YOKE_HIPRTC_LIBRARY", hip},
      {"FAKE_GPU_DEVICES", "1"},
      {"YOKE_NVRTC_LIBRARY", FAKE_GPU_FOLDER "/cuda/libnvrtc.so.13"}};
  for (const auto& [name, value] : setup.variables) {
    variables[name] = value;
  }
  for (const auto& [name, value] : variables) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  static yoke_host_api api = {};
  api.struct_size = sizeof api;
  api.log = [](void*, int32_t, const char* line, uint64_t size) { the_log.append(line, size).append("\n"); };
  if (setup.is_hip) {
    return std::make_shared<Machine>(std::make_unique<hip::Vendor>(), sdk::Host(&api));
  }
  return std::make_shared<Machine>(std::make_unique<cuda::Vendor>(), sdk::Host(&api));
}

inline std::string text_of(const Product& product) {
  std::string body = product.body;
  return "yoke.program 1\nprogram p() {\n" + body + "}\n";
}

inline conformance::Case case_of(const Product& product) {
  conformance::Case one;
  one.seed = 5;
  one.program = program::parse_and_verify(text_of(product)).programs.at(0);
  one.data.assign(one.program.tensors.size(), {conformance::DataKind::kUniform, 1, -1});
  one.launches.emplace_back();
  return one;
}

// A program on a device, with a buffer for each argument.
class Bound {
 public:
  Bound(const Conditions& setup, const Product& product)
      : case_(case_of(product)),
        context_(machine_of(setup)->context(0)),
        code_(context_, text_of(product),
              {std::make_shared<CodeCache>(sdk::Host(), "", 0), true, setup.plan()}),
        reason_(verdicts(*context_, text_of(product), setup.plan()).at(0).reason) {
    std::vector<sdk::Binding> bindings;
    for (const sdk::Argument& argument : code_.entries()[0].arguments) {
      alignments_.push_back(argument.alignment);
      buffers_.push_back(std::make_unique<Buffer>(context_, argument.byte_count));
      bindings.push_back({buffers_.back().get(), 0});
    }
    workspace_ = std::make_unique<Buffer>(context_, code_.entries()[0].workspace_byte_count);
    routine_ = code_.link(0, bindings, {workspace_.get(), 0});
  }

  conformance::Contents run() {
    conformance::Contents contents = conformance::initial_arguments(case_);
    for (std::size_t i = 0; i < contents.size(); ++i) {
      buffers_[i]->from_host(nullptr, 0, contents[i].data(), contents[i].size());
    }
    routine_->launch(nullptr, {});
    for (std::size_t i = 0; i < contents.size(); ++i) {
      buffers_[i]->to_host(nullptr, 0, contents[i].data(), contents[i].size());
    }
    return contents;
  }
  const conformance::Case& one() const { return case_; }
  const std::string& reason() const { return reason_; }
  std::uint64_t workspace_byte_count() const { return code_.entries()[0].workspace_byte_count; }
  std::string fingerprint() const { return code_.entries()[0].fingerprint; }
  const std::vector<std::uint32_t>& alignments() const { return alignments_; }

 private:
  conformance::Case case_;
  std::shared_ptr<Context> context_;
  Code code_;
  std::string reason_;
  std::vector<std::uint32_t> alignments_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Buffer> workspace_;
  std::unique_ptr<sdk::Routine> routine_;
};

// The third launch of a routine with several kernels launches a graph.
inline std::string fault_of(const Conditions& setup, const Product& product, const std::string& reason) {
  Bound bound(setup, product);
  if (bound.reason() != reason) {
    return std::string(product.name) + ": '" + bound.reason() + "' instead of '" + reason + "'\n" + the_log;
  }
  const conformance::AllowedResults allowed(bound.one(), {});
  const conformance::Contents first = bound.run();
  std::string fault = allowed.compare(first);
  for (int launch = 0; launch < 2 && fault.empty(); ++launch) {
    fault = bound.run() == first ? "" : "a launch gives different results than the first";
  }
  return fault.empty() ? "" : std::string(product.name) + ": " + fault;
}

}  // namespace yoke::gpu
