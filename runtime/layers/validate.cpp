// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate.cpp: when what is checked: the hooks, the plugin's calls of the host.
#include "layers/validate.h"

#include <algorithm>
#include <cstring>

#include "layers/hash.h"

namespace yoke::layers {
namespace {

// How deep this thread is in the plugin's own spans.
thread_local std::map<const Layer*, int>
    span_depth;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[at])) : 0U;
    };
    const unsigned first = byte(i);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
    if (size == 0) {
      return false;
    }
    for (std::size_t k = 1; k < size; ++k) {
      if ((byte(i + k) & 0xc0U) != 0x80U) {
        return false;
      }
    }
    const unsigned second = byte(i + 1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90) ||
        (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90)) {
      return false;
    }
    i += size;
  }
  return true;
}

std::shared_ptr<Layer> make_validate_layer(std::shared_ptr<Ledger> ledger) {
  return std::make_shared<Validate>(std::move(ledger));
}

void Validate::report(int rule, Culprit who, const char* call, std::string text, bool warn) {
  ledger_->report({.rule = rule,
                   .who = who,
                   .is_warning = warn,
                   .backend = backend(),
                   .call = call,
                   .text = std::move(text)});
}

std::shared_ptr<Object> Validate::make_object(Kind kind) {
  return std::make_shared<Checked>(kind, shared_from_this());
}

Validate::Note::~Note() {
  if (serial != nullptr) {
    checked(serial).caller.store(0, std::memory_order_release);
  }
  if (launching != nullptr) {
    checked(launching).is_launching.store(false, std::memory_order_release);
  }
  for (const auto& [buffer, range] : direct) {
    const std::lock_guard lock(buffer->mutex);
    auto& ranges = checked(buffer).direct;
    for (auto& one : ranges) {
      if (one.begin == range.begin && one.end == range.end && one.is_written == range.is_written) {
        one = ranges.back();
        ranges.pop_back();
        break;
      }
    }
  }
  if (changing != nullptr) {
    changing->fetch_add(kEnded);
  }
  if (device_changing != nullptr) {
    device_changing->fetch_add(kEnded);
  }
}

void Validate::entering() {
  around_entry_ = look_around(true);
  threads_at_entry_.store(thread_count());
}

void Validate::entered(std::int32_t code, const ErrorSlot& status) {
  const char* const call = YOKE_PLUGIN_ENTRY_SYMBOL;
  const std::string changed = difference(around_entry_, look_around(true));
  if (!changed.empty()) {
    report(22, Culprit::kPlugin, call, "the entry changed " + changed);
  }
  if (code < YOKE_OK || code > YOKE_OUT_OF_DEVICE_MEMORY) {
    report(11, Culprit::kPlugin, call, "it answered the code " + std::to_string(code) + ", which is none");
  }
  if (code != YOKE_OK && status.text.empty()) {
    report(10, Culprit::kPlugin, call, "it failed without a text");
  } else if (code == YOKE_OK && status.set_count > 0) {
    report(10, Culprit::kPlugin, call, "it answered OK and set an error: " + status.text);
  }
}

void Validate::table_given(const char* id, const void* table, const std::vector<std::byte>& bytes) {
  const std::lock_guard lock(mutex_);
  const auto [seen, is_new] = tables_.try_emplace(id);
  if (!is_new) {
    if (seen->second.address != table) {
      report(6, Culprit::kPlugin, "get_table", std::string(id) + " was at another address before");
    }
    return;
  }
  seen->second = {table, bytes};
  if (table != nullptr && bytes.empty()) {
    report(5, Culprit::kPlugin, "get_table",
           std::string(id) + " does not begin with its own size, or does not lie where memory is");
  }
}

void Validate::threw(const char* call, const char* what) {
  report(13, Culprit::kPlugin, call, std::string("it threw an exception: ") + what);
}

void Validate::check_tables(const char* call) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, seen] : tables_) {
    if (!seen.bytes.empty() && std::memcmp(seen.address, seen.bytes.data(), seen.bytes.size()) != 0) {
      report(6, Culprit::kPlugin, call, "the table " + id + " changed after it was given out");
      seen.bytes.clear();
    }
  }
}

