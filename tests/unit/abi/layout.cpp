// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/layout.cpp: the layout of the ABI, as C++20 sees it.
#include "layout.h"
