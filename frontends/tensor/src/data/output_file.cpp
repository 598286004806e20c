// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/output_file.cpp: buffers the output, and keeps the first failure.
#include <yoke/output_file.h>

#include <array>
#include <exception>
#include <span>
#include <streambuf>

#include "data/files.h"

namespace yoke {

class OutputFile::Buffer final : public std::streambuf {
 public:
  explicit Buffer(const std::filesystem::path& target) : file_(target) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }

  void commit() {
    if (error_) {
      std::rethrow_exception(error_);
    }
    // Created before commit(), because it may throw bad_alloc.
    const std::exception_ptr again = std::make_exception_ptr(
        Error(ErrorCode::kFailedPrecondition, "output file: it is already committed; create a new one"));
    file_.commit();
    error_ = again;
  }

 protected:
  int sync() override {
    if (error_) {
      return -1;
    }
    try {
      file_.write(std::as_bytes(std::span(pbase(), pptr())));
    } catch (...) {  // an Error, or bad_alloc for its text; the stream would drop either
      error_ = std::current_exception();
      return -1;
    }
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return 0;
  }

  int_type overflow(int_type character) override {
    if (sync() != 0) {
      return traits_type::eof();
    }
    return traits_type::eq_int_type(character, traits_type::eof())
               ? traits_type::not_eof(character)
               : sputc(traits_type::to_char_type(character));
  }

 private:
  detail::NewFile file_;
  std::array<char, 1U << 16U> bytes_;
  std::exception_ptr error_;
};

OutputFile::OutputFile(const std::filesystem::path& target)
    : buffer_(std::make_unique<Buffer>(target)), stream_(buffer_.get()) {}
OutputFile::~OutputFile() = default;

void OutputFile::commit() {
  stream_.flush();
  buffer_->commit();
}

}  // namespace yoke
