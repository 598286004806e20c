// SPDX-License-Identifier: Apache-2.0
// frontends/cli/output_file.cpp: collects what is written, and remembers the first failure.
#include "output_file.h"

#include <span>

namespace yoke::cli {

int OutputFile::Buffer::sync() {
  if (error_) {
    return -1;
  }
  try {
    file_.write(std::as_bytes(std::span(pbase(), pptr())));
  } catch (const Error& error) {
    error_ = error;
    return -1;
  }
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return 0;
}

OutputFile::Buffer::int_type OutputFile::Buffer::overflow(int_type character) {
  if (sync() != 0) {
    return traits_type::eof();
  }
  return traits_type::eq_int_type(character, traits_type::eof())
             ? traits_type::not_eof(character)
             : sputc(traits_type::to_char_type(character));
}

void OutputFile::Buffer::commit() {
  if (error_) {
    throw *error_;
  }
  file_.commit();
}

}  // namespace yoke::cli
