// SPDX-License-Identifier: Apache-2.0
// runtime/layers/layer.h: something between a host and a plugin: to the host it is a plugin, to the plugin a
// host. Wrappers of every function are generated; what a layer does in a call it says in a few hooks.
#pragma once

#include <yoke/plugin.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "layers/functions.h"
#include "layers/handles.h"

namespace yoke::layers {

// What a layer hands down as the status object. Its memory is never freed, so that a plugin that keeps it for
// too long is found out.
struct ErrorSlot {
  std::atomic<bool> is_open{false};
  Layer* layer = nullptr;
  std::thread::id thread;
  const char* call = nullptr;
  yoke_error* outer = nullptr;
  std::uint32_t set_count = 0;
  std::int32_t code = YOKE_OK;
  std::int64_t vendor_code = 0;
  std::string text;

  yoke_error* get() noexcept { return reinterpret_cast<yoke_error*>(this); }
};

// Written before the plugin is called; what it leaves was not answered.
constexpr std::uint64_t kUnwritten = 0x5a5a5a5a5a5a5a50;
constexpr std::byte kCanary{0xa5};
constexpr std::size_t kCanaryByteCount = 64;

// The memory that a plugin writes an info struct, rows or a text to, in place of the host's.
struct Shadow {
  std::vector<std::byte> bytes;   // the host's contents, then canaries
  std::vector<std::byte> before;  // as they were
  std::size_t size = 0;           // without the canaries; 0: the host's memory is used directly
};

// What a layer keeps of a call from `before` to its end.
struct CallNote {
  CallNote() = default;
  virtual ~CallNote() = default;
  CallNote(const CallNote&) = delete;
  CallNote& operator=(const CallNote&) = delete;
};

// One call on its way through a layer.
struct Call {
  Call(Layer& on, const Row& of, const std::uint64_t* given) : layer(on), row(of), words(given) {}
  ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Function function() const { return row.function; }
  std::uint64_t number(std::size_t i) const { return words[i]; }
  template <class T>
  T* pointer(std::size_t i) const {
    return reinterpret_cast<T*>(words[i]);  // NOLINT(performance-no-int-to-ptr): that is what was put in
  }
  // What the plugin wrote; only after the call.
  std::uint64_t out(std::size_t i) const;
  bool wrote(std::size_t i) const;
  bool is_ok() const { return code == YOKE_OK; }
  bool has_result() const { return row.arguments[row.argument_count - 1].kind == Kind::kStatus; }

  Layer& layer;
  const Row& row;
  const std::uint64_t* words;  // as the host gave them
  std::array<std::uint64_t, kMostArguments> passed{};
  std::array<std::uint64_t, kMostArguments> outs{};
  std::array<std::shared_ptr<Object>, kMostArguments> objects;  // of the handles among the arguments
  std::array<Shadow, kMostArguments> shadows;
  std::vector<yoke_binding> bindings;
  std::vector<std::shared_ptr<Object>> bound;  // the buffers of `bindings`
  std::shared_ptr<Object> made;
  ErrorSlot* status = nullptr;
  std::int32_t code = YOKE_OK;
  std::uint64_t begin_ns = 0;  // steady clock
  std::uint64_t end_ns = 0;
  std::uint64_t issued_before = 0;  // of the stream that is waited for
  std::uint64_t ticket = 0;         // of the work that it queued; 0: none
  std::unique_ptr<CallNote> note;
};

// `issue` calls the plugin's function with words as its arguments.
using Slot = void (*)();
using Issue = std::int32_t (*)(Slot function, const std::uint64_t* words);

class Layer : public std::enable_shared_from_this<Layer> {
 public:
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Enters the plugin below through `layer`; as the entry itself.
  static std::int32_t enter(const std::shared_ptr<Layer>& layer, const class Chain& below,
                            const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error);

  // One call of the host, whichever layer it belongs to.
  static std::int32_t run(Function function, const std::uint64_t* words, Issue issue) noexcept;

  const std::string& backend() const noexcept { return backend_; }
  const std::string& version() const noexcept { return version_; }  // the plugin's; empty: unknown
  yoke_plugin* inner() const noexcept { return inner_; }
  bool is_destroyed() const noexcept { return destroyed_.load(); }

  // What the plugin calls. Defined in host_side.cpp.
  void host_log(std::int32_t level, const char* text, std::uint64_t length) noexcept;
  void host_trace_begin(const char* name) noexcept;
  void host_trace_end() noexcept;
  void* host_allocate(std::uint64_t byte_count, std::uint64_t alignment) noexcept;
  void host_deallocate(void* memory) noexcept;
  static void host_error_set(yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
                             std::uint64_t length) noexcept;
  // What the host calls besides tables.
  void destroy();
  const void* get_table(const char* id);

 protected:
  Layer();

