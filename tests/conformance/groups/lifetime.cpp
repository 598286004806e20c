// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/lifetime.cpp: objects destroyed in every order that the ownership words allow, and
// forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <numeric>
#include <thread>

#include "basic_use.h"
#include "groups.h"
#include "scenario.h"

namespace yoke::conformance {
namespace {

using Bytes = std::vector<std::byte>;

// Something alive: its kind as live_counts counts it, and what ends it.
struct Object {
  std::string name;
  std::uint64_t yoke_live_counts::*kind;
  std::function<void()> destroy;
};

// The objects of one round, made anew for each order. `after` names, per object, those that must go before
// it.
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

// Destroys the graph's objects in this order; the device stays open until the last, and each is counted.
void destroy_in_order(const Device& device, const Graph& graph, const std::vector<std::size_t>& order) {
  const Plugin& plugin = device.plugin();
  std::string text_of_order;
  for (const std::size_t i : order) {
    const Object& object = graph.objects[i];
    text_of_order += (text_of_order.empty() ? "" : ", ") + object.name;
    expect_code(plugin.call<&yoke_backend_api::device_close>(device.get()), YOKE_FAILED_PRECONDITION,
                "closing a device before the last object went, in the order " + text_of_order);
    const std::uint64_t before = plugin.live_counts().*object.kind;
    object.destroy();
    check_equal(plugin.live_counts().*object.kind, before - 1,
                "live objects of that kind after destroying in the order ", text_of_order);
  }
}

// All orders of the graph that are allowed, or many random ones where there are too many.
void every_order(Kit& kit, const std::function<Graph(Device&)>& make) {
  constexpr std::size_t kMost = 400;
  Random random = kit.random();
  std::vector<std::size_t> order;
  std::size_t played = 0;
  const auto play = [&] {
    Device device(kit, kit.plugin(), kit.settings().device, kit.device_options());
    const Graph graph = make(device);
    if (order.empty()) {
      order.resize(graph.objects.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
    }
    if (allowed(graph, order)) {
      destroy_in_order(device, graph, order);
      ++played;
    } else {  // only to be rid of it
      std::vector<std::size_t> any(order.size());
      std::iota(any.begin(), any.end(), std::size_t{0});
      while (!allowed(graph, any)) {
        std::next_permutation(any.begin(), any.end());
      }
      destroy_in_order(device, graph, any);
    }
    device.close();
  };
  kit.device();
  play();
  const bool few = order.size() <= 5;
  for (std::size_t round = 0; few ? std::next_permutation(order.begin(), order.end()) : round < kMost;
       ++round) {
    for (std::size_t i = order.size(); !few && i > 1; --i) {
      std::swap(order[i - 1], order[random.below(i)]);
    }
    play();
    kit.progress(text(played, " orders"));
  }
  kit.note(text(played, " orders of ", order.size(), " objects"));
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
        {text("buffer of ", byte_count), &yoke_live_counts::buffers, [buffer] { buffer->reset(); }});
    graph.after.emplace_back();
  }
  return graph;
}

// Two streams, an event of each, and a buffer that work was queued for; all waited for, so any order is
// allowed.
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
  graph.objects = {{"buffer", &yoke_live_counts::buffers, [buffer] { buffer->reset(); }},
                   {"first stream", &yoke_live_counts::streams, [first] { first->reset(); }},
                   {"second stream", &yoke_live_counts::streams, [second] { second->reset(); }},
                   {"first event", &yoke_live_counts::events, [one] { one->reset(); }},
                   {"second event", &yoke_live_counts::events, [two] { two->reset(); }}};
  graph.after.resize(graph.objects.size());
  return graph;
}

