/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/abi/layout.c: the layout of the ABI, as C11 sees it. */
#include "layout.h"
