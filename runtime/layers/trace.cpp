// SPDX-License-Identifier: Apache-2.0
// runtime/layers/trace.cpp: the layer that records every call, and the plugin's spans and log lines.
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "layers/interposer.h"
#include "layers/trace_file.h"

namespace yoke::layers {
namespace {

// Structs, rows and texts that the plugin wrote.
void encode_shadow(const Call& call, std::size_t i, Encoder& to) {
  const Shadow& shadow = call.shadows[i];
  const Kind kind = call.row.arguments[i].kind;
  std::uint64_t size = call.is_ok() ? shadow.size : 0;
  if (kind == Kind::kOutText) {
    const auto* const text = reinterpret_cast<const char*>(shadow.bytes.data());
    return to.text({text, size == 0 ? 0 : strnlen(text, size)});
  }
  if (kind == Kind::kOutRows) {  // the stride is before the rows, and out_count after them
    size = std::min(size, call.number(i - 1) * call.out(i + 1));
  }
  to.bytes(shadow.bytes.data(), size);
}

void encode_options(const Call& call, std::size_t i, Encoder& to) {
  const auto options = call.rows_at<yoke_option>(i);
  to.number(options.size());
  for (const yoke_option& option : options) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &option.number, sizeof(bits));
    to.text(option.name == nullptr ? "" : option.name);
    to.numbers({static_cast<std::uint32_t>(option.type), static_cast<std::uint64_t>(option.integer)});
    to.fixed(bits);
    to.text(option.text == nullptr ? "" : option.text);
  }
}

void encode_bindings(std::span<const Bound> bindings, Encoder& to) {
  to.number(bindings.size());
  for (const auto& [binding, buffer] : bindings) {
    to.numbers({buffer == nullptr ? 0 : buffer->number, binding.offset, binding.byte_count, binding.flags});
  }
}

void encode_members(std::span<const Member> members, Encoder& to) {
  const auto number = [](const std::shared_ptr<Object>& object) {
    return object == nullptr ? 0 : object->number;
  };
  to.number(members.size());
  for (const Member& member : members) {
    const yoke_collective& row = member.row;
    to.numbers({number(member.communicator), number(member.stream), number(member.source), row.source_offset,
                number(member.target), row.target_offset, row.count, static_cast<std::uint32_t>(row.kind),
                static_cast<std::uint32_t>(row.type), static_cast<std::uint32_t>(row.reduction), row.root,
                row.flags});
  }
}

void encode_program(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  const auto* const text = call.pointer<const char>(i);
  const std::uint64_t byte_count = text == nullptr ? 0 : call.number(i + 1);
  const Hash hash = hash_of(text, byte_count);
  to.hash(hash);
  writer.add_blob(hash, text, byte_count);
}

// Records contents that are complete when the call returns. Contents that a stream writes are recorded later.
void encode_memory(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  const std::uint64_t byte_count = call.number(i + 1);
  const auto* const memory = call.pointer<const void>(i);
  const bool is_target = call.row.arguments[i].kind == Kind::kTarget;
  if (memory == nullptr || (is_target && !call.is_ok())) {
    return to.byte(static_cast<std::uint8_t>(Memory::kNone));
  }
  const bool is_later = is_target && call.objects[0] != nullptr;
  to.byte(static_cast<std::uint8_t>(is_later ? Memory::kLater : Memory::kHere));
  to.number(byte_count);
  if (is_later) {
    return;
  }
  const Hash hash = hash_of(memory, byte_count);
  to.hash(hash);
  if (writer.with_data() || call.function() == Function::fill) {  // a pattern is always recorded
    writer.add_blob(hash, memory, byte_count);
  }
}

