// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/header_functions.h: compares functions of driver.def with those of a vendor's header.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

namespace yoke::gpu {

// The size of what a pointer points to; 0 if the type is void or not known.
template <class T>
constexpr std::size_t pointee_size() {
  using Pointee = std::remove_pointer_t<T>;
  if constexpr (std::is_object_v<Pointee> && requires { sizeof(Pointee); }) {
    return sizeof(Pointee);
  } else {
    return 0;
  }
}

// `may_widen`: ours may have 8 bytes where the header's have 4.
constexpr bool are_alike_sizes(std::size_t ours, std::size_t theirs, bool may_widen) {
  return ours == theirs || (may_widen && ours == 8 && theirs == 4);
}

// Whether a parameter of type P may be passed where the header has type Q: it is passed in the same register, and
// points to values of the same size.
template <class P, class Q>
constexpr bool is_alike(bool may_widen) {
  if (!are_alike_sizes(sizeof(P), sizeof(Q), may_widen) || std::is_pointer_v<Q> < std::is_pointer_v<P> ||
      std::is_floating_point_v<P> != std::is_floating_point_v<Q> ||
      std::is_class_v<P> != std::is_class_v<Q>) {
    return false;
  }
  if constexpr (std::is_pointer_v<P>) {
    const std::size_t ours = pointee_size<P>();
    const std::size_t theirs = pointee_size<Q>();
    return ours == 0 || theirs == 0 || are_alike_sizes(ours, theirs, may_widen);
  }
  return true;
}

// Whether the functions have the same number of parameters, all of them alike.
template <class... P, class Result, class... Q>
constexpr bool are_alike(int (*)(P...), Result (*)(Q...), bool may_widen = false) {
  if constexpr (sizeof...(P) == sizeof...(Q)) {
    return (is_alike<P, Q>(may_widen) && ...);
  }
  return false;
}

// A row of driver.def: YOKE_ROW(member, ...) with the name that the plugin looks up.
struct Row {
  const char* member;
  const char* name;
};

// A function of a header and the row that it is for.
struct HeaderFunction {
  const char* member;
  const char* name;
  bool is_alike;
};
// Takes the function's type only: the test does not link the library. The name is the one written here, even if it
// is a macro, so headers that rename functions need a setting with which they do not.
#define YOKE_ALIKE(group, member, function) YOKE_ALIKE_IF(group, member, function, #function, false)
#define YOKE_ALIKE_WIDENED(group, member, function) YOKE_ALIKE_IF(group, member, function, #function, true)
#define YOKE_ALIKE_IF(group, member, function, name, may_widen)                                    \
  HeaderFunction {                                                                                 \
#member, name,                                                                                 \
        are_alike(group().member.address, static_cast <decltype(&(function))>(nullptr), may_widen) \
  }

// Expects a function of the header for each row, in the same order.
inline void expect_all_alike(const std::vector<Row>& rows, const std::vector<HeaderFunction>& functions) {
  for (std::size_t i = 0; i < rows.size() && i < functions.size(); ++i) {
    EXPECT_STREQ(functions[i].member, rows[i].member);
    EXPECT_STREQ(functions[i].name, rows[i].name);
    EXPECT_TRUE(functions[i].is_alike) << rows[i].name;
  }
  EXPECT_EQ(functions.size(), rows.size()) << "each row of driver.def needs the function of the header";
}

}  // namespace yoke::gpu
