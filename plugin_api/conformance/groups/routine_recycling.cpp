// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine_recycling.cpp: routines in memory that earlier routines used, and routines
// after refused calls.
#include <algorithm>
#include <iterator>
#include <list>
#include <memory>

#include "groups.h"
#include "small_program.h"
#include "square_forms.h"

namespace yoke::conformance {
namespace {

// Routines of a few codes that share buffers and read each other's results. New routines replace them, often with
// buffers at the addresses of destroyed ones.
class Recycled {
 public:
  Recycled(Device& device, Random& random)
      : device_(device), random_(random), stream_(stream_if_any(device)), codes_(device) {}

  void step() {
    const std::uint64_t draw = random_.below(8);
    if (live_.size() < 2 || (live_.size() < 7 && draw < 2)) {
      live_.push_back(linked(draw == 0 ? created() : some_memory(), created()));
    } else if (draw < 4) {
      // A new buffer probably gets the address of a buffer that is destroyed here.
      live_.erase(some_run());
      live_.push_back(linked(draw == 2 ? created() : some_memory(), created()));
    } else if (draw == 4) {
      // The same memory, in other roles.
      const auto run = some_run();
      run->routine.reset();
      *run = linked(run->y, run->x);
    } else if (draw == 5) {
      const std::shared_ptr<Memory> x = some_memory();
      const std::shared_ptr<Memory> y = some_memory();
      if (x != y) {
        live_.push_back(linked(x, y));
      }
    } else if (draw == 6 && live_.size() > 2) {
      live_.erase(some_run());
    }
    if (random_.chance(2)) {
      renew(*some_memory());
    }
    check_all();
  }

 private:
  struct Memory {
    Buffer buffer;
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;  // of the binding; the buffer may be larger still
    std::vector<float> values;
  };
  struct Run {
    std::shared_ptr<Memory> x;
    std::shared_ptr<Memory> y;
    Buffer workspace;
    std::size_t known = 0;
    Routine routine;  // destroyed first
  };

  std::list<Run>::iterator some_run() {
    return std::next(live_.begin(), static_cast<std::ptrdiff_t>(random_.below(live_.size())));
  }
  // Returns a buffer of a live routine, or a new one if no routine is live.
  std::shared_ptr<Memory> some_memory() {
    if (live_.empty()) {
      return created();
    }
    const Run& run = *some_run();
    return random_.chance(2) ? run.x : run.y;
  }
  std::shared_ptr<Memory> created() {
    auto made = std::make_shared<Memory>();
    made->offset = YOKE_BUFFER_ALIGNMENT * random_.below(2);
    made->byte_count = kSquareCount * sizeof(float) + random_.below(3) * 4;
    made->buffer = Buffer(device_, made->byte_count + made->offset + random_.below(2) * 100);
    renew(*made);
    return made;
  }
  Run linked(const std::shared_ptr<Memory>& x, const std::shared_ptr<Memory>& y) {
    Run run{x, y, {}, random_.below(codes_.all.size()), {}};
    const Code& code = codes_.all[run.known].code;
    const std::uint64_t needed = describe_entry(device_.plugin(), code).workspace_byte_count;
    const std::uint64_t offset = YOKE_BUFFER_ALIGNMENT * random_.below(3);
    run.workspace = Buffer(device_, offset + needed + random_.below(2) * 100);
    const yoke_binding bindings[] = {{x->buffer.get(), x->offset, x->byte_count, 0},
                                     {y->buffer.get(), y->offset, y->byte_count, 0}};
    run.routine = link(device_.plugin(), code, 0, bindings,
                       needed == 0 ? yoke_binding{} : binding(run.workspace, offset));
    return run;
  }
  void renew(Memory& memory) {
    memory.values.resize(kSquareCount);
    for (float& value : memory.values) {
      value = static_cast<float>(random_.between(-9, 9));
    }
    memory.buffer.write(memory.offset, std::as_bytes(std::span(memory.values)));
  }
  // Launches all routines in order. Most of them did not change.
  void check_all() {
    const bool on_stream = stream_ && random_.chance(2);
    for (const Run& run : live_) {
      const std::size_t form = codes_.all[run.known].form;
      const auto by = static_cast<std::int64_t>(random_.below(4));
      SquareCodes::queue(device_.plugin(), on_stream ? stream_->get() : nullptr, run.routine, form, by);
      run.y->values = square_result(form, run.x->values, by);
    }
    if (on_stream) {
      stream_->synchronize();
    }
    for (const Run& run : live_) {
      std::vector<float> y(kSquareCount);
      run.y->buffer.read(run.y->offset, std::as_writable_bytes(std::span(y)));
      check(y == run.y->values, "one of ", live_.size(),
            " routines has a wrong result after others and their buffers were replaced; its program is ",
            kSquareForms[codes_.all[run.known].form].body);
    }
  }

