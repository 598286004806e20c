// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_layer.cpp: the layer that writes down every call, the plugin's spans and its log
// lines.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "layers/layer.h"
#include "layers/session.h"
#include "layers/trace_writer.h"

namespace yoke::layers {
namespace {

// A small number per thread, in the order in which threads first call.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> count{0};
  thread_local const std::uint64_t mine = ++count;
  return mine;
}

struct Span {
  const Layer* layer;
  std::string name;
  std::uint64_t begin_ns;
};
thread_local std::vector<Span> spans;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Host memory that a copy on a stream will have written.
struct Target {
  std::uint64_t ticket = 0;
  std::uint64_t call = 0;
  std::uint64_t argument = 0;
  const void* memory = nullptr;
  std::uint64_t byte_count = 0;
};

// What it holds now; false: it is not there any more. The contents themselves only where they are wanted.
bool read(const Target& target, bool with_contents, std::vector<std::byte>& contents, Hash& hash) {
  if (!with_contents) {
    return hash128_of_foreign(target.memory, target.byte_count, hash);
  }
  const bool is_there = copy_of_foreign(target.memory, target.byte_count, contents);
  hash = hash128(contents.data(), contents.size());
  return is_there;
}

struct Traced final : Object {
  using Object::Object;
  std::vector<Target> targets;  // streams
};

class TraceLayer final : public Layer {
 public:
  explicit TraceLayer(std::shared_ptr<TraceWriter> writer) : writer_(std::move(writer)) {}

 protected:
  std::shared_ptr<Object> make_object(Kind kind) override {
    return std::make_shared<Traced>(kind, shared_from_this());
  }
  void after(Call& call) override;
  void completed(Object& stream, bool ok) override;
  void destroyed() override;
  bool logging(std::int32_t level, const char* text, std::uint64_t length) override;
  void span_begin(const char* name) override;
  void span_end() override;

 private:
  std::shared_ptr<TraceWriter> writer();
  std::uint64_t plugin(TraceWriter& writer);
  void encode(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) const;
  static void encode_shadow(const Call& call, std::size_t i, Encoder& to);
  static void encode_options(const Call& call, std::size_t i, Encoder& to);
  static void encode_text(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer);
  static void encode_memory(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer);

  std::mutex mutex_;
  std::shared_ptr<TraceWriter> writer_;  // null once the plugin was destroyed
  std::uint64_t plugin_ = 0;
};

std::shared_ptr<TraceWriter> TraceLayer::writer() {
  const std::lock_guard lock(mutex_);
  return writer_;
}

std::uint64_t TraceLayer::plugin(TraceWriter& writer) {
  const std::lock_guard lock(mutex_);
  if (plugin_ == 0) {
    plugin_ = writer.next_plugin();
    std::vector<std::byte> payload;
    Encoder to(payload);
    to.byte(static_cast<std::uint8_t>(RecordType::kPlugin));
    to.number(plugin_);
    to.text(backend());
    to.text(version());
    writer.add(payload);
  }
  return plugin_;
}

void TraceLayer::encode_shadow(const Call& call, std::size_t i, Encoder& to) {
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

void TraceLayer::encode_options(const Call& call, std::size_t i, Encoder& to) {
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

void TraceLayer::encode_text(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
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
void TraceLayer::encode_memory(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
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

void TraceLayer::encode(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) const {
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

void TraceLayer::after(Call& call) {
  const auto to_file = writer();
  if (to_file == nullptr) {
    return;
  }
  thread_local std::vector<std::byte> payload;
  payload.clear();
  Encoder to(payload);
  to.byte(static_cast<std::uint8_t>(RecordType::kCall));
  to.number(plugin(*to_file));
  to.number(static_cast<std::uint64_t>(call.function()));
  to.number(thread_number());
  to.number(call.begin_ns - to_file->start_ns());
  to.number(call.end_ns - call.begin_ns);
  to.number(static_cast<std::uint32_t>(call.code));
  to.number(static_cast<std::uint64_t>(call.status->vendor_code));
  to.text(call.status->text);
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    encode(call, i, to, *to_file);
  }
  const std::uint64_t number = to_file->add(payload);
  if (call.function() == Function::to_host && call.ticket != 0 && call.words[3] != 0) {
    const auto& stream = call.objects[0];
    const std::lock_guard lock(stream->mutex);
    static_cast<Traced&>(*stream).targets.push_back(
        {call.ticket, number, 3, call.pointer<const void>(3), call.number(4)});
  }
  if (call.row.time == Time::kMayBlock && call.row.arguments[0].kind == Kind::kPlugin) {
    to_file->flush();  // device_open: from here on it may crash
  }
}

void TraceLayer::completed(Object& stream, bool ok) {
  auto& targets = static_cast<Traced&>(stream).targets;
  const auto to_file = writer();
  std::erase_if(targets, [&](const Target& target) {
    if (target.ticket > stream.completed) {
      return false;
    }
    // Gone: the host knew that it was done without asking here (it waited for a stream that had waited).
    Hash hash;
    std::vector<std::byte> contents;
    if (ok && to_file != nullptr && read(target, to_file->with_data(), contents, hash)) {
      std::vector<std::byte> payload;
      Encoder to(payload);
      to.byte(static_cast<std::uint8_t>(RecordType::kContent));
      to.number(target.call);
      to.number(target.argument);
      to.hash(hash);
      if (to_file->with_data()) {
        to_file->add_blob(hash, contents.data(), target.byte_count);
      }
      to_file->add(payload);
    }
    return true;
  });
}

void TraceLayer::destroyed() {
  std::shared_ptr<TraceWriter> last;  // closed without the lock, when it is the last
  const std::lock_guard lock(mutex_);
  last = std::move(writer_);
  writer_ = nullptr;
}

bool TraceLayer::logging(std::int32_t level, const char* text, std::uint64_t length) {
  const auto to_file = writer();
  if (to_file != nullptr && text != nullptr) {
    std::vector<std::byte> payload;
    Encoder to(payload);
    to.byte(static_cast<std::uint8_t>(RecordType::kLog));
    to.number(plugin(*to_file));
    to.number(thread_number());
    to.number(now_ns() - to_file->start_ns());
    to.number(static_cast<std::uint32_t>(level));
    to.bytes(text, length);
    to_file->add(payload);
  }
  return true;
}

void TraceLayer::span_begin(const char* name) {
  spans.push_back({this, name == nullptr ? "" : name, now_ns()});
}

void TraceLayer::span_end() {
  const auto last =
      std::find_if(spans.rbegin(), spans.rend(), [this](const Span& s) { return s.layer == this; });
  const auto to_file = writer();
  if (last == spans.rend()) {
    return;
  }
  if (to_file != nullptr) {
    std::vector<std::byte> payload;
    Encoder to(payload);
    to.byte(static_cast<std::uint8_t>(RecordType::kSpan));
    to.number(plugin(*to_file));
    to.number(thread_number());
    to.number(last->begin_ns - std::min(last->begin_ns, to_file->start_ns()));
    to.number(now_ns() - last->begin_ns);
    to.text(last->name);
    to_file->add(payload);
  }
  spans.erase(std::next(last).base());
}

}  // namespace

std::shared_ptr<Layer> make_trace_layer(std::shared_ptr<TraceWriter> writer) {
  return std::make_shared<TraceLayer>(std::move(writer));
}

}  // namespace yoke::layers