// Appends argument `i` of a call that has returned. Contents become separate records.
void encode_argument(const Call& call, std::size_t i, Encoder& to, TraceWriter& writer) {
  switch (call.row.arguments[i].kind) {
    case Kind::kPlugin:
    case Kind::kStatus:
      return;
    case Kind::kNumber:
    case Kind::kOpaque:
    case Kind::kCallback:
      return to.number(call.number(i));
    case Kind::kOutNumber: {
      const bool is_written = call.is_ok() && call.wrote(i);
      to.byte(static_cast<std::uint8_t>((call.words[i] != 0 ? 1U : 0U) | (is_written ? 2U : 0U)));
      return to.number(is_written ? call.out(i) : 0);
    }
    case Kind::kOutHandle:
      return to.number(call.made == nullptr ? 0 : call.made->number);
    case Kind::kOutInfo:
    case Kind::kOutRows:
    case Kind::kOutText:
      return encode_shadow(call, i, to);
    case Kind::kOptions:
      return encode_options(call, i, to);
    case Kind::kBindings:
      return encode_bindings(call.bindings, to);
    case Kind::kWorkspace:
      return encode_bindings({&call.workspace, call.words[i] == 0 ? 0U : 1U}, to);
    case Kind::kCollectives:
      return encode_members(call.members, to);
    case Kind::kSymbols: {
      const auto values = call.rows_at<std::int64_t>(i);
      to.number(values.size());
      std::for_each(values.begin(), values.end(),
                    [&](auto value) { to.number(static_cast<std::uint64_t>(value)); });
      return;
    }
    case Kind::kText:
      return to.text(call.words[i] == 0 ? "" : call.pointer<const char>(i));
    case Kind::kProgramText:
      return encode_program(call, i, to, writer);
    case Kind::kSource:
    case Kind::kTarget:
      return encode_memory(call, i, to, writer);
    default:
      return to.number(call.objects[i] == nullptr ? 0 : call.objects[i]->number);
  }
}

// The plugin's own table "yoke.profile/1", or null.
const yoke_profile_api* profile_of(const Interposer& plugin) {
  yoke_plugin* const inner = plugin.inner();
  const auto* const table = static_cast<const yoke_profile_api*>(inner->get_table(inner, YOKE_PROFILE_TABLE));
  return table != nullptr && table->struct_size >= sizeof(yoke_profile_api) ? table : nullptr;
}

// Host memory that a copy on a stream writes.
struct Target {
  std::uint64_t call = 0;
  const void* memory = nullptr;
  std::uint64_t byte_count = 0;
};
constexpr std::size_t kTargetArgument = 3;  // of to_host

class Trace final : public Layer {
 public:
  Trace(const Interposer& plugin, std::shared_ptr<TraceWriter> writer)
      : plugin_(plugin), number_(writer->next_plugin()), writer_(std::move(writer)), last_writer_(writer_) {}

  // The last records of a device.
  bool before(Call& call) override {
    if (call.function() == Function::device_close && call.objects[0] != nullptr) {
      fetch_work(*call.objects[0]);
    }
    return true;
  }
  void issuing(const Call& call) override {
    begin(static_cast<std::uint64_t>(call.function()) + kFirstFunction, "", call.begin_ns);
  }
  void after(Call& call) override;
  void refused(const Call& call, std::size_t /*argument*/, const std::string& why) override {
    log(YOKE_LOG_WARN, concat("refused ", call.row.name, ": ", why));
  }
  void completed(Object& stream, bool ok) override;

  void calling(const char* call, const char* id) override {
    begin(kHostSpan, id == nullptr ? std::string(call) : concat(call, " ", id), now_ns());
  }
  void entered(std::int32_t /*code*/, const ErrorSlot& /*status*/) override {
    end(kHostSpan);
    std::vector<std::byte> payload;
    Encoder to(payload, RecordType::kPlugin);
    to.number(number_);
    to.text(plugin_.backend());
    to.text(plugin_.version());
    writer()->add(payload);
  }
  void table_returned() override { end(kHostSpan); }
  void threw(const char* call, const char* what) override {
    log(YOKE_LOG_ERROR, concat(call, " threw an exception: ", what));
  }
  void ended() override {
    end(kHostSpan);
    std::shared_ptr<TraceWriter> last;  // closes the file after the lock is released
    const std::lock_guard lock(mutex_);
    last = std::move(writer_);
    writer_ = nullptr;
  }
  void called_late(const char* call) override {
    log(YOKE_LOG_WARN, concat("refused ", call, ": the plugin is already destroyed"));
  }

