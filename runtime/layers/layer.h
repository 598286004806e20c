// SPDX-License-Identifier: Apache-2.0
// runtime/layers/layer.h: a layer is a set of hooks, which an Interposer calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "layers/call.h"

namespace yoke::layers {

class Ledger;
class TraceWriter;

class Layer {
 public:
  Layer() = default;
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Calls of the host to functions of the tables. If before() returns false, the call does not reach the
  // plugin; `call.code` and its status object have the reason.
  virtual bool before(Call& /*call*/) { return true; }
  virtual void issuing(const Call& /*call*/) {}  // the last hook before the plugin is called
  virtual void after(Call& /*call*/) {}
  // The call does not reach the plugin, because a handle is invalid or the plugin is destroyed.
  virtual void refused(const Call& /*call*/, std::size_t /*argument*/, const std::string& /*why*/) {}
  // A call told the host that the stream's work up to stream.completed has ended; `ok` if it succeeded.
  // Precondition: stream.mutex is held.
  virtual void completed(Object& /*stream*/, bool /*ok*/) {}

  // The entry, get_table (with the id of the table) and destroy.
  virtual void calling(const char* /*call*/, const char* /*id*/) {}
  virtual void entered(std::int32_t /*code*/, const ErrorSlot& /*status*/) {}
  virtual void table_returned() {}
  virtual void threw(const char* /*call*/, const char* /*what*/) {}
  // The last call of the plugin has ended: destroy returned, or the entry failed.
  virtual void ended() {}
  // The host or the plugin called the other side after ended().
  virtual void called_late(const char* /*call*/) {}

  // Calls of the plugin to its host. If a hook returns false, the call does not reach the host.
  virtual bool logging(std::int32_t /*level*/, const char* /*text*/, std::uint64_t /*length*/) {
    return true;
  }
  // `is_valid` if the slot is open and belongs to this thread.
  virtual void error_setting(const ErrorSlot& /*slot*/, bool /*is_valid*/) {}
  virtual void span_begin(const char* /*name*/) {}
  virtual void span_end() {}
  virtual void allocated(void* /*memory*/) {}
  virtual bool deallocating(void* /*memory*/) { return true; }
};

std::unique_ptr<Layer> make_validate_layer(const Interposer& plugin, std::shared_ptr<Ledger> ledger);
std::unique_ptr<Layer> make_trace_layer(const Interposer& plugin, std::shared_ptr<TraceWriter> writer);

}  // namespace yoke::layers
