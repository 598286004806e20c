// SPDX-License-Identifier: Apache-2.0
// plugins/hip/plugin.cpp: exports the entry symbol.
#include <yoke/sdk/entry.h>

#include "backend.h"
#include "vendor.h"

YOKE_SDK_PLUGIN(yoke::gpu::BackendOf<yoke::hip::Vendor>, "hip", "0.1.0", "yoke")
