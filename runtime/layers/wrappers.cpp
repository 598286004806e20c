// SPDX-License-Identifier: Apache-2.0
// runtime/layers/wrappers.cpp: one function per function of the ABI, generated: arguments become words, and
// words arguments again on the other side.
#include <type_traits>
#include <utility>

#include "layers/layer.h"

namespace yoke::layers {
namespace {

template <class T>
std::uint64_t to_word(T value) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else {
    return value;
  }
}

template <class T>
T from_word(std::uint64_t word) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(word);  // NOLINT(performance-no-int-to-ptr): to_word made it
  } else {
    return static_cast<T>(word);
  }
}

template <Function kFunction, class Pointer>
struct Wrapper;

template <Function kFunction, class Result, class... Types>
struct Wrapper<kFunction, Result (*)(Types...)> {
  using Pointer = Result (*)(Types...);

  static Result call(Types... arguments) noexcept {
    const std::uint64_t words[] = {to_word(arguments)...};
    if constexpr (std::is_void_v<Result>) {
      Layer::run(kFunction, words, &issue);
    } else {
      return Layer::run(kFunction, words, &issue);
    }
  }

  static std::int32_t issue(Slot slot, const std::uint64_t* words) {
    return spread(reinterpret_cast<Pointer>(slot), words, std::index_sequence_for<Types...>());
  }

  template <std::size_t... kAt>
  static std::int32_t spread(Pointer function, const std::uint64_t* words, std::index_sequence<kAt...>) {
    if constexpr (std::is_void_v<Result>) {
      function(from_word<Types>(words[kAt])...);
      return YOKE_OK;
    } else {
      return function(from_word<Types>(words[kAt])...);
    }
  }
};

}  // namespace

std::array<Slot, kFunctionCount> wrappers() noexcept {
  return {
#define YOKE_LAYERS_WRAPPER(table, member, need) \
  reinterpret_cast<Slot>(&Wrapper<Function::member, decltype(table::member)>::call),
      YOKE_LAYERS_FUNCTIONS(YOKE_LAYERS_WRAPPER)
#undef YOKE_LAYERS_WRAPPER
  };
}

std::array<Issue, kFunctionCount> issuers() noexcept {
  return {
#define YOKE_LAYERS_ISSUER(table, member, need) \
  static_cast<Issue>(&Wrapper<Function::member, decltype(table::member)>::issue),
      YOKE_LAYERS_FUNCTIONS(YOKE_LAYERS_ISSUER)
#undef YOKE_LAYERS_ISSUER
  };
}

}  // namespace yoke::layers
