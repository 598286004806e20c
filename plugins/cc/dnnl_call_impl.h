// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_call_impl.h: the contents of a DnnlCall, for the sources that create one.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contraction.h"
#include "dnnl_call.h"

namespace yoke::cc {

struct DnnlCall::Impl {
  enum Place : std::uint8_t { kA, kB, kBias, kT, kScratch };
  struct Memory {
    dnnl::memory::desc desc;
    Place place = kScratch;
    std::uint64_t offset = 0;  // into the scratchpad; kScratch only
  };
  struct Stage {
    dnnl::primitive primitive;                        // empty in a plan
    std::vector<std::pair<int, std::size_t>> memory;  // the role and the number of each argument
  };

  // Describes an operand that the caller copies to another layout for several calls.
  struct Shared {
    Place place = kA;
    dnnl::memory::desc from;
    dnnl::memory::desc to;
  };

  dnnl::engine engine;
  std::vector<Memory> memories;
  std::vector<Stage> stages;
  std::string description;
  std::uint64_t scratch_byte_count = 0;  // without shared memory
  std::optional<Shared> shared;
  std::int64_t sharers = 1;  // how many calls provide the memory of the copy

  explicit Impl(const DnnlEngine& from) : engine(*static_cast<dnnl::engine*>(from.handle())) {}
  std::size_t add(const dnnl::memory::desc& desc, Place place);
  // Adds memory in the scratchpad that nothing else uses.
  std::size_t add_scratch(const dnnl::memory::desc& desc);
};

bool is_reference(const std::string& implementation);
// oneDNN's bf16 or f16 for these types, f32 for any other type.
dnnl::memory::data_type data_type(program::Type type);
// The new value is added to the old one if the assignment is +=. The caller provides the scratchpad.
dnnl::primitive_attr attributes_of(program::Assign assign);

}  // namespace yoke::cc
