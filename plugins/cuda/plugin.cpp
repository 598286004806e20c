// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/plugin.cpp: exports the entry symbol.
#include <yoke/sdk/entry.h>

#include "backend.h"
#include "vendor.h"

YOKE_SDK_PLUGIN(yoke::gpu::BackendOf<yoke::cuda::Vendor>, "cuda", "0.1.0", "yoke")