// Code may go before its routines; buffers are borrowed until routine_destroy.
Graph routine_graph(Device& device) {
  const Plugin& plugin = device.plugin();
  Graph graph;
  const auto x = shared(Buffer(device, kAddCount * sizeof(float)));
  const auto y = shared(Buffer(device, kAddCount * sizeof(float)));
  const auto code = shared(compile_add_one(device));
  const auto workspace = shared(Buffer(device, workspace_byte_count(plugin, *code)));
  x->write(0, Bytes(x->byte_count()));
  const auto routine = shared(link_add_one(plugin, *code, *x, *y, *workspace));
  expect_ok(plugin.call<&yoke_program_api::routine_launch>(nullptr, routine->get(), nullptr, 0U),
            "launching");
  graph.objects = {{"routine", &yoke_live_counts::routines, [routine] { routine->reset(); }},
                   {"code", &yoke_live_counts::codes, [code] { code->reset(); }},
                   {"x", &yoke_live_counts::buffers, [x] { x->reset(); }},
                   {"y", &yoke_live_counts::buffers, [y] { y->reset(); }},
                   {"workspace", &yoke_live_counts::buffers, [workspace] { workspace->reset(); }}};
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
  kit.plugin().table<yoke_program_api>();
  every_order(kit, routine_graph);
}

// A routine lives on without its code, and computes the same.
void routine_without_code(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  Code code = compile_add_one(device);
  const Buffer x(device, kAddCount * sizeof(float));
  const Buffer with(device, kAddCount * sizeof(float));
  const Buffer without(device, kAddCount * sizeof(float));
  const Buffer workspace(device, workspace_byte_count(plugin, code));
  const std::vector<float> values(kAddCount, 41.0F);
  x.write(0, std::as_bytes(std::span(values)));
  with.write(0, Bytes(with.byte_count()));
  without.write(0, Bytes(without.byte_count()));
  const Routine first = link_add_one(plugin, code, x, with, workspace);
  const Routine second = link_add_one(plugin, code, x, without, workspace);
  expect_ok(plugin.call<&yoke_program_api::routine_launch>(nullptr, first.get(), nullptr, 0U), "launching");
  code.reset();
  for (int i = 0; i < 5; ++i) {
    const Code other = compile_add_one(device);  // what was freed may be used again
    expect_ok(plugin.call<&yoke_program_api::routine_launch>(nullptr, second.get(), nullptr, 0U),
              "launching a routine whose code is destroyed");
  }
  check(with.contents() == without.contents(), "a routine computes otherwise when its code is destroyed");
}

void null_destroys(Kit& kit) {
  Plugin& plugin = kit.plugin();
  plugin.call<&yoke_backend_api::buffer_destroy>(static_cast<yoke_buffer*>(nullptr));
  expect_ok(plugin.call<&yoke_backend_api::device_close>(static_cast<yoke_device*>(nullptr)), "closing NULL");
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
}

// Everything that was ever made is gone, many times over.
void again_and_again(Kit& kit) {
  kit.device();
  constexpr int kRounds = 60;
  for (int i = 0; i < kRounds; ++i) {
    kit.progress(text("round ", i, " of ", kRounds));
    Plugin plugin(kit.library());
    const std::optional<Answer> refused = play_scenario(kit, plugin);
    check(!refused, "a plain use of the plugin, for the ", i + 1,
          ". time: ", refused ? refused->words() : "");
    check_nothing_alive(plugin, "when everything is destroyed");
    plugin.leave();
  }
}

// Close ends what open has begun. A library that keeps a pool for the whole process may start it once.
void threads_end(Kit& kit) {
  kit.device();
  const auto use = [&] {
    Plugin plugin(kit.library());
    check(!play_scenario(kit, plugin).has_value(), "a plain use of the plugin was refused");
    plugin.leave();
  };
  use();
  const std::size_t once = thread_count();
  for (int i = 0; i < 20; ++i) {
    use();
  }
  std::size_t now = thread_count();
  for (int i = 0; i < 1000 && now > once; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = thread_count();
  }
  check(now <= once, "each use of the plugin leaves threads behind: ", once, " after the first, ", now,
        " after the 21st");
}

