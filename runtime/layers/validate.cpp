// SPDX-License-Identifier: Apache-2.0
// runtime/layers/validate.cpp: the hooks of the validate layer.
#include "layers/validate.h"

#include <yoke/runtime/counted.h>

#include <algorithm>
#include <deque>

#include "layers/interposer.h"

namespace yoke::layers {
namespace {

class Validate final : public Layer {
 public:
  Validate(const Interposer& plugin, std::shared_ptr<Ledger> ledger) : reporter_(plugin, std::move(ledger)) {}

  bool before(Call& call) override;
  void after(Call& call) override;
  void refused(const Call& call, std::size_t argument, const std::string& why) override {
    const bool is_plugin = call.row.arguments[argument].kind == Kind::kPlugin;
    reporter_.host(is_plugin ? Rule::kLifetime : Rule::kOwnership, call.row.name, why);
  }
  void completed(Object& stream, bool ok) override {
    memory_.finish(stream, ok, reporter_);
    finish_callbacks(stream, reporter_);
  }

  void calling(const char* call, const char* id) override;
  void entered(std::int32_t code, const ErrorSlot& status) override;
  void threw(const char* call, const char* what) override {
    reporter_.plugin(Rule::kNoException, call, "threw an exception: ", what);
  }
  void ended() override;
  void called_late(const char* call) override {
    const bool is_host = std::string_view(call) == "destroy" || std::string_view(call) == "get_table";
    reporter_.report(Rule::kLifetime, is_host ? Culprit::kHost : Culprit::kPlugin, call,
                     "called after the plugin was destroyed");
  }

  void error_setting(const ErrorSlot& slot, bool is_valid) override {
    if (!is_valid) {
      reporter_.plugin(Rule::kErrorText, slot.call,
                       "set an error from another thread, or after the call returned");
    }
  }
  void allocated(void* memory) override {
    const std::lock_guard lock(mutex_);
    blocks_.insert(memory);
  }
  bool deallocating(void* memory) override;

 private:
  void wrap_callback(Call& call);

