// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/replay.cpp: a trace file, read whole, and drawn.
#include <yoke/runtime/error.h>
#include <yoke/runtime/trace.h>

#include <algorithm>
#include <ostream>
#include <streambuf>
#include <string>

#include "guarded.h"
#include "harness.h"

namespace yoke::fuzz {
namespace {

// Counts what is printed, and keeps nothing.
class Counter : public std::streambuf {
 public:
  std::size_t count() const { return count_; }

 protected:
  int_type overflow(int_type byte) override {
    ++count_;
    return traits_type::not_eof(byte);
  }
  std::streamsize xsputn(const char*, std::streamsize count) override {
    count_ += static_cast<std::size_t>(count);
    return count;
  }

 private:
  std::size_t count_ = 0;
};

void check_inside(std::span<const std::byte> file, const void* start, std::size_t byte_count) {
  const auto* from = static_cast<const std::byte*>(start);
  require(byte_count == 0 || (from >= file.data() && from + byte_count <= file.data() + file.size()),
          "a view that lies outside of the file");
}

void read_all(std::span<const std::byte> file) {
  TraceReader reader(file);
  for (int pass = 0; pass < 2; ++pass) {
    TraceRecord record;
    std::uint64_t calls = 0;
    std::size_t records = 0;
    while (reader.next(record)) {
      require(++records <= file.size(), "more records than bytes: the reader would never end");
      check_inside(file, record.text.data(), record.text.size());
      if (record.type == TraceRecord::Type::kCall) {
        require(record.function != nullptr, "a call of no function");
        require(record.number == calls++, "calls that are not numbered in order");
        require(record.values.size() == record.function->arguments.size(),
                "values that are not the function's arguments");
        for (const TraceValue& value : record.values) {
          check_inside(file, value.bytes.data(), value.bytes.size());
          check_inside(file, value.text.data(), value.text.size());
          require(value.list.size() <= file.size() && value.options.size() <= file.size(),
                  "memory by a claimed count");
          std::span<const std::byte> blob;
          if (value.memory == 1 && reader.blob(value.hash, blob)) {
            check_inside(file, blob.data(), blob.size());
          }
        }
      }
    }
    require(!reader.next(record), "a record behind the end");
    const auto unfinished = reader.unfinished();
    require(unfinished.size() <= file.size(), "more calls without an end than bytes");
    for (const TraceUnfinished& one : unfinished) {
      if (one.function == nullptr) {
        check_inside(file, one.text.data(), one.text.size());
      }
    }
    reader.rewind();
  }
}

}  // namespace

void replay(std::span<const std::uint8_t> input) {
  const Guarded memory(input.size());
  std::copy(input.begin(), input.end(), memory.data());
  const auto file = std::as_bytes(std::span(memory.data(), input.size()));
  try {
    read_all(file);
    Counter printed;
    std::ostream out(&printed);
    print_trace(file, out);
    write_chrome_trace(file, out);
    require(printed.count() <= 4096 + 4096 * input.size(), "far more text than there are bytes");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnimplemented,
            std::string("refused with another code: ") + error.what());
  }
}

}  // namespace yoke::fuzz
