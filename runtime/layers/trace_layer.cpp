// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace_layer.cpp: the layer that writes down every call, the plugin's spans and its log
// lines.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "layers/layer.h"
#include "layers/session.h"
#include "layers/trace_argument.h"
#include "layers/trace_writer.h"

namespace yoke::layers {
namespace {

struct Span {
  const Layer* layer;
  std::string name;
  std::uint64_t begin_ns;
  bool is_call;  // of the plugin, by the host; else the plugin's own
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
  void entering() override;
  void entered(std::int32_t code, const ErrorSlot& status) override;
  void table_asked(const char* id) override { begin(std::string("get_table ") + id, true); }
  void table_given(const char* id, const void* table, const std::vector<std::byte>& bytes) override;
  void threw(const char* call, const char* what) override;
  void destroying() override { begin("destroy", true); }
  void destroyed() override;
  void refused_handle(const Call& call, std::size_t argument, const std::string& what) override;
  void late_callback(const char* what) override;
  void issuing(const Call& call) override;
  void after(Call& call) override;
  void completed(Object& stream, bool ok) override;
  bool logging(std::int32_t level, const char* text, std::uint64_t length) override;
  void span_begin(const char* name) override { begin(name == nullptr ? "" : name, false); }
  void span_end() override { end(false); }

 private:
  std::shared_ptr<TraceWriter> writer();
  std::shared_ptr<TraceWriter> any_writer();
  void begin(std::string name, bool is_call);
  void end(bool is_call);

  std::mutex mutex_;
  std::shared_ptr<TraceWriter> writer_;     // null once the plugin was destroyed
  std::weak_ptr<TraceWriter> late_writer_;  // then: what is refused is still written, where the file is open
  std::uint64_t plugin_ = 0;                // its number in the file
};

std::shared_ptr<TraceWriter> TraceLayer::writer() {
  const std::lock_guard lock(mutex_);
  return writer_;
}

std::shared_ptr<TraceWriter> TraceLayer::any_writer() {
  const std::lock_guard lock(mutex_);
  return writer_ == nullptr ? late_writer_.lock() : writer_;
}

// Written before the plugin is called, so that a call that never returns is in the file.
void TraceLayer::issuing(const Call& call) {
  const auto to_file = writer();
  if (to_file == nullptr) {
    return;
  }
  thread_local std::vector<std::byte> payload;
  Encoder to(payload, RecordType::kBegin);
  to.number(plugin_);
  to.number(thread_number());
  to.number(call.begin_ns - to_file->start_ns());
  to.number(static_cast<std::uint64_t>(call.function()) + 1);
  to_file->add(payload, TraceWriter::Write::kNow);
}

void TraceLayer::after(Call& call) {
  const auto to_file = writer();
  if (to_file == nullptr) {
    return;
  }
  thread_local std::vector<std::byte> payload;
  Encoder to(payload, RecordType::kCall);
  to.number(plugin_);
  to.number(static_cast<std::uint64_t>(call.function()));
  to.number(thread_number());
  to.number(call.begin_ns - to_file->start_ns());
  to.number(call.end_ns - call.begin_ns);
  to.number(static_cast<std::uint32_t>(call.code));
  to.number(static_cast<std::uint64_t>(call.status->vendor_code));
  to.text(call.status->text);
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    encode_argument(call, i, to, *to_file);
  }
  const std::uint64_t number = to_file->add(payload, TraceWriter::Write::kNow);
  if (call.function() == Function::to_host && call.ticket != 0 && call.words[3] != 0) {
    const auto& stream = call.objects[0];
    const std::lock_guard lock(stream->mutex);
    static_cast<Traced&>(*stream).targets.push_back(
        {call.ticket, number, 3, call.pointer<const void>(3), call.number(4)});
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
      Encoder to(payload, RecordType::kContent);
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

void TraceLayer::entering() {
  if (const auto to_file = writer()) {
    plugin_ = to_file->next_plugin();
  }
  begin(YOKE_PLUGIN_ENTRY_SYMBOL, true);
}

void TraceLayer::entered(std::int32_t /*code*/, const ErrorSlot& /*status*/) {
  end(true);
  if (const auto to_file = writer()) {
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kPlugin);
    to.number(plugin_);
    to.text(backend());
    to.text(version());
    to_file->add(payload);
  }
}

void TraceLayer::table_given(const char* /*id*/, const void* /*table*/,
                             const std::vector<std::byte>& /*bytes*/) {
  end(true);
}

void TraceLayer::threw(const char* call, const char* what) {
  if (const auto to_file = writer()) {
    to_file->log(plugin_, YOKE_LOG_ERROR, std::string(call) + " threw an exception: " + what);
  }
  end(true);  // entry, get_table, destroy
}

void TraceLayer::destroyed() {
  end(true);
  std::shared_ptr<TraceWriter> last;  // closed without the lock, when it is the last
  const std::lock_guard lock(mutex_);
  late_writer_ = writer_;
  last = std::move(writer_);
  writer_ = nullptr;
}

bool TraceLayer::logging(std::int32_t level, const char* text, std::uint64_t length) {
  const auto to_file = writer();
  if (to_file != nullptr && text != nullptr) {
    to_file->log(plugin_, level, {text, length});
  }
  return true;
}

void TraceLayer::refused_handle(const Call& call, std::size_t /*argument*/, const std::string& what) {
  if (const auto to_file = any_writer()) {
    to_file->log(plugin_, YOKE_LOG_WARN, std::string("refused ") + call.row.name + ": " + what);
  }
}

void TraceLayer::late_callback(const char* what) {
  if (const auto to_file = any_writer()) {
    to_file->log(plugin_, YOKE_LOG_WARN,
                 std::string("refused ") + what + ": the plugin was destroyed before");
  }
}

// Spans: the plugin's own, and those of its calls that are in no table.
void TraceLayer::begin(std::string name, bool is_call) {
  const Span& span = spans.emplace_back(Span{this, std::move(name), now_ns(), is_call});
  if (const auto to_file = writer()) {
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kBegin);
    to.number(plugin_);
    to.number(thread_number());
    to.number(span.begin_ns - to_file->start_ns());
    to.number(0);
    to.text(span.name);
    to_file->add(payload, TraceWriter::Write::kNow);
  }
}

// Ends the last one; one of a call also takes along those that the plugin left open in it.
void TraceLayer::end(bool is_call) {
  auto last = std::find_if(spans.rbegin(), spans.rend(),
                           [&](const Span& one) { return one.layer == this && (one.is_call || !is_call); });
  if (last == spans.rend() || last->is_call != is_call) {
    return;  // the plugin ends what it did not begin
  }
  if (const auto to_file = writer()) {
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kSpan);
    to.number(plugin_);
    to.number(thread_number());
    to.number(last->begin_ns - to_file->start_ns());
    to.number(now_ns() - last->begin_ns);
    to.text(last->name);
    to_file->add(payload, TraceWriter::Write::kNow);
  }
  spans.erase(std::next(last).base(), is_call ? spans.end() : last.base());
}

}  // namespace

std::shared_ptr<Layer> make_trace_layer(std::shared_ptr<TraceWriter> writer) {
  return std::make_shared<TraceLayer>(std::move(writer));
}

}  // namespace yoke::layers