void Validate::destroying() {
  const char* const call = "destroy";
  const auto device_count = live_[static_cast<std::size_t>(Kind::kDevice)].load();
  if (device_count != 0) {
    report(35, Culprit::kHost, call, std::to_string(device_count) + " devices are open");
  }
  check_tables(call);
  if (const Slot function = slot(Function::live_counts); function != nullptr) {
    yoke_live_counts counts{};
    counts.struct_size = sizeof(counts);
    const auto live_counts = reinterpret_cast<decltype(yoke_backend_api::live_counts)>(function);
    if (live_counts(inner(), &counts, nullptr) == YOKE_OK) {
      const std::uint64_t all[] = {counts.devices, counts.buffers, counts.streams,
                                   counts.events,  counts.codes,   counts.routines};
      for (std::size_t i = 0; i < std::size(all); ++i) {
        const auto known = live_[i + 1].load();
        if (all[i] != static_cast<std::uint64_t>(known)) {
          report(14, Culprit::kPlugin, call,
                 "it counts " + std::to_string(all[i]) + " live " + kind_name(static_cast<Kind>(i + 1)) +
                     " handles, and " + std::to_string(known) + " are alive");
        }
      }
    }
  }
}

void Validate::destroyed() {
  const std::lock_guard lock(mutex_);
  if (!memory_.empty()) {
    report(15, Culprit::kPlugin, "destroy",
           std::to_string(memory_.size()) + " pieces of memory from the host's allocate were not given back");
    memory_.clear();
  }
}

void Validate::refused_handle(const Call& call, std::size_t argument, const std::string& what) {
  const bool is_device = call.row.arguments[argument].kind == Kind::kPlugin;
  report(is_device ? 35 : 15, Culprit::kHost, call.row.name, what);
}

void Validate::refused_child(const char* call, const char* what) {
  ledger_->report({.rule = 23,
                   .who = Culprit::kHost,
                   .is_warning = false,
                   .backend = backend(),
                   .call = call,
                   .text = what},
                  false);
}

bool Validate::before(Call& call) {
  auto owned = std::make_unique<Note>();
  Note& note = *owned;
  call.note = std::move(owned);
  check_process(call);
  enter_serial(call);
  check_host(call);
  if (!note.host_text.empty() && ledger_->fail_calls()) {
    answer(call, YOKE_FAILED_PRECONDITION, note.host_text);
    return false;
  }
  note.changes = changing_.load();
  for (std::size_t i = 0; i < note.live.size(); ++i) {
    note.live[i] = live_[i].load();
  }
  const auto& first = call.objects[0];
  if (first != nullptr) {
    Checked& device = checked(first->kind == Kind::kDevice ? first : first->device);
    note.device_changes = device.changing.load();
    note.live_bytes = device.live_bytes.load();
    note.children = device.children.load();
    note.was_lost = device.is_lost.load();
    const std::lock_guard lock(first->mutex);
    note.failure = checked(first).failure;
  }
  const Argument& last = call.row.arguments[std::max<std::size_t>(call.row.argument_count, 2) - 2];
  const bool makes = call.row.arguments[0].ownership == Ownership::kEnded || last.kind == Kind::kOutHandle;
  if (makes) {
    note.changing = &changing_;
    changing_.fetch_add(kBegun);
    if (first != nullptr) {
      note.device_changing = &checked(first->kind == Kind::kDevice ? first : first->device).changing;
      note.device_changing->fetch_add(kBegun);
    }
  }
  const bool is_rare = call.row.time == Time::kMayBlock && call.function() != Function::stream_wait &&
                       call.function() != Function::event_wait &&
                       call.function() != Function::buffer_create &&
                       call.function() != Function::buffer_destroy;
  note.surroundings = look_around(is_rare);
  return true;
}

