// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/lifetime.cpp: destroying objects in every order that
// the ABI allows, use after destroy, and forks.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <thread>

#include "groups.h"
#include "scenario.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// A live object, its member of yoke_live_counts, and the function that destroys it.
struct Object {
  std::string name;
  std::uint64_t yoke_live_counts::*kind;
  std::function<void()> destroy;
};

// The objects of one round. `after[i]` lists the objects that must be destroyed before object i.
struct Graph {
  std::vector<Object> objects;
  std::vector<std::vector<std::size_t>> after;
};

bool allowed(const Graph& graph, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
  }
  for (std::size_t object = 0; object < graph.after.size(); ++object) {
    for (const std::size_t earlier : graph.after[object]) {
      if (place[earlier] > place[object]) {
        return false;
      }
    }
  }
  return true;
}

// Destroys the objects in this order. The device must stay open until the last one, and
// live_counts must be correct after each one.
void destroy_in_order(const Device& device, const Graph& graph, const std::vector<std::size_t>& order) {
  const Plugin& plugin = device.plugin();
  std::string destroyed;
  for (const std::size_t i : order) {
    const Object& object = graph.objects[i];
    expect_code(plugin.device_close(device.get()), YOKE_STATUS_FAILED_PRECONDITION,
                "closing a device before " + object.name +
                    " was destroyed (destroyed so far: " + (destroyed.empty() ? "nothing" : destroyed) + ")");
    const std::uint64_t before = plugin.live_counts().*object.kind;
    object.destroy();
    destroyed += (destroyed.empty() ? "" : ", ") + object.name;
    check_equal(plugin.live_counts().*object.kind, before - 1,
                "the number of live objects of that kind after destroying ", destroyed);
  }
}

