// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_page.h: the results of a training run as a page of HTML, which needs no other file.
#pragma once

#include <string>

#include "train_report.h"

namespace yoke::cli {

// Curves of losses, metrics, learning rate and throughput, and a table of `json`, the output of --json. All text is
// escaped.
std::string train_page(const TrainData& data, const TrainReport& report, const std::string& json);

}  // namespace yoke::cli
