// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernel_tables.cpp: finds the kernel tables that this machine can run.
#include "kernels.h"

namespace yoke::cc {

namespace plain {
const KernelTable& table();
}
#if defined(YOKE_CC_X86_LEVELS)
namespace avx2 {
const KernelTable& table();
}
namespace avx512 {
const KernelTable& table();
}
#endif

int usable_kernels(const KernelTable** tables, int capacity) {
  int count = 0;
  const auto add = [&](const KernelTable& table) {
    if (count < capacity) {
      tables[count++] = &table;
    }
  };
  add(plain::table());
#if defined(YOKE_CC_X86_LEVELS)
  // Tests for x86-64-v3 and v4, as far as __builtin_cpu_supports can report their features.
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                  __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                  __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                  __builtin_cpu_supports("avx512vl") != 0;
  if (v3) {
    add(avx2::table());
  }
  if (v4) {
    add(avx512::table());
  }
#endif
  return count;
}

const KernelTable& best_kernels() {
  const KernelTable* tables[3];
  return *tables[usable_kernels(tables, 3) - 1];
}

}  // namespace yoke::cc
