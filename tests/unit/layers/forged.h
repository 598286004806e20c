// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/forged.h: a trace that nobody recorded.
#pragma once

#include <gtest/gtest.h>
#include <yoke/backend.h>

#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "layers/functions.h"
#include "layers/hash.h"
#include "layers/trace_format.h"

namespace yoke::test {

inline constexpr const char* kDouble = R"(yoke.program 1
program twice() {
  arg x : f32[16] in
  arg y : f32[16] out
  y[i] = x[i] * 2.0
}
)";

// Writes calls; their values are numbers in the order of the arguments, but for the status object.
class Forged {
  using F = layers::Function;
  using Kind = layers::Kind;

 public:
  Forged() {
    layers::TraceHeader header{};
    std::memcpy(header.magic, layers::kTraceMagic, sizeof(header.magic));
    header.version = layers::kTraceVersion;
    const auto* const begin = reinterpret_cast<const std::byte*>(&header);
    bytes_.assign(begin, begin + sizeof(header));
    program(1);
    call(F::device_open, {0, 0, 0, 1});
  }

  // The same text under another hash.
  void program(std::uint64_t hash) {
    std::vector<std::byte> text;
    layers::Encoder to(text, layers::RecordType::kBlob);
    to.hash({0, hash});
    to.text(kDouble);
    add(text);
  }

  void call(F function, const std::vector<std::uint64_t>& values, std::int32_t code = YOKE_OK) {
    const layers::Row& row = layers::row_of(function);
    if (described_.insert(function).second) {
      describe(row);
    }
    std::vector<std::byte> record;
    layers::Encoder to(record, layers::RecordType::kCall);
    for (const std::uint64_t field : {std::uint64_t{1}, number_of(function), std::uint64_t{1}, ++now_,
                                      std::uint64_t{1}, static_cast<std::uint64_t>(code), std::uint64_t{0}}) {
      to.number(field);
    }
    to.text("");
    auto value = values.begin();
    for (std::size_t i = 0; i < row.argument_count; ++i) {
      const Kind kind = row.arguments[i].kind;
      if (kind != Kind::kPlugin && kind != Kind::kStatus) {
        encode(to, kind, *value++);
      }
    }
    EXPECT_EQ(value, values.end()) << row.name;
    add(record);
  }
  void content(std::uint64_t of_call) {
    std::vector<std::byte> record;
    layers::Encoder to(record, layers::RecordType::kContent);
    to.number(of_call);
    to.number(3);
    to.hash({0, 3});
    add(record);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static std::uint64_t number_of(F function) { return static_cast<std::uint64_t>(function) + 1; }

  void describe(const layers::Row& row) {
    std::vector<std::byte> record;
    layers::Encoder to(record, layers::RecordType::kFunction);
    to.number(number_of(row.function));
    to.text(row.table);
    to.text(row.name);
    const bool has_status = row.arguments[row.argument_count - 1].kind == Kind::kStatus;
    to.number(row.argument_count - (has_status ? 1U : 0U));
    for (std::size_t i = 0; i < row.argument_count && row.arguments[i].kind != Kind::kStatus; ++i) {
      to.byte(static_cast<std::uint8_t>(row.arguments[i].kind));
      to.byte(static_cast<std::uint8_t>(row.arguments[i].makes));
      to.text(row.arguments[i].name);
    }
    add(record);
  }

  // Host memory: that many bytes, of which nothing is known.
  static void encode(layers::Encoder& to, Kind kind, std::uint64_t value) {
    switch (kind) {
      case Kind::kOutNumber:
        to.byte(0);
        return to.number(value);
      case Kind::kOptions:
        return to.number(0);
      case Kind::kBindings:  // of two arguments: this buffer, its second half
        to.number(2);
        to.number(value);
        to.number(0);
        to.number(value);
        return to.number(64);
      case Kind::kProgramText:
        to.text(YOKE_PROGRAM_FORMAT);
        to.number(YOKE_PROGRAM_VERSION);
        to.number(std::string_view(kDouble).size());
        return to.hash({0, value});
      case Kind::kSource:
        to.byte(static_cast<std::uint8_t>(layers::Memory::kHere));
        to.number(value);
        return to.hash({0, 2});
      case Kind::kTarget:
        to.byte(static_cast<std::uint8_t>(layers::Memory::kLater));
        return to.number(value);
      default:
        return to.number(value);
    }
  }

  void add(const std::vector<std::byte>& record) {
    const auto size = static_cast<std::uint32_t>(record.size());
    const auto check = static_cast<std::uint32_t>(layers::hash_of(record.data(), record.size()));
    for (const std::uint32_t number : {size, check}) {
      const auto* const begin = reinterpret_cast<const std::byte*>(&number);
      bytes_.insert(bytes_.end(), begin, begin + sizeof(number));
    }
    bytes_.insert(bytes_.end(), record.begin(), record.end());
  }

  std::vector<std::byte> bytes_;
  std::set<F> described_;
  std::uint64_t now_ = 0;
};

}  // namespace yoke::test
