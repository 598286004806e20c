// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/trace_reader.cpp: reads a trace file twice and prints it.
#include <yoke/runtime/error.h>

#include <algorithm>
#include <ostream>
#include <streambuf>
#include <string>

#include "guarded.h"
#include "harness.h"
#include "replay/trace.h"

namespace yoke::fuzz {
namespace {

// Counts the printed characters.
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
          "a view is outside the file");
}

void check_call(const replay::Reader& reader, const replay::Record& call, std::span<const std::byte> file) {
  require(call.function != nullptr, "a call without a function");
  require(call.values.size() == call.function->arguments.size(),
          "a call has more or fewer values than arguments");
  for (const replay::Value& value : call.values) {
    check_inside(file, value.bytes.data(), value.bytes.size());
    check_inside(file, value.text.data(), value.text.size());
    require(value.list.size() <= file.size() && value.options.size() <= file.size(),
            "memory is allocated for a claimed count");
    std::span<const std::byte> blob;
    if (value.memory == replay::Memory::kHere && reader.blob(value.hash, blob)) {
      check_inside(file, blob.data(), blob.size());
    }
  }
}

void read_all(replay::Reader& reader, std::span<const std::byte> file) {
  replay::Record record;
  std::uint64_t calls = 0;
  std::size_t records = 0;
  while (reader.next(record)) {
    require(++records <= file.size(), "more records than bytes: the reader would never end");
    check_inside(file, record.text.data(), record.text.size());
    if (record.type == replay::Record::Type::kCall) {
      require(record.number == calls++, "calls are not numbered in order");
      check_call(reader, record, file);
    }
  }
  require(!reader.next(record), "a record after the end");
  const auto unfinished = reader.unfinished();
  require(unfinished.size() <= file.size(), "more calls without an end than bytes");
  for (const replay::Unfinished& one : unfinished) {
    if (one.function == nullptr) {
      check_inside(file, one.text.data(), one.text.size());
    }
  }
}

}  // namespace

void trace_reader(std::span<const std::uint8_t> input) {
  const Guarded memory(input.size());
  std::copy(input.begin(), input.end(), memory.data());
  const auto file = std::as_bytes(std::span(memory.data(), input.size()));
  Counter printed;
  std::ostream out(&printed);
  for (const auto write : {replay::print, replay::write_chrome}) {
    try {
      write(file, out);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnimplemented,
              std::string("refused with another code: ") + error.what());
    }
  }
  require(printed.count() <= 4096 + 4096 * input.size(), "the text is far larger than the trace");
  try {
    replay::Reader reader(file);
    read_all(reader, file);
    reader.rewind();
    read_all(reader, file);
  } catch (const Error&) {  // of the same codes
  }
}

}  // namespace yoke::fuzz
