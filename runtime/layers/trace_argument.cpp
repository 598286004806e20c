// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_argument.cpp: the fields of one argument, by what it is.
#include "layers/trace_argument.h"

#include <algorithm>
#include <cstring>

namespace yoke::layers {
namespace {

void encode_shadow(const Call& call, std::size_t i, Encoder& to) {
  const Shadow& shadow = call.shadows[i];
  std::size_t size = call.is_ok() ? shadow.size : 0;
  if (call.row.arguments[i].kind == Kind::kOutText && size != 0) {
    const auto* const text = reinterpret_cast<const char*>(shadow.bytes.data());
    to.text({text, strnlen(text, size)});
    return;
  }
  std::uint64_t stride = 0;
  if (shadow.size != 0) {
    std::memcpy(&stride, shadow.before.data(), sizeof(stride));
  }
  if (call.row.arguments[i].kind == Kind::kOutRows) {
    to.number(stride);
    size = std::min<std::uint64_t>(size, stride * call.out(i + 1));  // out_count stands behind the rows
  }
  to.bytes(shadow.bytes.data(), size);
}

void encode_options(const Call& call, std::size_t i, Encoder& to) {
  const auto count = call.words[i] == 0 ? 0 : static_cast<std::uint32_t>(call.number(i + 1));
  to.number(count);
  const auto* at = call.pointer<const std::byte>(i);
  for (std::uint32_t k = 0; k < count; ++k) {
    yoke_option option{};
    std::uint64_t stride = 0;
    std::memcpy(&stride, call.pointer<const std::byte>(i), sizeof(stride));
    std::memcpy(&option, at, std::min<std::uint64_t>(stride, sizeof(option)));
    at += stride;
    to.text(option.name == nullptr ? "" : option.name);
    to.number(static_cast<std::uint32_t>(option.type));
    to.number(static_cast<std::uint64_t>(option.integer));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &option.number, sizeof(bits));
    to.fixed(bits);
    to.text(option.text == nullptr ? "" : option.text);
  }
}

void encode_text(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  yoke_program_text text{};
  if (call.words[i] != 0) {
    std::memcpy(&text, call.pointer<const void>(i),
                std::min<std::uint64_t>(call.pointer<const yoke_program_text>(i)->struct_size, sizeof(text)));
  }
  const std::uint64_t byte_count = text.bytes == nullptr ? 0 : text.byte_count;
  const Hash hash = hash128(text.bytes, byte_count);
  to.text(text.format == nullptr ? "" : text.format);
  to.number(text.version);
  to.number(byte_count);
  to.hash(hash);
  writer.add_blob(hash, text.bytes, byte_count);
}

// Contents that are there when the call returns. What a stream will write comes later.
void encode_memory(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  const Argument& argument = call.row.arguments[i];
  const std::uint64_t byte_count = call.number(static_cast<std::size_t>(argument.partner));
  const auto* const memory = call.pointer<const void>(i);
  const bool is_target = argument.kind == Kind::kTarget;
  if (memory == nullptr || (is_target && !call.is_ok())) {
    to.byte(static_cast<std::uint8_t>(Memory::kNone));
    return;
  }
  if (is_target && call.objects[0] != nullptr) {
    to.byte(static_cast<std::uint8_t>(Memory::kLater));
    to.number(byte_count);
    return;
  }
  const Hash hash = hash128(memory, byte_count);
  to.byte(static_cast<std::uint8_t>(Memory::kHere));
  to.number(byte_count);
  to.hash(hash);
  // A pattern is part of the call, and not data.
  if (writer.with_data() || call.function() == Function::fill) {
    writer.add_blob(hash, memory, byte_count);
  }
}

}  // namespace

void encode_argument(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  const Argument& argument = call.row.arguments[i];
  switch (argument.kind) {
    case Kind::kPlugin:
    case Kind::kStatus:
      return;
    case Kind::kNumber:
      return to.number(call.number(i));
    case Kind::kOutNumber:
      to.byte(static_cast<std::uint8_t>((call.words[i] != 0 ? 1U : 0U) |
                                        (call.is_ok() && call.wrote(i) ? 2U : 0U)));
      return to.number(call.is_ok() && call.wrote(i) ? call.out(i) : 0);
    case Kind::kOutHandle:
      return to.number(call.made == nullptr ? 0 : call.made->number);
    case Kind::kOutInfo:
    case Kind::kOutRows:
    case Kind::kOutText:
      return encode_shadow(call, i, to);
    case Kind::kOptions:
      return encode_options(call, i, to);
    case Kind::kBindings:
      to.number(call.bound.size());
      for (std::size_t k = 0; k < call.bound.size(); ++k) {
        to.number(call.bound[k] == nullptr ? 0 : call.bound[k]->number);
        to.number(call.bindings[k].offset);
      }
      return;
    case Kind::kSymbols: {
      const auto count = call.words[i] == 0 ? 0 : static_cast<std::uint32_t>(call.number(i + 1));
      to.number(count);
      for (std::uint32_t k = 0; k < count; ++k) {
        to.number(static_cast<std::uint64_t>(call.pointer<const std::int64_t>(i)[k]));
      }
      return;
    }
    case Kind::kProgramText:
      return encode_text(call, i, to, writer);
    case Kind::kSource:
    case Kind::kTarget:
      return encode_memory(call, i, to, writer);
    default:
      return to.number(call.objects[i] == nullptr ? 0 : call.objects[i]->number);
  }
}

}  // namespace yoke::layers
