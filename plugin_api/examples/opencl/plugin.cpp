// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: exports the entry.
#include <yoke/sdk/entry.h>

#include "backend.h"

YOKE_SDK_PLUGIN(ocl::Backend, "opencl", "1.0.0", "a third party")
