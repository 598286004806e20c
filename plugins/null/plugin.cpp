// SPDX-License-Identifier: Apache-2.0
// plugins/null/plugin.cpp: exports the entry symbol.
#include <yoke/sdk/entry.h>

#include "null.h"

YOKE_SDK_PLUGIN(yoke::null::Backend, "null", "0.1.0", "yoke")
