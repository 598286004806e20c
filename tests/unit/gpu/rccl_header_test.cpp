// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/rccl_header_test.cpp: the plugin's numbers and functions of RCCL, compared with AMD's header.
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <rccl/rccl.h>
#define YOKE_COMM_TEST RcclHeaderTest
#include "comm_header_tests.h"
