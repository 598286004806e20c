// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/own_process.h: tests that run in a process of their own, because a fake driver has one state for
// each process.
#pragma once

#include <gtest/gtest.h>
#include <yoke/plugin.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace yoke::gpu {

// Runs body() in its own process; it returns what is wrong.
template <class Body>
void expect_ok(const Body& body) {
  const auto run = [&] {
    std::string fault;
    try {
      fault = body();
    } catch (const sdk::Failure& failure) {
      fault = failure.text();
    }
    std::fputs(fault.c_str(), stderr);
    std::exit(fault.empty() ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace yoke::gpu