// What a forked child is answered; a letter for each call, '.' for FAILED_PRECONDITION.
std::string answers_of_child(const Plugin& plugin, yoke_device* device, yoke_buffer* buffer,
                             yoke_stream* stream) {
  std::string answers;
  const auto note = [&](const Answer& answer) {
    answers += answer.code == YOKE_FAILED_PRECONDITION && !answer.status.text.empty()
                   ? ""
                   : text(answer.words(), "; ");
  };
  std::array<std::byte, 16> host{};
  std::uint32_t count = 0;
  yoke_buffer* raw_buffer = nullptr;
  yoke_device* raw_device = nullptr;
  yoke_buffer_info info = sized<yoke_buffer_info>();
  note(plugin.call<&yoke_backend_api::device_count>(plugin.get(), &count));
  note(plugin.call<&yoke_backend_api::device_open>(plugin.get(), 0U, nullptr, 0U, &raw_device));
  note(plugin.call<&yoke_backend_api::buffer_create>(device, std::uint64_t{64}, YOKE_MEMORY_DEVICE,
                                                     &raw_buffer));
  note(plugin.call<&yoke_backend_api::buffer_describe>(buffer, &info));
  note(plugin.call<&yoke_backend_api::from_host>(nullptr, buffer, std::uint64_t{0}, host.data(),
                                                 std::uint64_t{16}, nullptr));
  note(plugin.call<&yoke_backend_api::to_host>(nullptr, buffer, std::uint64_t{0}, host.data(),
                                               std::uint64_t{16}));
  if (stream != nullptr) {
    yoke_event* event = nullptr;
    note(plugin.call<&yoke_stream_api::stream_wait>(stream, longest_wait_ns()));
    note(plugin.call<&yoke_stream_api::event_record>(stream, &event));
  }
  if (plugin.has_table<yoke_program_api>()) {
    const yoke_program_text source = program_text(kAddOne);
    yoke_code* code = nullptr;
    note(plugin.call<&yoke_program_api::code_compile>(device, &source, &code));
  }
  plugin.call<&yoke_backend_api::buffer_destroy>(buffer);
  note(plugin.call<&yoke_backend_api::device_close>(device));
  return answers;
}

// Runs `body` in a forked child that may take half of the longest wait, and gives back what it answers.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  check(::pipe(ends) == 0, "cannot make a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(static_cast<unsigned>(longest_wait_ns() / 2'000'000'000U) + 1);
    std::string answer;
    try {
      answer = body();
    } catch (const std::exception& failure) {  // what is above on the stack is the parent's
      answer = failure.what();
    }
    static_cast<void>(::write(ends[1], answer.data(), answer.size()) == 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    answer += WTERMSIG(status) == SIGALRM ? "the child hung"
                                          : text("the child was ended by signal ", WTERMSIG(status));
  }
  return answer;
}

void forked_child(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const Buffer buffer(device, 64);
  const Bytes sent = kit.random().bytes(64);
  buffer.write(0, sent);
  std::optional<Stream> stream;
  if (plugin.has_table<yoke_stream_api>()) {
    stream.emplace(device);
  }
  const std::string answers = in_child(
      [&] { return answers_of_child(plugin, device.get(), buffer.get(), stream ? stream->get() : nullptr); });
  check(
      answers.empty(),
      "calls in a child that was forked while a device is open must answer FAILED_PRECONDITION with a text: ",
      answers);
  check(buffer.contents() == sent, "a buffer changed by what a forked child did");
  check_equal(plugin.live_counts().buffers, 1U, "live buffers after a forked child came and went");
}

}  // namespace

std::vector<Test> lifetime_tests() {
  return {
      {"null-destroys", "every destroy accepts NULL", {14}, null_destroys},
      {"memory-orders",
       "buffers are destroyed in every order; each keeps the device open, and is counted",
       {14},
       memory_orders},
      {"stream-orders", "streams, events and buffers are destroyed in every order", {14}, stream_orders},
      {"routine-orders",
       "code and routines are destroyed in every order that is allowed",
       {14},
       routine_orders},
      {"routine-without-code",
       "a routine computes the same when its code is destroyed",
       {14},
       routine_without_code},
      {"again-and-again",
       "a plugin is entered, used and destroyed many times, with nothing left",
       {14, 35},
       again_and_again,
       2},
      {"threads-end", "the threads of a device end with it", {22, 35}, threads_end},
      {"forked-child",
       "calls in a forked child answer FAILED_PRECONDITION, and the parent goes on",
       {23},
       forked_child},
  };
}

}  // namespace yoke::conformance
