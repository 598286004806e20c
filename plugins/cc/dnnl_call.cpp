// SPDX-License-Identifier: Apache-2.0
// plugins/cc/dnnl_call.cpp: a statement that oneDNN computes.
#include "dnnl_call.h"

#include <array>
#include <stdexcept>

#include "dnnl_call_impl.h"

namespace yoke::cc {

using dnnl::memory;

namespace {

std::uint64_t round_up(std::uint64_t byte_count) {
  return (byte_count + 63) / 64 * 64;
}

}  // namespace

DnnlEngine::DnnlEngine() : handle(std::make_shared<dnnl::engine>(dnnl::engine::kind::cpu, 0)) {}

std::size_t DnnlCall::Impl::add(const memory::desc& desc, Place place) {
  memories.push_back({desc, place, 0});
  return memories.size() - 1;
}

std::size_t DnnlCall::Impl::add_scratch(const memory::desc& desc) {
  memories.push_back({desc, kScratch, scratch_byte_count});
  scratch_byte_count += round_up(desc.get_size());
  return memories.size() - 1;
}

void DnnlCall::Impl::add_stage(const dnnl::primitive_desc_base& desc, Arguments arguments) {
  arguments.emplace_back(DNNL_ARG_SCRATCHPAD, add_scratch(desc.scratchpad_desc()));
  stages.push_back({plan_only ? dnnl::primitive() : dnnl::primitive(desc.get()), std::move(arguments)});
}

bool is_reference(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos;
}

memory::data_type data_type(program::Type type) {
  return type == program::Type::kBF16  ? memory::data_type::bf16
         : type == program::Type::kF16 ? memory::data_type::f16
                                       : memory::data_type::f32;
}

dnnl::primitive_attr attributes_of(program::Assign assign) {
  dnnl::primitive_attr attributes;
  // oneDNN's default scratchpad belongs to the primitive, which routines on several threads share.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (assign == program::Assign::kAdd) {
    dnnl::post_ops ops;
    ops.append_sum(1.0F);
    attributes.set_post_ops(ops);
  }
  return attributes;
}

struct BoundCall::State {
  struct Stage {
    dnnl_primitive_t primitive = nullptr;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  dnnl::stream stream;
  std::vector<memory> memories;
  std::array<std::vector<std::size_t>, 4> at;  // by place: the indices of its memories
  std::vector<Stage> stages;
};

BoundCall::BoundCall(const DnnlCall& call, void* scratch) : state_(std::make_shared<State>()) {
  using Impl = DnnlCall::Impl;
  const Impl& from = *call.impl;
  state_->stream = dnnl::stream(from.engine);
  for (const Impl::Memory& one : from.memories) {
    const bool is_scratch = one.place == Impl::kScratch;
    if (!is_scratch) {
      state_->at[one.place].push_back(state_->memories.size());
    }
    state_->memories.emplace_back(one.desc, from.engine,
                                  is_scratch ? static_cast<char*>(scratch) + one.offset : nullptr);
  }
  for (const Impl::Stage& stage : from.stages) {
    State::Stage bound{stage.primitive.get(), {}};
    for (const auto& [role, number] : stage.arguments) {
      bound.arguments.push_back({role, state_->memories[number].get()});
    }
    state_->stages.push_back(std::move(bound));
  }
}

void BoundCall::execute(const void* a, const void* b, const void* bias, void* t) {
  // oneDNN takes non-const pointers, but only reads through the first three.
  const std::array<void*, 4> addresses = {const_cast<void*>(a), const_cast<void*>(b), const_cast<void*>(bias),
                                          t};
  for (std::size_t place = 0; place < addresses.size(); ++place) {
    for (const std::size_t number : state_->at[place]) {
      state_->memories[number].set_data_handle(addresses[place]);
    }
  }
  for (const State::Stage& stage : state_->stages) {
    if (dnnl_primitive_execute(stage.primitive, state_->stream.get(),
                               static_cast<int>(stage.arguments.size()),
                               stage.arguments.data()) != dnnl_success) {
      throw std::runtime_error("oneDNN failed to execute a primitive");
    }
  }
}

}  // namespace yoke::cc
