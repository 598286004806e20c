// SPDX-License-Identifier: Apache-2.0
// runtime/loader/plugin_file.cpp: the loader's checks of one plugin file, for tools that have no Runtime.
#include <yoke/runtime/runtime.h>

#include "loader/file_check.h"
#include "loader/library.h"

namespace yoke {

yoke_plugin_entry_fn open_plugin_file(const std::filesystem::path& file) {
  const auto check = [](const loader::Refusal& refusal) {
    if (refusal) {
      throw Error(ErrorCode::kFailedPrecondition, refusal.reason + "; " + refusal.fix);
    }
  };
  const loader::File resolved = loader::resolve(file);
  const loader::Admission admission = loader::admit(resolved, {});
  check(admission.refusal);
  const loader::Library library = loader::open_library(resolved.path, admission);
  check(library.refusal);
  return library.entry;
}

}  // namespace yoke