  bool logging(std::int32_t level, const char* text, std::uint64_t length) override {
    if (text != nullptr) {
      log(level, {text, length});
    }
    return true;
  }
  void span_begin(const char* name) override { begin(kPluginSpan, name == nullptr ? "" : name, now_ns()); }
  void span_end() override { end(kPluginSpan); }

 private:
  // Null after ended().
  std::shared_ptr<TraceWriter> writer() {
    const std::lock_guard lock(mutex_);
    return writer_;
  }
  // Also after ended(), while another plugin keeps the file open.
  void log(std::int32_t level, std::string_view text) {
    if (const auto to_file = last_writer_.lock()) {
      to_file->log(number_, level, text);
    }
  }
  // Written before the plugin is called, so that a call that never returns is in the file.
  void begin(std::uint64_t what, std::string_view name, std::uint64_t begin_ns) {
    if (const auto to_file = writer()) {
      thread_local std::vector<std::byte> payload;
      Encoder to(payload, RecordType::kBegin);
      to.numbers({number_, thread_number(), begin_ns - to_file->start_ns(), what});
      to.text(name);
      to_file->add(payload);
    }
  }
  void end(std::uint64_t what) {
    if (const auto to_file = writer()) {
      std::vector<std::byte> payload;
      Encoder to(payload, RecordType::kSpanEnd);
      to.numbers({number_, thread_number(), now_ns() - to_file->start_ns(), what});
      to_file->add(payload);
    }
  }
  static void record(const Target& target, TraceWriter& to_file);
  void profile(const Call& call);
  void fetch_work(const Object& device);

  const Interposer& plugin_;
  const std::uint64_t number_;  // of the plugin in the file
  std::mutex mutex_;            // guards writer_ and targets_
  std::shared_ptr<TraceWriter> writer_;
  const std::weak_ptr<TraceWriter> last_writer_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Target> targets_;  // by stream and ticket
  const yoke_profile_api* profile_ = nullptr;
  std::set<std::uint64_t> profiled_;  // devices whose records this layer fetches; guarded by mutex_
};

void Trace::after(Call& call) {
  const auto to_file = writer();
  if (to_file == nullptr) {
    return;
  }
  thread_local std::vector<std::byte> payload;
  Encoder to(payload, RecordType::kCall);
  to.numbers({number_, static_cast<std::uint64_t>(call.function()), thread_number(),
              call.begin_ns - to_file->start_ns(), call.end_ns - call.begin_ns,
              static_cast<std::uint32_t>(call.code), static_cast<std::uint64_t>(call.status->vendor_code)});
  to.text(call.status->text);
  for (std::size_t i = 0; i < call.row.argument_count; ++i) {
    encode_argument(call, i, to, *to_file);
  }
  const std::uint64_t number = to_file->add(payload);
  profile(call);
  if (call.function() == Function::to_host && call.ticket != 0 && call.words[kTargetArgument] != 0) {
    const std::lock_guard lock(mutex_);
    targets_[{call.objects[0]->number, call.ticket}] = {number, call.pointer<const void>(kTargetArgument),
                                                        call.number(kTargetArgument + 1)};
  }
}

