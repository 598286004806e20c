// SPDX-License-Identifier: Apache-2.0
// runtime/device/code.cpp: compiled code by the names of its programs. passes/compile.cpp makes it.
#include <yoke/runtime/device.h>

#include <utility>

#include "device/call.h"

namespace yoke {

Code::Code(std::shared_ptr<Device> device, std::string text)
    : device_(std::move(device)), text_(std::move(text)) {}

Code::~Code() {
  detail::destroy<&yoke_program_api::code_destroy>(device_->backend()->state(), handle_);
}

std::uint32_t Code::entry_number(std::string_view name) const {
  std::string names;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].name == name) {
      return i;
    }
    names.append(names.empty() ? "" : ", ").append(entries_[i].name);
  }
  throw Error(ErrorCode::kNotFound, device_->name() + ": the code has no program '" + std::string(name) +
                                        "'; its programs are " + names);
}

const Code::Entry& Code::entry(std::string_view name) const {
  return entries_[entry_number(name)];
}

}  // namespace yoke
