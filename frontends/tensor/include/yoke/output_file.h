// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/output_file.h: a file that replaces its target only when it is complete.
#pragma once

#include <filesystem>
#include <memory>
#include <ostream>

namespace yoke {

// Writes a temporary file next to the target. commit() replaces the target with it; without commit(), the target stays
// unchanged. Not thread-safe.
class OutputFile {
 public:
  // Throws Error: the target cannot be created, or is a folder, a pipe or a device.
  explicit OutputFile(const std::filesystem::path& target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream() { return stream_; }
  // Throws the Error of the first failed write, or kFailedPrecondition if the file is already committed. Data written
  // after commit() is dropped.
  void commit();

 private:
  class Buffer;

  std::unique_ptr<Buffer> buffer_;
  std::ostream stream_;
};

}  // namespace yoke