// Records the work of each device that the host opens, unless the host itself does.
void Trace::profile(const Call& call) {
  const auto& first = call.objects[0];
  if (!call.is_ok()) {
    return;
  }
  if (call.function() == Function::device_open && call.made != nullptr) {
    profile_ = profile_of(plugin_);
    constexpr yoke_profile_args kArgs = {sizeof(yoke_profile_args), 0, 0};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
    auto* const device = reinterpret_cast<yoke_device*>(call.made->word);
    if (profile_ != nullptr && profile_->profile_start(device, &kArgs, nullptr) == YOKE_STATUS_OK) {
      const std::lock_guard lock(mutex_);
      profiled_.insert(call.made->word);
    }
  } else if (call.function() == Function::profile_start || call.function() == Function::device_close) {
    const std::lock_guard lock(mutex_);
    profiled_.erase(first == nullptr ? 0 : first->word);
  } else if (first != nullptr && first->device != nullptr && abi::is_wait(call.function())) {
    fetch_work(*first->device);
  }
}

void Trace::fetch_work(const Object& device) {
  constexpr std::uint32_t kMost = 256;
  const auto to_file = writer();
  {
    const std::lock_guard lock(mutex_);
    if (to_file == nullptr || profiled_.count(device.word) == 0) {
      return;
    }
  }
  std::vector<yoke_profile_record> records(kMost);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the plugin's own pointer
  auto* const handle = reinterpret_cast<yoke_device*>(device.word);
  std::uint32_t count = kMost;
  std::vector<std::byte> payload;
  while (count == kMost) {
    std::uint64_t lost = 0;
    count = 0;
    if (profile_->profile_fetch(handle, kMost, sizeof(yoke_profile_record), records.data(), &count, &lost,
                                nullptr) != YOKE_STATUS_OK ||
        count > kMost) {
      return;
    }
    for (const yoke_profile_record& one : std::span(records).first(count)) {
      const auto stream =
          Handles::instance().find(Kind::kStream, reinterpret_cast<std::uint64_t>(one.stream));
      const std::uint64_t begin = std::max(one.begin_ns, to_file->start_ns());
      Encoder to(payload, RecordType::kWork);
      to.numbers({number_, stream == nullptr ? 0 : stream->number, begin - to_file->start_ns(),
                  std::max(one.end_ns, begin) - begin, static_cast<std::uint32_t>(one.kind)});
      to.text({one.name, strnlen(one.name, sizeof one.name)});
      to_file->add(payload);
    }
    if (lost != 0) {
      log(YOKE_LOG_WARN, concat("the device dropped ", detail::counted(lost, "record"), " of its work"));
    }
  }
}

void Trace::completed(Object& stream, bool ok) {
  std::vector<Target> done;
  {
    const std::lock_guard lock(mutex_);
    const auto first = targets_.lower_bound({stream.number, 0});
    const auto last = targets_.upper_bound({stream.number, stream.completed});
    std::for_each(first, last, [&](const auto& target) { done.push_back(target.second); });
    targets_.erase(first, last);
  }
  if (const auto to_file = writer(); ok && to_file != nullptr) {
    std::for_each(done.begin(), done.end(), [&](const Target& target) { record(target, *to_file); });
  }
}

// The memory may be unmapped by now: the layers do not see every way in which the host learns of completion.
void Trace::record(const Target& target, TraceWriter& to_file) {
  Hash hash;
  if (to_file.with_data()) {
    std::vector<std::byte> contents(target.byte_count);
    if (!copy_mapped(target.memory, target.byte_count, contents.data())) {
      return;
    }
    hash = hash_of(contents.data(), contents.size());
    to_file.add_blob(hash, contents.data(), contents.size());
  } else if (!hash_mapped(target.memory, target.byte_count, hash)) {
    return;
  }
  std::vector<std::byte> payload;
  Encoder to(payload, RecordType::kContent);
  to.numbers({target.call, kTargetArgument});
  to.hash(hash);
  to_file.add(payload);
}

}  // namespace

std::unique_ptr<Layer> make_trace_layer(const Interposer& plugin, std::shared_ptr<TraceWriter> writer) {
  return std::make_unique<Trace>(plugin, std::move(writer));
}

}  // namespace yoke::layers