void Validate::after(Call& call) {
  note_handle(call);
  note_work(call);
  spread_completion(call);
  check_surroundings(call);
  check_answer(call);
  check_outs(call);
  check_time(call);
  check_wait(call);
  check_sticky(call);
  check_infos(call);
}

void Validate::completed(Object& stream, bool ok) {
  auto& sources = static_cast<Checked&>(stream).sources;
  std::size_t kept = 0;
  for (Source& source : sources) {
    if (source.ticket > stream.completed) {
      sources[kept++] = source;
      continue;
    }
    std::uint64_t hash = 0;
    if (!ok) {
      continue;  // nobody reads it any more
    }
    if (!hash_of_foreign(source.memory, source.byte_count, hash)) {
      report(16, Culprit::kHost, "from_host",
             "the source's memory was gone before the copy on " + stream.name() + " was done");
    } else if (hash != source.hash && !is_target(source.memory, source.byte_count)) {
      report(16, Culprit::kHost, "from_host",
             "the source, " + std::to_string(source.byte_count) + " bytes, changed before the copy on " +
                 stream.name() + " was done");
    }
  }
  sources.resize(kept);
}

bool Validate::is_target(const void* memory, std::uint64_t byte_count) {
  const auto begin = reinterpret_cast<std::uint64_t>(memory);
  const Range source{begin, begin + byte_count};
  const std::lock_guard lock(mutex_);
  return std::any_of(targets_.begin(), targets_.end(), [&](const Range& one) { return one.meets(source); });
}

bool Validate::logging(std::int32_t level, const char* text, std::uint64_t length) {
  const char* const call = "host.log";
  if (text == nullptr) {
    report(22, Culprit::kPlugin, call, "its text is NULL");
    return false;
  }
  const std::string_view line(text, length);
  if (level < YOKE_LOG_TRACE || level > YOKE_LOG_ERROR) {
    report(22, Culprit::kPlugin, call, "there is no log level " + std::to_string(level));
  }
  if (!is_utf8(line)) {
    report(22, Culprit::kPlugin, call, "its text is no UTF-8");
  } else if (line.find('\n') != std::string_view::npos) {
    report(22, Culprit::kPlugin, call, "its line has a newline in it");
  }
  return true;
}

void Validate::error_setting(ErrorSlot& slot, const char* text, std::uint64_t length, bool in_time) {
  if (!in_time) {
    report(10, Culprit::kPlugin, slot.call,
           "the status object was filled from another thread, or after its call returned");
    return;
  }
  if (text == nullptr ? length != 0 : !is_utf8({text, length})) {
    report(10, Culprit::kPlugin, slot.call, "the text of its error is no UTF-8");
  }
}

void Validate::span_begin(const char* name) {
  ++span_depth[this];
  if (name == nullptr || !is_utf8(name)) {
    report(20, Culprit::kPlugin, "host.trace_begin", "the span's name is no UTF-8 text");
  }
}

void Validate::span_end() {
  int& depth = span_depth[this];
  if (depth == 0) {
    report(20, Culprit::kPlugin, "host.trace_end", "no span was begun on this thread");
    return;
  }
  if (--depth == 0) {
    span_depth.erase(this);
  }
}

void Validate::allocated(void* memory, std::uint64_t byte_count, std::uint64_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    report(15, Culprit::kPlugin, "host.allocate",
           "the alignment " + std::to_string(alignment) + " is no power of two");
  }
  if (memory != nullptr) {
    const std::lock_guard lock(mutex_);
    memory_[memory] = byte_count;
  }
}

bool Validate::deallocating(void* memory) {
  if (memory == nullptr) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  if (memory_.erase(memory) == 0) {
    report(15, Culprit::kPlugin, "host.deallocate",
           "the memory is not from the host's allocate, or went before");
    return false;
  }
  return true;
}

void Validate::late_callback(const char* what) {
  const bool is_host = std::string_view(what) == "destroy" || std::string_view(what) == "get_table";
  report(35, is_host ? Culprit::kHost : Culprit::kPlugin, what,
         "it was called after the plugin was destroyed");
}

}  // namespace yoke::layers
