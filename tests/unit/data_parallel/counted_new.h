// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/counted_new.h: how many times operator new ran while `counting` was on.
#pragma once

#include <atomic>
#include <cstdint>

extern std::atomic<bool> counting;
extern std::atomic<std::uint64_t> ours;
extern std::atomic<std::uint64_t> in_libraries;  // called straight from another vendor's library
