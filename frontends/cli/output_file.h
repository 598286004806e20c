// SPDX-License-Identifier: Apache-2.0
// frontends/cli/output_file.h: a stream to a file that appears, whole, at the end.
#pragma once

#include <yoke/runtime/error.h>

#include <array>
#include <filesystem>
#include <optional>
#include <ostream>
#include <streambuf>

#include "data/files.h"

namespace yoke::cli {

// Writes beside the target, which commit() replaces; without commit(), the target stays as it was. Not thread-safe.
class OutputFile {
 public:
  // Throws Error: the target cannot be created, or is a folder, a pipe or a device.
  explicit OutputFile(const std::filesystem::path& target) : buffer_(target), stream_(&buffer_) {}
  std::ostream& stream() { return stream_; }
  // Throws the Error of the first write that failed.
  void commit() {
    stream_.flush();
    buffer_.commit();
  }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(const std::filesystem::path& target) : file_(target) {
      setp(bytes_.data(), bytes_.data() + bytes_.size());
    }
    void commit();

   protected:
    int_type overflow(int_type character) override;
    int sync() override;

   private:
    detail::NewFile file_;
    std::array<char, 1U << 16U> bytes_;
    std::optional<Error> error_;
  };

  Buffer buffer_;
  std::ostream stream_;
};

}  // namespace yoke::cli