std::vector<std::vector<std::size_t>> allowed_orders(const Graph& graph) {
  std::vector<std::vector<std::size_t>> orders;
  std::vector<std::size_t> order(graph.objects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    if (allowed(graph, order)) {
      orders.push_back(order);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

// Destroys the objects of `make` in every allowed order; each order gets new objects.
void every_order(Kit& kit, const std::function<Graph(Device&)>& make) {
  kit.device();
  std::vector<std::vector<std::size_t>> orders(1);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    Device device = another_handle(kit);
    const Graph graph = make(device);
    if (i == 0) {
      orders = allowed_orders(graph);
    }
    destroy_in_order(device, graph, orders[i]);
    kit.progress(text(i + 1, " of ", orders.size(), " orders"));
  }
  kit.note(text(orders.size(), " orders of ", orders[0].size(), " objects"));
}

template <class T>
std::shared_ptr<T> shared(T value) {
  return std::make_shared<T>(std::move(value));
}

Graph memory_graph(Device& device) {
  Graph graph;
  for (const std::uint64_t byte_count : {0U, 100U, 5000U, 1U << 20U}) {
    const auto buffer = shared(Buffer(device, byte_count));
    graph.objects.push_back(
        {text("a ", byte_count, "-byte buffer"), &yoke_live_counts::buffers, [buffer] { buffer->reset(); }});
  }
  graph.after.resize(graph.objects.size());
  return graph;
}

// Two streams without pending work, an event of each, and a buffer that they used.
Graph stream_graph(Device& device) {
  Graph graph;
  const auto buffer = shared(Buffer(device, 1000));
  const auto first = std::make_shared<std::optional<Stream>>(std::in_place, device);
  const auto second = std::make_shared<std::optional<Stream>>(std::in_place, device);
  (*first)->write(*buffer, 0, Bytes(1000));
  const auto one = shared((*first)->record());
  (*second)->wait_for(*one);
  const auto two = shared((*second)->record());
  (*first)->synchronize();
  (*second)->synchronize();
  graph.objects = {{"the buffer", &yoke_live_counts::buffers, [buffer] { buffer->reset(); }},
                   {"the first stream", &yoke_live_counts::streams, [first] { first->reset(); }},
                   {"the second stream", &yoke_live_counts::streams, [second] { second->reset(); }},
                   {"the first event", &yoke_live_counts::events, [one] { one->reset(); }},
                   {"the second event", &yoke_live_counts::events, [two] { two->reset(); }}};
  graph.after.resize(graph.objects.size());
  return graph;
}

// Code may be destroyed before its routines. A routine borrows its buffers until routine_destroy.
Graph routine_graph(Device& device) {
  Graph graph;
  const auto code = shared(compile(device, SmallProgram(device).text()));
  const auto add = std::make_shared<SmallRun>(device, *code);
  add->launch();
  graph.objects = {{"the routine", &yoke_live_counts::routines, [add] { add->routine.reset(); }},
                   {"the code", &yoke_live_counts::codes, [code] { code->reset(); }},
                   {"buffer x", &yoke_live_counts::buffers, [add] { add->x.reset(); }},
                   {"buffer y", &yoke_live_counts::buffers, [add] { add->y.reset(); }},
                   {"the workspace", &yoke_live_counts::buffers, [add] { add->workspace.reset(); }}};
  graph.after = {{}, {}, {0}, {0}, {0}};
  return graph;
}

void memory_orders(Kit& kit) {
  every_order(kit, memory_graph);
}
void stream_orders(Kit& kit) {
  kit.plugin().table<yoke_stream_api>();
  every_order(kit, stream_graph);
}
void routine_orders(Kit& kit) {
  const SmallProgram check_that_one_runs(kit.device());
  every_order(kit, routine_graph);
}

void destroy_null(Kit& kit) {
  Plugin& plugin = kit.plugin();
  plugin.call<&yoke_backend_api::buffer_destroy>(static_cast<yoke_buffer*>(nullptr));
  expect_ok(plugin.device_close(nullptr), "closing NULL");
  if (plugin.has_table<yoke_stream_api>()) {
    plugin.call<&yoke_stream_api::stream_destroy>(static_cast<yoke_stream*>(nullptr));
    plugin.call<&yoke_stream_api::event_destroy>(static_cast<yoke_event*>(nullptr));
  }
  if (plugin.has_table<yoke_program_api>()) {
    plugin.call<&yoke_program_api::code_destroy>(static_cast<yoke_code*>(nullptr));
    plugin.call<&yoke_program_api::routine_destroy>(static_cast<yoke_routine*>(nullptr));
  }
  plugin.get()->destroy(nullptr);
  check_nothing_alive(plugin, "after destroying NULL");
  if (plugin.has_table<yoke_memory_api>() && plugin.device_count() > kit.settings().device) {
    plugin.call<&yoke_memory_api::pinned_free>(kit.device().get(), static_cast<void*>(nullptr));
  }
}

// Enters a new instance of the plugin, uses it, and destroys it.
void use_once(Kit& kit) {
  Plugin plugin(kit.library());
  const std::optional<Answer> refused = play_scenario(kit, plugin);
  check(!refused, "a valid call failed: ", refused ? refused->words() : "");
  check_nothing_alive(plugin, "after every object was destroyed");
  plugin.leave();
}

// The first use may start threads that stay; the uses after it must not add any.
void threads_end(Kit& kit) {
  kit.device();
  use_once(kit);
  const std::size_t once = thread_count();
  constexpr int kRounds = 60;
  for (int i = 0; i < kRounds; ++i) {
    kit.progress(text("round ", i, " of ", kRounds));
    use_once(kit);
  }
  const std::size_t soon = wait_for_threads(once + kRounds / 2, 100);
  check(soon <= once + kRounds / 2, "the threads of devices that are closed still run: ", once,
        " after the first use, ", soon, " after ", kRounds, " more");
  const std::size_t now = wait_for_threads(once, 1000);
  check(now <= once, "the plugin leaves threads running: ", once, " after the first use, ", now, " after ",
        kRounds, " more");
}

// Makes calls that must fail in a forked child. Returns the results of those that did not.
std::string wrong_results_in_child(const Plugin& plugin, yoke_device* device, yoke_buffer* buffer,
                                   yoke_stream* stream, const std::optional<SmallProgram>& program) {
  std::string wrong;
  const auto note = [&](const Answer& answer) {
    if (answer.code != YOKE_STATUS_FAILED_PRECONDITION || answer.status.text.empty()) {
      wrong += answer.words() + "; ";
    }
  };
  std::array<std::byte, 16> host{};
  std::uint32_t count = 0;
  yoke_buffer* raw_buffer = nullptr;
  yoke_device* raw_device = nullptr;
  yoke_buffer_info info = sized<yoke_buffer_info>();
  note(plugin.call<&yoke_backend_api::device_count>(plugin.get(), &count, static_cast<char*>(nullptr),
                                                    std::uint64_t{0}));
  note(plugin.device_open(0, {}, &raw_device));
  note(plugin.buffer_create(device, 64, YOKE_MEMORY_DEVICE, &raw_buffer));
  note(plugin.call<&yoke_backend_api::buffer_describe>(buffer, &info));
  note(plugin.from_host(nullptr, buffer, 0, host.data(), 16, nullptr));
  note(plugin.to_host(nullptr, buffer, 0, host.data(), 16));
  if (stream != nullptr) {
    yoke_event* event = nullptr;
    note(plugin.call<&yoke_stream_api::stream_wait>(stream, longest_wait_ns()));
    note(plugin.event_record(stream, &event));
  }
  if (program) {
    yoke_code* code = nullptr;
    note(plugin.code_compile(device, program_text(program->text()), &code));
  }
  plugin.call<&yoke_backend_api::buffer_destroy>(buffer);
  note(plugin.device_close(device));
  return wrong;
}

// The driver may have threads from the first device_count on.
void forked_after_count(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  plugin.some_devices();
  const std::string wrong = in_child([&] {
    yoke_device* raw = nullptr;
    const Answer answer = plugin.device_open(kit.settings().device, {}, &raw);
    return answer.code == YOKE_STATUS_FAILED_PRECONDITION ? std::string() : answer.words();
  });
  check(wrong.empty(),
        "device_open in a child that was forked after the first device_count must fail with "
        "FAILED_PRECONDITION: ",
        wrong);
}

void forked_child(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 64);
  const Bytes sent = kit.random().bytes(64);
  buffer.write(0, sent);
  const std::optional<Stream> stream = stream_if_any(device);
  const std::optional<SmallProgram> program = SmallProgram::if_any(device);
  const std::string wrong = in_child(
      [&] { return wrong_results_in_child(plugin, device.get(), buffer.get(), raw_of(stream), program); });
  check(wrong.empty(),
        "calls in a child that was forked after device_open must fail with FAILED_PRECONDITION and a text: ",
        wrong);
  check(buffer.contents() == sent, "a forked child changed the contents of a buffer");
  check_equal(plugin.live_counts().buffers, 1U, "the number of live buffers after a forked child ended");
}

// The plugin borrows the host's table until destroy returns.
void host_after_destroy(Kit& kit) {
  const std::size_t threads = thread_count();
  auto owned = std::make_unique<Host>();
  const Host& host = *owned;  // owned by `plugin`
  const yoke_entry_args args = entry_args(*owned, kit.library());
  Plugin plugin(kit.library(), args, std::move(owned));
  use_and_leave(kit, plugin);
  const std::vector<std::string> before = host.lines();
  const std::uint64_t allocations = host.allocations_made();
  wait_for_threads(threads, 200);  // which could still call the host
  const std::vector<std::string> after = host.lines();
  check(after.size() == before.size(), "the plugin logged after destroy had returned: '",
        after.empty() ? "" : after.back(), "'");
  check_equal(host.allocations_made(), allocations,
              "the number of host allocations after destroy had returned");
  check(host.faults().empty(), "after destroy had returned: ", host.faults().empty() ? "" : host.faults()[0]);
}

}  // namespace

std::vector<Test> lifetime_tests() {
  return {
      {"destroy-null", "every destroy function accepts NULL", {14}, destroy_null},
      {"memory-orders",
       "buffers can be destroyed in every order; each keeps its device open and is counted",
       {14},
       memory_orders},
      {"stream-orders", "streams, events and buffers can be destroyed in every order", {14}, stream_orders},
      {"routine-orders",
       "code, routines and buffers can be destroyed in every allowed order",
       {14},
       routine_orders},
      {"threads-end",
       "a plugin can be entered, used and destroyed many times without a leak and without more threads",
       {14, 22, 35},
       threads_end,
       2},
      {"forked-after-count",
       "device_open fails in a child that was forked after the first device_count",
       {23, 47},
       forked_after_count},
      {"forked-child",
       "calls in a forked child fail with FAILED_PRECONDITION, and the parent's objects stay usable",
       {23},
       forked_child},
      {"host-after-destroy",
       "the plugin calls no host function after destroy has returned",
       {22, 35},
       host_after_destroy},
  };
}

}  // namespace yoke::conformance
