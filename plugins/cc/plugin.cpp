// SPDX-License-Identifier: Apache-2.0
// plugins/cc/plugin.cpp: exports the entry symbol.
#include <yoke/sdk/entry.h>

#include "backend.h"

YOKE_SDK_PLUGIN(yoke::cc::Backend, "cc", "0.1.0", "yoke")
