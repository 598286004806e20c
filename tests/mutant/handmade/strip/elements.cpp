// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/elements.cpp: loads and stores of strips.
#include <yoke/program/execute.h>

#include <algorithm>

#include "../bugs.h"
#include "values.h"

namespace yoke::strip {

using handmade::bug;

namespace {

template <class T, class Value>
void load_as(std::size_t count, const void* first, std::int64_t step, Value* out) {
  const T* const at = static_cast<const T*>(first);
  for (std::size_t k = 0; k < count; ++k) {
    out[k] = static_cast<Value>(at[static_cast<std::int64_t>(k) * step]);
  }
}

template <class T, class Value>
void store_as(std::size_t count, const Value* value, void* first, std::int64_t step) {
  T* const at = static_cast<T*>(first);
  constexpr std::size_t kVector = 16 / sizeof(T);
  std::size_t stored = 0;
  if (bug("aligned_store") && step == 1 && count >= kVector) {  // with it only: a row may start anywhere
    auto* const aligned = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(at) & ~std::uintptr_t{15});
    for (; stored < count / kVector * kVector; ++stored) {
      aligned[stored] = static_cast<T>(value[stored]);
    }
  }
  for (std::size_t k = stored; k < count; ++k) {
    at[static_cast<std::int64_t>(k) * step] = static_cast<T>(value[k]);
  }
}

}  // namespace

void load(Type type, std::size_t count, const void* first, std::int64_t step, Strip& out) {
  switch (type) {
    case Type::kF64:
      return load_as<double>(count, first, step, out.real.data());
    case Type::kF32:
      return load_as<float>(count, first, step, out.real.data());
    case Type::kF16:
    case Type::kBF16:
      load_as<std::uint16_t>(count, first, step, out.whole.data());
      for (std::size_t k = 0; k < count; ++k) {
        const auto bits = static_cast<std::uint16_t>(out.whole[k]);
        out.real[k] =
            static_cast<double>(type == Type::kF16 ? program::f16_to_f32(bits) : program::bf16_to_f32(bits));
      }
      return;
    case Type::kI64:
      return load_as<std::int64_t>(count, first, step, out.whole.data());
    case Type::kI32:
      return load_as<std::int32_t>(count, first, step, out.whole.data());
    case Type::kU32:
      return load_as<std::uint32_t>(count, first, step, out.whole.data());
    case Type::kU8:
      return load_as<std::uint8_t>(count, first, step, out.whole.data());
    case Type::kBool:
      load_as<std::uint8_t>(count, first, step, out.whole.data());
      std::transform(out.whole.begin(), out.whole.begin() + count, out.whole.begin(),
                     [](std::int64_t value) { return value != 0 ? 1 : 0; });
      return;
  }
}

void store(Type type, std::size_t count, const Strip& value, void* first, std::int64_t step) {
  switch (type) {
    case Type::kF64:
      return store_as<double>(count, value.real.data(), first, step);
    case Type::kF32:
      return store_as<float>(count, value.real.data(), first, step);
    case Type::kF16:
    case Type::kBF16: {
      std::array<std::int64_t, kStrip> bits{};
      for (std::size_t k = 0; k < count; ++k) {
        const auto narrow = static_cast<float>(value.real[k]);
        bits[k] = type == Type::kF16 ? program::f32_to_f16(narrow) : program::f32_to_bf16(narrow);
      }
      return store_as<std::uint16_t>(count, bits.data(), first, step);
    }
    case Type::kI64:
      return store_as<std::int64_t>(count, value.whole.data(), first, step);
    case Type::kI32:
      return store_as<std::int32_t>(count, value.whole.data(), first, step);
    case Type::kU32:
      return store_as<std::uint32_t>(count, value.whole.data(), first, step);
    case Type::kU8:
    case Type::kBool:
      return store_as<std::uint8_t>(count, value.whole.data(), first, step);
  }
}

}  // namespace yoke::strip