  virtual std::shared_ptr<Object> make_object(Kind kind);
  virtual void entering() {}
  virtual void entered(std::int32_t /*code*/, const ErrorSlot& /*status*/) {}
  virtual void table_asked(const char* /*id*/) {}
  // `bytes`: of the table; none: there is none, or it is broken.
  virtual void table_given(const char* /*id*/, const void* /*table*/,
                           const std::vector<std::byte>& /*bytes*/) {}
  virtual void threw(const char* /*call*/, const char* /*what*/) {}  // rule 13
  virtual void destroying() {}
  virtual void destroyed() {}
  // A handle that is none of this plugin's, or not alive. The call is not passed on.
  virtual void refused_handle(const Call& /*call*/, std::size_t /*argument*/, const std::string& /*what*/) {}
  // A call of a forked child. No lock may be waited for.
  virtual void refused_child(const char* /*call*/, const char* /*what*/) {}
  // False: not passed on; `call.code` and the status object say why.
  virtual bool before(Call& /*call*/) { return true; }
  virtual void issuing(const Call& /*call*/) {}  // nothing comes between this and the plugin
  virtual void after(Call& /*call*/) {}
  // Work up to stream.completed is known to be done; stream.mutex is held. Not `ok`: the stream failed.
  virtual void completed(Object& /*stream*/, bool /*ok*/) {}
  // The plugin's side. False: not passed on.
  virtual bool logging(std::int32_t /*level*/, const char* /*text*/, std::uint64_t /*length*/) {
    return true;
  }
  virtual void error_setting(ErrorSlot& /*slot*/, const char* /*text*/, std::uint64_t /*length*/,
                             bool /*in_time*/) {}
  virtual void span_begin(const char* /*name*/) {}
  virtual void span_end() {}
  virtual void allocated(void* /*memory*/, std::uint64_t /*byte_count*/, std::uint64_t /*alignment*/) {}
  virtual bool deallocating(void* /*memory*/) { return true; }
  virtual void late_callback(const char* /*what*/) {}

  // Answers a call that is not passed on.
  static void answer(Call& call, std::int32_t code, const std::string& text);
  // Calls one of the plugin's own functions, outside of any call of the host.
  Slot slot(Function function) const noexcept { return slots_[static_cast<std::size_t>(function)]; }
  const yoke_host_api& outer_host() const noexcept { return outer_; }

 private:
  struct Tables;

  static std::int32_t answer_child(const Row& row, const std::uint64_t* words);
  std::int32_t run_on(Call& call, Issue issue);
  bool find_objects(Call& call);
  bool find_object_of(Call& call, std::size_t i, std::uint64_t word, std::shared_ptr<Object>& out);
  void pass(Call& call);
  void pass_shadow(Call& call, std::size_t i);
  void take_results(Call& call);
  void note_progress(Call& call);
  static void give_results(const Call& call);
  yoke_plugin* adopt(yoke_plugin* inner);
  void note_thrown(const char* call) noexcept;
  void count_devices(std::int64_t change) noexcept;
  void retire() noexcept;

  yoke_plugin prefix_{};   // what the host gets
  yoke_host_api host_{};   // what the plugin gets
  yoke_host_api outer_{};  // what the host gave; all NULL once destroyed
  yoke_plugin* inner_ = nullptr;
  std::string backend_ = "?";
  std::string version_;
  std::atomic<bool> destroyed_{false};
  std::atomic<std::uint64_t> handle_count_{0};
  std::atomic<std::int64_t> device_count_{0};  // open
  std::array<Slot, kFunctionCount> slots_{};
  std::mutex tables_mutex_;  // of what follows, until the table was given out
  std::unique_ptr<Tables> tables_;
};

// What a layer enters: the layers below it, then the plugin.
class Chain {
 public:
  Chain(const std::vector<std::shared_ptr<Layer>>& layers, std::size_t next, yoke_plugin_entry_fn entry)
      : layers_(layers), next_(next), entry_(entry) {}
  std::int32_t enter(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) const {
    return next_ == layers_.size()
               ? entry_(args, out_plugin, error)
               : Layer::enter(layers_[next_], Chain(layers_, next_ + 1, entry_), args, out_plugin, error);
  }

 private:
  const std::vector<std::shared_ptr<Layer>>& layers_;
  std::size_t next_;
  yoke_plugin_entry_fn entry_;
};

std::uint64_t now_ns() noexcept;             // steady clock
const Layer* layer_calling_back() noexcept;  // whose plugin this thread is in a host function for; or null

// The functions of every table as layers give them out, in the order of Function (wrappers.cpp).
std::array<Slot, kFunctionCount> wrappers() noexcept;
// What calls a function of each type with words.
std::array<Issue, kFunctionCount> issuers() noexcept;

}  // namespace yoke::layers
