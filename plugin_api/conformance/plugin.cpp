// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/plugin.cpp: dlopen, the entry, copies of
// the plugin's tables, and calls through them.
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

std::atomic<std::uint32_t> own_slot{kNoFunction};  // used without a driver
std::atomic<std::uint32_t>* shared_slot = &own_slot;

void check_status(const Answer& answer, const std::string& doing) {
  check(answer.status.times_set > 0 && !answer.status.text.empty(), doing, ": ", answer.function,
        " returned ", code_name(answer.code),
        " without a text; call error_set with a sentence that states what failed and why");
  check(!answer.status.set_elsewhere, doing, ": ", answer.function,
        " filled the error object from another thread; only the calling thread may fill it");
  check(is_utf8(answer.status.text), doing, ": the error text of ", answer.function, " is not UTF-8");
  check_equal(answer.status.code, answer.code, doing, ": the code in the error object of ", answer.function);
}

template <class Range>
std::uint32_t count_of(const Range& range) {
  return static_cast<std::uint32_t>(range.size());
}

}  // namespace

const char* function_name(std::uint32_t id) {
  static constexpr const char* kNames[] = {
      "",
      "dlopen (a static constructor of the plugin or of a library that it links)",
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
  std::string words = std::string(function) + " returned " + code_name(code);
  if (!status.text.empty()) {
    words += ": " + status.text;
  }
  return words;
}

void expect_ok(const Answer& answer, const std::string& doing) {
  if (!answer.ok()) [[unlikely]] {
    const std::string text = doing + (doing.empty() ? "" : ": ") + answer.words();
    announce(text);
    throw Refused(answer, text);
  }
  check(answer.status.times_set == 0, answer.function, " returned OK but filled the error object");
}

void expect_code(const Answer& answer, std::int32_t code, const std::string& doing) {
  check(answer.code == code, doing, ": ", answer.words(), "; expected ", code_name(code));
  check_status(answer, doing);
}

void expect_supported(const Answer& answer, const std::string& doing) {
  if (answer.code == YOKE_STATUS_UNIMPLEMENTED) {
    expect_code(answer, YOKE_STATUS_UNIMPLEMENTED, doing);
    unsupported(doing + ": " + answer.status.text);
  }
  expect_ok(answer, doing);
}

void expect_refused(const Answer& answer, const std::string& doing) {
  check(!answer.ok(), doing, ": ", answer.function, " returned OK; expected an error");
  check_status(answer, doing);
}

yoke_device_args device_args(std::uint32_t ordinal, std::span<const yoke_option> options) {
  yoke_device_args args = sized<yoke_device_args>();
  args.ordinal = ordinal;
  args.options = options.data();
  args.option_count = count_of(options);
  args.option_stride = sizeof(yoke_option);
  return args;
}

yoke_buffer_args buffer_args(std::uint64_t byte_count, std::int32_t kind) {
  yoke_buffer_args args = sized<yoke_buffer_args>();
  args.byte_count = byte_count;
  args.kind = kind;
  return args;
}

yoke_link_args link_args(std::uint32_t entry, std::span<const yoke_binding> bindings,
                         const yoke_binding& workspace) {
  yoke_link_args args = sized<yoke_link_args>();
  args.entry = entry;
  args.bindings = bindings.data();
  args.binding_count = count_of(bindings);
  args.binding_stride = sizeof(yoke_binding);
  args.workspace = workspace.buffer == nullptr ? nullptr : &workspace;
  return args;
}

yoke_entry_args entry_args(const Host& host, const Library& library) {
  yoke_entry_args args = host.args();
  args.options = library.options().data();
  args.option_count = count_of(library.options());
  args.option_stride = sizeof(yoke_option);
  return args;
}

yoke_option default_option(const yoke_option_spec& spec) {
  yoke_option option{};
  option.name = spec.name;
  option.type = spec.type;
  option.integer = spec.integer_default;
  option.number = spec.number_default;
  option.text = spec.text_default;
  return option;
}

Library::Library(std::filesystem::path path, NamesAndValues options)
    : path_(std::move(path)), names_and_values_(std::move(options)) {
  for (const auto& [name, value] : names_and_values_) {
    yoke_option option{};
    option.name = name.c_str();
    option.type = YOKE_OPTION_TEXT;
    option.text = value.c_str();
    options_.push_back(option);
  }
  current_function().store(kDlopen, std::memory_order_relaxed);
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  current_function().store(kNoFunction, std::memory_order_relaxed);
  if (handle_ == nullptr) {
    const char* reason = ::dlerror();
    fail(text("dlopen failed: ", reason == nullptr ? "no reason given" : reason));
  }
  entry_ = reinterpret_cast<yoke_plugin_entry_fn>(::dlsym(handle_, YOKE_PLUGIN_ENTRY_SYMBOL));
  check(entry_ != nullptr, "the file does not export " YOKE_PLUGIN_ENTRY_SYMBOL);
}

Plugin::Plugin(const Library& library) : host_(std::make_unique<Host>()) {
  enter(library, entry_args(*host_, library));
}

Plugin::Plugin(const Library& library, const yoke_entry_args& args, std::unique_ptr<Host> host)
    : host_(std::move(host)) {
  enter(library, args);
}

void Plugin::enter(const Library& library, const yoke_entry_args& args) {
  expect_ok(call_entry(library, &args, &plugin_), "entering the plugin");
  check(plugin_ != nullptr, "the entry returned OK but left its out-parameter NULL");
  check(plugin_->magic == YOKE_PLUGIN_MAGIC && plugin_->prefix_size >= sizeof(yoke_plugin),
        "yoke_plugin does not start with YOKE_PLUGIN_MAGIC and a prefix_size of at least ",
        sizeof(yoke_plugin));
  check(plugin_->destroy != nullptr && plugin_->get_table != nullptr,
        "destroy or get_table of yoke_plugin is NULL");
  read_table<yoke_backend_api>();
  read_table<yoke_stream_api>();
  read_table<yoke_program_api>();
  read_table<yoke_peer_api>();
  read_table<yoke_fault_api>();
  read_table<yoke_memory_api>();
  read_table<yoke_collectives_api>();
  read_table<yoke_profile_api>();
  check(has_table<yoke_backend_api>(), "the plugin does not have the required table " YOKE_BACKEND_TABLE);
}

void Plugin::leave() {
  destroy_plugin(std::exchange(plugin_, nullptr));
  const std::vector<std::string> faults = host_->faults();
  check(faults.empty(), faults.empty() ? "" : faults[0]);
  check_equal(host_->allocations_alive(), 0U,
              "the number of host allocations that the plugin did not free before destroy returned");
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

Answer Plugin::device_describe(std::uint32_t ordinal, yoke_device_info* info) const {
  return call<&yoke_backend_api::device_describe>(plugin_, ordinal, info);
}

Answer Plugin::device_open(std::uint32_t ordinal, std::span<const yoke_option> options,
                           yoke_device** out) const {
  const yoke_device_args args = device_args(ordinal, options);
  return call<&yoke_backend_api::device_open>(plugin_, &args, out);
}

Answer Plugin::device_close(yoke_device* device) const {
  return call<&yoke_backend_api::device_close>(device);
}

Answer Plugin::buffer_create(yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out) const {
  const yoke_buffer_args args = buffer_args(byte_count, kind);
  return call<&yoke_backend_api::buffer_create>(device, &args, out);
}

Answer Plugin::from_host(yoke_stream* stream, yoke_buffer* target, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count, std::int32_t* out_source) const {
  return call<&yoke_backend_api::from_host>(stream, target, offset, source, byte_count, out_source);
}

Answer Plugin::to_host(yoke_stream* stream, yoke_buffer* source, std::uint64_t offset, void* target,
                       std::uint64_t byte_count) const {
  return call<&yoke_backend_api::to_host>(stream, source, offset, target, byte_count);
}

Answer Plugin::device_to_device(yoke_stream* stream, yoke_buffer* target, std::uint64_t target_offset,
                                yoke_buffer* source, std::uint64_t source_offset,
                                std::uint64_t byte_count) const {
  return call<&yoke_backend_api::device_to_device>(stream, target, target_offset, source, source_offset,
                                                   byte_count);
}

Answer Plugin::fill(yoke_stream* stream, yoke_buffer* target, std::uint64_t offset, std::uint64_t byte_count,
                    const void* pattern, std::uint32_t pattern_byte_count) const {
  return call<&yoke_backend_api::fill>(stream, target, offset, byte_count, pattern, pattern_byte_count);
}

Answer Plugin::stream_create(yoke_device* device, std::int32_t priority, yoke_stream** out) const {
  yoke_stream_args args = sized<yoke_stream_args>();
  args.priority = priority;
  return call<&yoke_stream_api::stream_create>(device, &args, out);
}

Answer Plugin::event_record(yoke_stream* stream, yoke_event** out, std::uint64_t flags) const {
  yoke_event_args args = sized<yoke_event_args>();
  args.flags = flags;
  return call<&yoke_stream_api::event_record>(stream, &args, out);
}

Answer Plugin::can_compile(yoke_device* device, const yoke_compile_args& args,
                           std::span<yoke_verdict> verdicts, std::uint32_t* out_count) const {
  return call<&yoke_program_api::can_compile>(
      device, &args, count_of(verdicts), std::uint64_t{sizeof(yoke_verdict)}, verdicts.data(), out_count);
}

Answer Plugin::code_compile(yoke_device* device, const yoke_compile_args& args, yoke_code** out) const {
  return call<&yoke_program_api::code_compile>(device, &args, out);
}

Answer Plugin::routine_link(yoke_code* code, std::uint32_t entry, std::span<const yoke_binding> bindings,
                            const yoke_binding& workspace, yoke_routine** out) const {
  const yoke_link_args args = link_args(entry, bindings, workspace);
  return call<&yoke_program_api::routine_link>(code, &args, out);
}

Answer Plugin::routine_launch(yoke_stream* stream, yoke_routine* routine,
                              std::span<const std::int64_t> symbols) const {
  return call<&yoke_program_api::routine_launch>(stream, routine, symbols.data(), count_of(symbols));
}

yoke_live_counts Plugin::live_counts() const {
  yoke_live_counts counts = sized<yoke_live_counts>();
  expect_ok(call<&yoke_backend_api::live_counts>(plugin_, &counts), "querying the live counts");
  return counts;
}

std::uint32_t Plugin::device_count() const {
  std::uint32_t count = 0;
  expect_ok(
      call<&yoke_backend_api::device_count>(plugin_, &count, static_cast<char*>(nullptr), std::uint64_t{0}),
      "counting the devices");
  return count;
}

std::uint32_t Plugin::some_devices() const {
  std::uint32_t count = 0;
  char reason[YOKE_REASON_CAPACITY] = "";
  expect_ok(call<&yoke_backend_api::device_count>(plugin_, &count, &reason[0], std::uint64_t{sizeof reason}),
            "counting the devices");
  if (count == 0) {
    unsupported(std::string("the plugin has no devices: ") +
                (reason[0] == 0 ? "it does not say why" : reason));
  }
  return count;
}

std::vector<yoke_option_spec> Plugin::option_specs(std::optional<std::int32_t> scope) const {
  if (!has<&yoke_backend_api::option_specs>()) {
    return {};
  }
  std::uint32_t count = 0;
  expect_ok(call<&yoke_backend_api::option_specs>(plugin_, 0U, std::uint64_t{sizeof(yoke_option_spec)},
                                                  static_cast<yoke_option_spec*>(nullptr), &count),
            "counting the options");
  check(count < 100000, "option_specs counts ", count, " options");
  std::vector<yoke_option_spec> specs(count);
  expect_ok(call<&yoke_backend_api::option_specs>(plugin_, count, std::uint64_t{sizeof(yoke_option_spec)},
                                                  specs.data(), &count),
            "listing the options");
  check_equal(count, specs.size(), "the number of options in a second call of option_specs");
  std::erase_if(specs, [&](const yoke_option_spec& spec) { return scope && spec.scope != *scope; });
  return specs;
}

}  // namespace yoke::conformance