  const Reporter reporter_;
  HostMemory memory_;
  std::atomic<std::int64_t> open_devices_{0};
  std::mutex mutex_;                                     // guards the members below
  std::set<void*> blocks_;                               // that the plugin allocated through the host
  std::deque<std::unique_ptr<HostCallback>> callbacks_;  // the latest, kept to detect a second call
};

bool Validate::before(Call& call) {
  call.note = std::make_shared<CallNote>(reporter_);
  CallNote& note = *call.note;
  check_host(call);
  if (!note.host_text.empty() && reporter_.fail_calls()) {
    call.answer(YOKE_STATUS_FAILED_PRECONDITION, note.host_text);
    return false;
  }
  if (const auto& first = call.objects[0]; first != nullptr) {
    const Checked& device = checked(first->kind == Kind::kDevice ? first : first->device);
    note.children = device.children.load();
    note.was_lost = device.is_lost.load();
    const std::lock_guard lock(first->mutex);
    note.failure = checked(first).failure;
  }
  if (call.function() == Function::stream_host_callback && call.words[1] != 0) {
    wrap_callback(call);
  }
  const bool is_rare = call.row.time == abi::Time::kMayBlock && !abi::is_wait(call.function()) &&
                       call.function() != Function::buffer_create &&
                       call.function() != Function::buffer_destroy;
  note.surroundings = look_around(is_rare);
  return true;
}

void Validate::wrap_callback(Call& call) {
  constexpr std::size_t kMostKept = 4096;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a wrapper made the word
  const auto function = reinterpret_cast<yoke_host_callback_fn>(call.words[1]);
  const std::shared_ptr<Object>& stream = call.objects[0];
  std::uint64_t issued = 0;
  if (stream != nullptr) {
    const std::lock_guard lock(stream->mutex);
    issued = stream->issued;
  }
  std::unique_ptr<HostCallback> callback(
      new HostCallback{reporter_, function, call.pointer<void>(2), memory_, stream, issued});
  call.note->callback = callback.get();
  call.words[1] = reinterpret_cast<std::uint64_t>(&HostCallback::run);
  call.words[2] = reinterpret_cast<std::uint64_t>(callback.get());
  const std::lock_guard lock(mutex_);
  callbacks_.push_back(std::move(callback));
  if (callbacks_.size() > kMostKept && callbacks_.front()->call_count != 0) {
    callbacks_.pop_front();
  }
}

void Validate::after(Call& call) {
  const bool is_device = call.made != nullptr && call.made->kind == Kind::kDevice;
  open_devices_ += is_device                                                                              ? 1
                   : call.function() == Function::device_close && call.ended() != nullptr && call.is_ok() ? -1
                                                                                                          : 0;
  note_handles(call);
  note_work(call, memory_);
  spread_completion(call);
  check_plugin(call);
}

void Validate::calling(const char* call, const char* id) {
  if (id == nullptr && open_devices_ != 0) {  // destroy
    reporter_.host(Rule::kLifetime, call, detail::counted(open_devices_.load(), "device is", "devices are"),
                   " open");
  }
}

void Validate::entered(std::int32_t code, const ErrorSlot& status) {
  if (const auto broken = broken_status(code, status)) {
    reporter_.plugin(broken->rule, YOKE_PLUGIN_ENTRY_SYMBOL, broken->text);
  }
}

void Validate::ended() {
  const std::lock_guard lock(mutex_);
  blocks_.erase(nullptr);
  if (!blocks_.empty()) {
    reporter_.plugin(Rule::kOwnership, "destroy", detail::counted(blocks_.size(), "block"),
                     " from the host's allocate ", blocks_.size() == 1 ? "was" : "were", " not deallocated");
  }
  blocks_.clear();
}

bool Validate::deallocating(void* memory) {
  const std::lock_guard lock(mutex_);
  const bool is_known = memory == nullptr || blocks_.erase(memory) != 0;
  if (!is_known) {
    reporter_.plugin(Rule::kOwnership, "host.deallocate",
                     "the memory is not from the host's allocate, or was already deallocated");
  }
  return is_known;
}

}  // namespace

void HostCallback::run(void* self, std::int32_t status) {
  auto& callback = *static_cast<HostCallback*>(self);
  if (callback.call_count.fetch_add(1) == 0) {
    if (const auto stream = std::move(callback.stream); stream != nullptr) {
      callback.memory.finish_sources(*stream, callback.after, status == YOKE_STATUS_OK, callback.reporter);
    }
    callback.function(callback.user, status);
  } else {
    callback.reporter.plugin(Rule::kHostCallback, "stream_host_callback", "called the callback twice");
  }
}

void Reporter::report(Rule rule, Culprit who, const char* call, std::string text, bool is_warning) const {
  ledger_->report({.rule = static_cast<int>(rule),
                   .who = who,
                   .is_warning = is_warning,
                   .backend = plugin_.backend(),
                   .call = call,
                   .text = std::move(text)});
}

CallNote::~CallNote() {
  if (serial != nullptr) {
    checked(serial).caller.store(0, std::memory_order_release);
  }
  if (launching != nullptr) {
    checked(launching).is_launching.store(false, std::memory_order_release);
  }
}

void blame(Call& call, Rule rule, Culprit who, std::string text, bool is_warning) {
  CallNote& note = *call.note;
  const int number = static_cast<int>(rule);
  if (who == Culprit::kHost && note.host_text.empty()) {
    note.host_text = concat(call.row.name, ": ", text, " (rule ", number, ")");
  } else if (who == Culprit::kPlugin && !is_warning && note.reporter.fail_calls() && call.row.has_status() &&
             call.made == nullptr && !call.row.ends_handle()) {
    call.answer(YOKE_STATUS_FAILED_PRECONDITION,
                concat("the plugin broke rule ", number, " in ", call.row.name, ": ", text));
  }
  note.reporter.report(rule, who, call.row.name, std::move(text), is_warning);
}

std::unique_ptr<Layer> make_validate_layer(const Interposer& plugin, std::shared_ptr<Ledger> ledger) {
  return std::make_unique<Validate>(plugin, std::move(ledger));
}

}  // namespace yoke::layers
