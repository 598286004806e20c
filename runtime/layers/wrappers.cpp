// SPDX-License-Identifier: Apache-2.0
// runtime/layers/wrappers.cpp: the functions that the host calls in place of the plugin's.
#include "layers/call.h"

namespace yoke::layers {
namespace {

template <Function kFunction, class Pointer>
struct Wrapper;

template <Function kFunction, class Result, class... Types>
struct Wrapper<kFunction, Result (*)(Types...)> {
  static Result call(Types... parameters) noexcept {
    const std::uint64_t words[] = {abi::to_word(parameters)...};
    return static_cast<Result>(run_call(kFunction, words));
  }
};

}  // namespace

std::array<Slot, abi::kFunctionCount> wrappers() noexcept {
  return {
#define YOKE_LAYERS_WRAPPER(table, member, need) \
  reinterpret_cast<Slot>(&Wrapper<Function::member, decltype(table::member)>::call),
      YOKE_ABI_FUNCTIONS(YOKE_LAYERS_WRAPPER)
#undef YOKE_LAYERS_WRAPPER
  };
}

}  // namespace yoke::layers
