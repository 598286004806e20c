// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_call_impl.h: the contents of a DnnlCall, for the sources that create one.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dnnl_call.h"

namespace yoke::cc {

struct DnnlCall::Impl {
  enum Place : std::uint8_t { kA, kB, kBias, kT, kScratch };
  struct Memory {
    dnnl::memory::desc desc;
    Place place = kScratch;
    std::uint64_t offset = 0;  // into the scratchpad; kScratch only
  };
  using Arguments = std::vector<std::pair<int, std::size_t>>;  // the role and the memory of each argument
  struct Stage {
    dnnl::primitive primitive;  // empty in a plan
    Arguments arguments;
  };

  // The operand that the caller copies to another layout.
  struct Copied {
    Shared operand = Shared::kNone;
    dnnl::memory::desc from;
    dnnl::memory::desc to;
    friend bool operator==(const Copied&, const Copied&) = default;
  };

  dnnl::engine engine;
  bool plan_only;
  std::vector<Memory> memories;
  std::vector<Stage> stages;
  std::uint64_t scratch_byte_count = 0;
  std::optional<Copied> copied;

  explicit Impl(const LibraryOptions& options)
      : engine(*static_cast<dnnl::engine*>(options.engine.handle.get())), plan_only(options.plan_only) {}
  std::size_t add(const dnnl::memory::desc& desc, Place place);
  // Adds memory in the scratchpad that nothing else uses.
  std::size_t add_scratch(const dnnl::memory::desc& desc);
  void add_stage(const dnnl::primitive_desc_base& desc, Arguments arguments);
};

bool is_reference(const std::string& implementation);
// oneDNN's bf16 or f16 for these types, f32 for any other type.
dnnl::memory::data_type data_type(program::Type type);
// The new value is added to the old one if the assignment is +=. The caller provides the scratchpad.
dnnl::primitive_attr attributes_of(program::Assign assign);

}  // namespace yoke::cc