  Device& device_;
  Random& random_;
  std::optional<Stream> stream_;
  SquareCodes codes_;
  std::list<Run> live_;
};

void recycled_buffers(Kit& kit) {
  Random random = kit.random();
  Recycled recycled(kit.device(), random);
  for (int step = 0; step < 150 * kit.effort(); ++step) {
    recycled.step();
  }
}

// Compiles, links and launches that fail, while a stream has launches.
class Mistakes {
 public:
  Mistakes(Device& device, const SmallProgram& program, const Code& code)
      : plugin_(device.plugin()), device_(device), program_(program), code_(code), run_(device, code) {}

  static constexpr int kKinds = 7;
  std::string make(int kind, std::uint64_t round) {
    const std::string valid(program_.text());
    const yoke_binding x = binding(run_.x);
    const yoke_binding y = binding(run_.y);
    yoke_binding shorter = y;
    shorter.byte_count -= 4;
    yoke_binding beyond = y;
    beyond.offset = YOKE_BUFFER_ALIGNMENT;
    switch (kind) {
      case 0:
        return compiled(valid.substr(0, valid.size() - 3 - round));
      case 1:
        return compiled(valid + "program again" + std::to_string(round) + "() {\n  arg z : f32[2] out\n}\n");
      case 2:
        return linked({&x, 1}, "with one of two bindings");
      case 3: {
        const yoke_binding bindings[] = {x, shorter};
        return linked(bindings, "with a range that is too small");
      }
      case 4: {
        const yoke_binding bindings[] = {x, beyond};
        return linked(bindings, "with a range beyond its buffer");
      }
      case 5: {
        const yoke_binding bindings[] = {x, x};
        return linked(bindings, "with one range as input and output");
      }
      default: {
        const std::int64_t values[] = {1, 2};
        expect_refused(plugin_.routine_launch(nullptr, run_.routine.get(), values),
                       "launching a routine without symbols with two symbol values");
        return "launching a routine without symbols with two symbol values";
      }
    }
  }

 private:
  std::string compiled(const std::string& bytes) const {
    yoke_code* none = nullptr;
    expect_refused(plugin_.code_compile(device_.get(), program_text(bytes), &none),
                   "compiling an invalid text");
    return "compiling an invalid text";
  }
  std::string linked(std::span<const yoke_binding> bindings, const char* what) const {
    yoke_routine* none = nullptr;
    expect_refused(plugin_.routine_link(code_.get(), 0, bindings, binding(run_.workspace), &none),
                   text("linking ", what));
    return text("linking ", what);
  }

  const Plugin& plugin_;
  Device& device_;
  const SmallProgram& program_;
  const Code& code_;
  SmallRun run_;
};

void after_mistakes(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  Mistakes mistakes(device, program, code);
  const SmallRun queued(device, code);
  const std::optional<Stream> stream = stream_if_any(device);
  std::vector<float> values(kSmallCount);
  std::uint64_t number = 0;
  const yoke_live_counts alive = plugin.live_counts();
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (int kind = 0; kind < Mistakes::kKinds; ++kind) {
      std::fill(values.begin(), values.end(), static_cast<float>(++number));
      queued.x.write(0, bytes_of_floats(values));
      for (int i = 0; i < 10; ++i) {
        expect_ok(plugin.routine_launch(raw_of(stream), queued.routine.get(), {}), "queueing a launch");
      }
      const std::string what = mistakes.make(kind, round);
      {
        // A text that is in no cache, and the earlier text.
        std::string fresh(program.text());
        fresh.insert(fresh.find("() {"),
                     std::to_string(kind < 2 ? 2 * round + static_cast<std::uint64_t>(kind) + 1 : 0));
        const Code other = compile(device, fresh);
        for (const Code* one : {&other, &code}) {
          const SmallRun run(device, *one);
          run.x.write(0, bytes_of_floats(values));
          run.launch();
          check(run.y.contents() == bytes_of_floats(program.results(values)),
                "a routine has a wrong result after ", what, " was refused");
        }
      }
      if (stream) {
        stream->synchronize();
      }
      check(queued.y.contents() == bytes_of_floats(program.results(values)),
            "a routine that was launched before ", what, " was refused has a wrong result");
    }
  }
  const yoke_live_counts now = plugin.live_counts();
  check(now.codes == alive.codes && now.routines == alive.routines && now.buffers == alive.buffers,
        "after refused calls, the backend counts ", alive_text(now), "; before them, ", alive_text(alive));
}

}  // namespace

std::vector<Test> recycling_tests() {
  return {{"recycled-buffers",
           "routines are right while other routines and buffers are destroyed and replaced, also at the same "
           "addresses",
           {15, 26},
           recycled_buffers},
          {"after-refusals",
           "compiling, linking and launching work after refused calls, while a stream has launches",
           {10, 15, 26},
           after_mistakes}};
}

}  // namespace yoke::conformance
