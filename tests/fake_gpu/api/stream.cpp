// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/stream.cpp: streams, events, host functions, captures and graphs.
#include <utility>

#include "context.h"

namespace fake_gpu {
namespace {

std::shared_ptr<Recording> recording_of(Event& event) {
  const std::scoped_lock lock(event.mutex);
  if (event.captured) {
    complain("an event that a capture recorded is used outside the graph");
    throw Error{kInvalidHandle};
  }
  return event.recording;
}

// A function about a stream; it also works when the context of another device is current.
template <class Body>
int run_on_stream(const char* name, void* handle, const Body& body) {
  const int code = run(name, [&] {
    require_driver(name);
    require_context();
    const auto stream = stream_of(handle);
    body(*stream);
    throw_sticky(stream->device);
  });
  if (is_sticky(code)) {  // injected, or already known
    (void)run("", [&] { device_at(stream_of(handle)->device).error = code; });
  }
  return code;
}

// As run_on_stream, for a call that no stream captures.
template <class Body>
int run_on_event(const char* name, void* handle, const Body& body) {
  const int code = run(name, [&] {
    require_driver(name);
    require_context();
    refuse_during_capture(name);
    const auto event = events().get(handle);
    body(*event);
    throw_sticky(event->device);
  });
  if (is_sticky(code)) {
    (void)run("", [&] { device_at(events().get(handle)->device).error = code; });
  }
  return code;
}

}  // namespace

int fake_stream_create(void** handle, unsigned flags, int) {
  return run_on_device("stream_create", [&](int device) {
    if (flags > 1) {
      throw Error{kInvalidValue};
    }
    *handle = streams().add(std::make_shared<Stream>(device));
  });
}

int fake_stream_priorities(int* least, int* greatest) {
  return run_on_device("stream_priorities", [&](int) {
    *least = kHip ? 1 : 0;
    *greatest = kHip ? -1 : -5;
  });
}

int fake_stream_destroy(void* handle) {
  return run_to_free("stream_destroy", [&] {
    const auto stream = streams().remove(handle);
    if (stream->is_capturing()) {
      complain("a stream is destroyed while it is capturing");
    }
  });
}

int fake_stream_query(void* handle) {
  return run_on_stream("stream_query", handle, [&](Stream& stream) {
    stream.refuse_capture("stream_query");
    refuse_during_capture("stream_query");
    throw_sticky(stream.device);
    if (!stream.is_idle()) {
      throw Error{kNotReady};
    }
  });
}

int fake_stream_synchronize(void* handle) {
  return run_on_stream("stream_synchronize", handle, [&](Stream& stream) {
    stream.refuse_capture("stream_synchronize");
    refuse_during_capture("stream_synchronize");
    stream.wait();
  });
}

int fake_stream_wait_event(void* handle, void* event_handle, unsigned flags) {
  return run_on_stream("stream_wait_event", handle, [&](Stream& stream) {
    throw_sticky(stream.device);
    stream.refuse_capture("stream_wait_event");  // joining captures is not modeled
    const auto recording = recording_of(*events().get(event_handle));
    if (flags != 0) {
      throw Error{kInvalidValue};
    }
    if (recording != nullptr) {  // waiting for an event that was never recorded is allowed
      stream.push({.run = [=] { recording->wait(); }, .also_when_lost = true});
    }
  });
}

int fake_event_create(void** handle, unsigned flags) {
  return run_on_device("event_create", [&](int device) {
    if (flags > 3) {
      throw Error{kInvalidValue};
    }
    auto event = std::make_shared<Event>();
    event->device = device;
    event->timing = (flags & 2) == 0;
    *handle = events().add(std::move(event));
  });
}

int fake_event_record(void* handle, void* stream_handle) {
  return run_on_stream("event_record", stream_handle, [&](Stream& stream) {
    throw_sticky(stream.device);
    const auto event = events().get(handle);
    if (event->device != stream.device) {
      complain("an event is recorded on a stream of another device");
      throw Error{kInvalidHandle};
    }
    auto recording = std::make_shared<Recording>();
    const bool captured = stream.is_capturing();
    {
      const std::scoped_lock lock(event->mutex);
      event->recording = recording;
      event->captured = captured;
    }
    if (!captured) {
      stream.push({.run = [=] { recording->finish(); }, .also_when_lost = true});
    }
  });
}

int fake_event_query(void* handle) {
  return run_on_event("event_query", handle, [](Event& event) {
    { const std::scoped_lock served(driver_lock()); }
    const auto recording = recording_of(event);
    throw_sticky(event.device);
    if (recording != nullptr && !recording->is_done()) {
      throw Error{kNotReady};
    }
  });
}

int fake_event_synchronize(void* handle) {
  return run_on_event("event_synchronize", handle, [](Event& event) {
    if (const auto recording = recording_of(event)) {
      recording->wait();
    }
  });
}

int fake_event_destroy(void* handle) {
  return run_to_free("event_destroy", [&] { events().remove(handle); });
}

int fake_event_elapsed(float* milliseconds, void* start, void* stop) {
  return run_on_event("event_elapsed", stop, [&](Event& last) {
    const auto first = events().get(start);
    const auto began = recording_of(*first);
    const auto ended = recording_of(last);
    if (!first->timing || !last.timing || began == nullptr || ended == nullptr ||
        first->device != last.device) {
      complain("event_elapsed: an event was never recorded, has no timing or is of another device");
      throw Error{kInvalidHandle};
    }
    if (!began->is_done() || !ended->is_done()) {
      throw Error{kNotReady};
    }
    *milliseconds = std::chrono::duration<float, std::milli>(ended->time - began->time).count();
  });
}

#ifdef FAKE_GPU_HIP
int fake_host_function(void* handle, Callback callback, void* data, unsigned flags) {
#else
int fake_host_function(void* handle, Callback callback, void* data) {
#endif
  return run_on_stream("host_function", handle, [&](Stream& stream) {
    throw_sticky(stream.device);
    stream.refuse_capture("host_function");  // yoke's callbacks run once
#ifdef FAKE_GPU_HIP
    if (flags != 0) {
      throw Error{kInvalidValue};
    }
    const auto call = [=, device = stream.device] { callback(handle, device_at(device).error, data); };
#else
    const auto call = [=] { callback(data); };
#endif
    // CUDA calls no host function on a lost device.
    stream.push({.run =
                     [=] {
                       // The drivers call the host functions of all streams on one thread.
                       static auto* const one_at_a_time = new std::mutex;
                       const std::scoped_lock lock(*one_at_a_time);
                       in_host_function() = true;
                       call();
                       in_host_function() = false;
                     },
                 .also_when_lost = kHip});
  });
}

int fake_capture_begin(void* handle, int mode) {
  return run_on_stream("capture_begin", handle, [&](Stream& stream) {
    throw_sticky(stream.device);
    if (mode < 0 || mode > 2) {
      throw Error{kInvalidValue};
    }
    stream.begin_capture(static_cast<CaptureMode>(mode));
  });
}

int fake_capture_end(void* handle, void** graph) {
  // The capture ends also if the failure is injected.
  std::shared_ptr<Graph> captured;
  const int code =
      run_on_stream("capture_end", handle, [&](Stream& stream) { captured = stream.end_capture(); });
  if (code != 0) {
    if (captured == nullptr) {
      (void)run("", [&] {
        if (const auto stream = streams().get(handle); stream->is_capturing()) {
          stream->end_capture();
        }
      });
    }
    return code;
  }
  *graph = graphs().add(std::move(captured));
  return 0;
}

int fake_graph_instantiate(void** executable, void* graph, unsigned long long flags) {
  return run_on_device("graph_instantiate", [&](int) {
    if (flags != 0) {
      complain("flags of graph_instantiate are not modeled");
      throw Error{kInvalidValue};
    }
    auto result = std::make_shared<Executable>();
    result->graph = graphs().get(graph);
    result->device = result->graph->device;
    *executable = executables().add(std::move(result));
  });
}

int fake_graph_launch(void* handle, void* stream_handle) {
  return run_on_stream("graph_launch", stream_handle, [&](Stream& stream) {
    throw_sticky(stream.device);
    stream.refuse_capture("graph_launch");
    const auto executable = executables().get(handle);
    if (executable->device != stream.device) {
      complain("a graph is launched on a stream of another device");
      throw Error{kInvalidHandle};
    }
    std::vector<Range> ranges;
    for (const Work& node : executable->graph->nodes) {
      ranges.insert(ranges.end(), node.ranges.begin(), node.ranges.end());
    }
    const auto run_nodes = [executable] {
      const std::scoped_lock lock(executable->runs);
      for (const Work& node : executable->graph->nodes) {
        if (const int code = count_call(node.name); code != 0) {
          device_at(executable->device).error = is_sticky(code) ? code : kLaunchFailed;
          return;
        }
        node.run();
      }
    };
    stream.push({.run = run_nodes, .ranges = std::move(ranges), .uses = executable});
  });
}

int fake_graph_executable_destroy(void* handle) {
  return run_to_free("graph_executable_destroy", [&] { executables().remove(handle); });
}

int fake_graph_destroy(void* handle) {
  return run_to_free("graph_destroy", [&] { graphs().remove(handle); });
}

}  // namespace fake_gpu
