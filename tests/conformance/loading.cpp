// SPDX-License-Identifier: Apache-2.0
// tests/conformance/loading.cpp: whether a file can be loaded at all, asked of yoke's own loader, so that its
// author reads here what every user would.
#include "loader/file_check.h"
#include "loader/library.h"
#include "plugin.h"

namespace yoke::conformance {

void check_loadable(const std::filesystem::path& file) {
  const auto refuse = [](const loader::Refusal& refusal) {
    if (refusal) {
      fail(refusal.reason + "; " + refusal.mend);
    }
  };
  const loader::Admission admission = loader::admit(loader::resolve(file), {});
  refuse(admission.refusal);
  current_function().store(kDlopen, std::memory_order_relaxed);
  const loader::Library library = loader::open_library(file, admission);
  current_function().store(kNoFunction, std::memory_order_relaxed);
  refuse(library.refusal);
}

}  // namespace yoke::conformance
