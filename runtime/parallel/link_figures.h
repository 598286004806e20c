// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/link_figures.h: how fast devices launch and copy to each other, measured once per Runtime.
#pragma once

#include <yoke/runtime/cost_model.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace yoke::detail {

struct LinkFigures {
  double launch = 1e-5;  // the fixed figures
  double memory = 5e11;
  LinkCost link = {2e-5, 5e9};
  bool is_measured = false;
};

// Thread-safe.
class LinkCache {
 public:
  // The figures of `to` and of copies to it, rounded to powers of two. Measures them the first time. If that fails,
  // logs why, and always returns fixed figures.
  LinkFigures get(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, LinkFigures> figures_;  // by the devices' identities
};

}  // namespace yoke::detail
