// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/nccl_header_test.cpp: the plugin's numbers and functions of NCCL, compared with NVIDIA's header.
#include <nccl.h>
#define YOKE_COMM_TEST NcclHeaderTest
#include "comm_header_tests.h"
