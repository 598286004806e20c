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

  // Calls of the host to functions of the tables.
  // False: the call is not passed on; `call.code` and its status object have the reason.
  virtual bool before(Call& /*call*/) { return true; }
  virtual void issuing(const Call& /*call*/) {}  // the last hook before the plugin is called
  virtual void after(Call& /*call*/) {}
  // A handle is invalid, or the plugin is destroyed: the call is not passed on.
  virtual void refused(const Call& /*call*/, std::size_t /*argument*/, const std::string& /*why*/) {}
  // The work of the stream up to stream.completed is done, and the host knows it; `ok`: without failure.
  // The caller holds stream.mutex.
  virtual void completed(Object& /*stream*/, bool /*ok*/) {}

  // The entry, get_table (with the id of the table) and destroy.
  virtual void calling(const char* /*call*/, const char* /*id*/) {}
  virtual void entered(std::int32_t /*code*/, const ErrorSlot& /*status*/) {}
  virtual void table_returned() {}
  virtual void threw(const char* /*call*/, const char* /*what*/) {}
  // The plugin is not called any more: destroy has returned, or the entry has failed.
  virtual void ended() {}
  // A call of the host or the plugin after that.
  virtual void called_late(const char* /*call*/) {}

  // Calls of the plugin to its host. False: the call is not passed on.
  virtual bool logging(std::int32_t /*level*/, const char* /*text*/, std::uint64_t /*length*/) {
    return true;
  }
  // `is_valid`: the slot is open, and this is its thread.
  virtual void error_setting(const ErrorSlot& /*slot*/, bool /*is_valid*/) {}
  virtual void span_begin(const char* /*name*/) {}
  virtual void span_end() {}
  virtual void allocated(void* /*memory*/) {}
  virtual bool deallocating(void* /*memory*/) { return true; }
};

std::unique_ptr<Layer> make_validate_layer(const Interposer& plugin, std::shared_ptr<Ledger> ledger);
std::unique_ptr<Layer> make_trace_layer(const Interposer& plugin, std::shared_ptr<TraceWriter> writer);

}  // namespace yoke::layers
