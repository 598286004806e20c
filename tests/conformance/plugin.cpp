// SPDX-License-Identifier: Apache-2.0
// tests/conformance/plugin.cpp: raw dlopen, the entry, and tables copied as far as both sides know them.
#include "plugin.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace yoke::conformance {
namespace {

std::atomic<std::uint32_t> own_slot{kNoFunction};  // where no driver listens
std::atomic<std::uint32_t>* shared_slot = &own_slot;

void check_status(const Answer& answer, const std::string& doing) {
  check(answer.status.times_set > 0 && !answer.status.text.empty(), doing, ": ", answer.function,
        " answered ", code_name(answer.code), " without a text; every error says what, where, why");
  check(!answer.status.set_elsewhere, doing, ": ", answer.function,
        " filled the status object from another thread than the caller's; it belongs to that one thread");
  check(is_utf8(answer.status.text), doing, ": the text of ", answer.function, " is not UTF-8");
  check_equal(answer.status.code, answer.code, doing, ": the code in the status object of ", answer.function);
}

}  // namespace

const char* function_name(std::uint32_t id) {
  static constexpr const char* kNames[] = {
      "",
      "dlopen (a constructor of the plugin or of a library that it links)",
      "the entry",
      "destroy",
      "get_table",
#define YOKE_CONFORMANCE_NAME(table, member, need) #member,
      YOKE_CONFORMANCE_FUNCTIONS(YOKE_CONFORMANCE_NAME)
#undef YOKE_CONFORMANCE_NAME
  };
  return id < kFunctionCount ? kNames[id] : "";
}

std::atomic<std::uint32_t>& current_function() {
  return *shared_slot;
}

void share_current_function(int file_descriptor) {
  void* page = ::mmap(nullptr, sizeof(std::atomic<std::uint32_t>), PROT_READ | PROT_WRITE, MAP_SHARED,
                      file_descriptor, 0);
  if (page != MAP_FAILED) {
    shared_slot = new (page) std::atomic<std::uint32_t>(kNoFunction);
  }
}

std::string Answer::words() const {
  std::string words = std::string(function) + " answered " + code_name(code);
  if (!status.text.empty()) {
    words += ": " + status.text;
  }
  return words;
}

void expect_ok(const Answer& answer, const std::string& doing) {
  check(answer.ok(), doing, doing.empty() ? "" : ": ", answer.words());
}

void expect_code(const Answer& answer, std::int32_t code, const std::string& doing) {
  check(answer.code == code, doing, ": ", answer.words(), "; due is ", code_name(code));
  check_status(answer, doing);
}

void expect_refused(const Answer& answer, const std::string& doing) {
  check(!answer.ok(), doing, ": ", answer.function, " answered OK; due is an error");
  check_status(answer, doing);
}

Library::Library(std::filesystem::path path) : path_(std::move(path)) {
  current_function().store(kDlopen, std::memory_order_relaxed);
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  current_function().store(kNoFunction, std::memory_order_relaxed);
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    fail(text("the linker refuses the file: ", reason == nullptr ? "no reason given" : reason));
  }
  entry_ = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(handle_, YOKE_PLUGIN_ENTRY_SYMBOL));
  check(entry_ != nullptr, "the file exports no " YOKE_PLUGIN_ENTRY_SYMBOL);
}

Plugin::Plugin(const Library& library) : host_(std::make_unique<Host>()) {
  enter(library, host_->args());
}

Plugin::Plugin(const Library& library, const yoke_entry_args& args, std::unique_ptr<Host> host)
    : host_(std::move(host)) {
  enter(library, args);
}

void Plugin::enter(const Library& library, const yoke_entry_args& args) {
  expect_ok(call_entry(library, &args, &plugin_), "entering the plugin");
  check(plugin_ != nullptr, "the entry answered OK without a plugin");
  check(plugin_->magic == YOKE_PLUGIN_MAGIC && plugin_->prefix_size >= sizeof(yoke_plugin),
        "the plugin's prefix does not begin with yoke's magic number and its own size");
  check(plugin_->destroy != nullptr && plugin_->get_table != nullptr,
        "the plugin's prefix lacks destroy or get_table");
  read_table<yoke_backend_api>();
  read_table<yoke_stream_api>();
  read_table<yoke_program_api>();
  read_table<yoke_peer_api>();
  read_table<yoke_fault_api>();
  check(has_table<yoke_backend_api>(), "the plugin does not have the required table " YOKE_BACKEND_TABLE);
}

void Plugin::leave() {
  destroy_plugin(std::exchange(plugin_, nullptr));
  const std::vector<std::string> faults = host_->faults();
  check(faults.empty(), faults.empty() ? "" : faults[0]);
  check_equal(host_->allocations_alive(), 0U,
              "host allocations that the plugin still holds after its destroy");
}

Plugin::~Plugin() {
  if (plugin_ != nullptr && plugin_->destroy != nullptr) {
    destroy_plugin(plugin_);
  }
}

Answer call_entry(const Library& library, const yoke_entry_args* args, yoke_plugin** out_plugin) {
  Answer answer;
  answer.function = "the entry";
  current_function().store(kEntry, std::memory_order_relaxed);
  answer.code = library.entry()(args, out_plugin, &answer.status);
  current_function().store(kNoFunction, std::memory_order_relaxed);
  return answer;
}

void destroy_plugin(yoke_plugin* plugin) {
  current_function().store(kDestroy, std::memory_order_relaxed);
  plugin->destroy(plugin);
  current_function().store(kNoFunction, std::memory_order_relaxed);
}

template <class Table>
void Plugin::read_table() {
  auto& slot = std::get<Slot<Table>>(tables_);
  const void* theirs = plugin_->get_table(plugin_, kTableId<Table>);
  slot.offered = theirs != nullptr;
  if (theirs != nullptr) {
    std::uint64_t byte_count = 0;
    std::memcpy(&byte_count, theirs, sizeof byte_count);
    std::memcpy(&slot.table, theirs,
                static_cast<std::size_t>(std::min<std::uint64_t>(byte_count, sizeof(Table))));
  }
}

yoke_live_counts Plugin::live_counts() const {
  yoke_live_counts counts{};
  counts.struct_size = sizeof counts;
  expect_ok(call<&yoke_backend_api::live_counts>(plugin_, &counts), "asking what is alive");
  return counts;
}

std::uint32_t Plugin::device_count() const {
  std::uint32_t count = 0;
  expect_ok(call<&yoke_backend_api::device_count>(plugin_, &count), "counting the devices");
  return count;
}

}  // namespace yoke::conformance
