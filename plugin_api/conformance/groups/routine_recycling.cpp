// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/routine_recycling.cpp: routines whose memory other routines had before, and routines
// after calls that were refused.
#include <algorithm>
#include <iterator>
#include <list>
#include <string_view>

#include "groups.h"
#include "program/run/launch.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

// Programs of one input x and one output y of 16 * 16 floats, so that every buffer fits every argument.
constexpr std::uint64_t kSide = 16;
constexpr std::uint64_t kCount = kSide * kSide;
constexpr std::string_view kStatements[] = {"y[i, j] = x[i, j] * 2 + 1\n", "y[i, j] = x[j, i] - x[i, 0]\n",
                                            "y[i, j] = sum[k] x[i, k] * x[k, j]\n",
                                            "t[i] = max[j] x[i, j]\n  y[i, j] = x[i, j] + t[j]\n"};

std::vector<float> result(std::size_t form, const std::vector<float>& x) {
  std::vector<float> y(kCount);
  const auto at = [&](std::uint64_t i, std::uint64_t j) { return x[i * kSide + j]; };
  for (std::uint64_t i = 0; i < kSide; ++i) {
    for (std::uint64_t j = 0; j < kSide; ++j) {
      float& to = y[i * kSide + j];
      switch (form) {
        case 0:
          to = at(i, j) * 2 + 1;
          break;
        case 1:
          to = at(j, i) - at(i, 0);
          break;
        case 2:
          for (std::uint64_t k = 0; k < kSide; ++k) {
            to += at(i, k) * at(k, j);
          }
          break;
        default:
          to = at(i, j) + *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(j * kSide),
                                            x.begin() + static_cast<std::ptrdiff_t>((j + 1) * kSide));
      }
    }
  }
  return y;
}

// Routines of a few codes. They are destroyed with their buffers, and others take their places; or only the routine is
// replaced, by one of another code, or by one that reads what the last one wrote.
class Recycled {
 public:
  Recycled(Device& device, Random& random)
      : device_(device), random_(random), stream_(stream_if_any(device)) {
    device.plugin().table<yoke_program_api>();
    std::string reason;
    for (std::size_t form = 0; form < std::size(kStatements); ++form) {
      const bool has_temporary = form == 3;
      const std::string bytes = text(
          "yoke.program 1\nprogram form", form, "() {\n  arg x : f32[16, 16] in\n  arg y : f32[16, 16] out\n",
          has_temporary ? "  temp t : f32[16]\n  " : "  ", kStatements[form], "}\n");
      try {
        require_supported(device, bytes, has_temporary ? 2 : 1);
        codes_.push_back({form, compile(device, bytes)});
      } catch (const Unsupported& missing) {
        reason = missing.what();
      }
    }
    if (codes_.empty()) {
      unsupported(reason);
    }
  }

  void step() {
    const std::uint64_t draw = random_.below(8);
    if (live_.size() < 6 && (draw < 3 || live_.empty())) {
      return add();
    }
    const auto run = std::next(live_.begin(),
                               static_cast<std::ptrdiff_t>(live_.empty() ? 0 : random_.below(live_.size())));
    if (draw < 4) {
      live_.erase(run);
      add();  // probably at the same addresses
    } else if (draw == 4) {
      run->routine.reset();
      std::swap(run->buffers[0], run->buffers[1]);
      std::swap(run->offsets[0], run->offsets[1]);
      connect(*run);
      renew(*run);
    } else if (draw == 5) {
      run->routine.reset();
      run->workspace.reset();
      run->buffers[random_.below(2)].reset();
      fill_in(*run);
    } else {
      renew(*run);
    }
    check_all();
  }

 private:
  struct Known {
    std::size_t form;
    Code code;
  };
  struct Run {
    Buffer buffers[2];
    std::uint64_t offsets[2] = {0, 0};
    Buffer workspace;
    std::size_t known = 0;
    std::vector<float> x;
    Routine routine;  // destroyed first
  };

  void add() {
    fill_in(live_.emplace_back());
    check_all();
  }
  // Creates the buffers that the run lacks, and links.
  void fill_in(Run& run) {
    for (int i = 0; i < 2; ++i) {
      if (run.buffers[i].get() == nullptr) {
        run.offsets[i] = YOKE_BUFFER_ALIGNMENT * random_.below(3);
        run.buffers[i] = Buffer(device_, kCount * sizeof(float) + run.offsets[i]);
      }
    }
    connect(run);
    renew(run);
  }
  void connect(Run& run) {
    run.known = random_.below(codes_.size());
    run.workspace = workspace_for(device_, codes_[run.known].code);
    const yoke_binding bindings[] = {part(run, 0), part(run, 1)};
    run.routine = link(device_.plugin(), codes_[run.known].code, 0, bindings,
                       run.workspace.get() == nullptr ? yoke_binding{} : binding(run.workspace));
  }
  static yoke_binding part(const Run& run, std::size_t i) {
    return {run.buffers[i].get(), run.offsets[i], kCount * sizeof(float), 0};
  }
  void renew(Run& run) {
    run.x.resize(kCount);
    for (float& value : run.x) {
      value = static_cast<float>(random_.between(-9, 9));
    }
    run.buffers[0].write(run.offsets[0], std::as_bytes(std::span(run.x)));
  }
  // Launches all routines, most of which did not change.
  void check_all() {
    const bool on_stream = stream_ && random_.chance(2);
    for (const Run& run : live_) {
      expect_ok(device_.plugin().routine_launch(on_stream ? stream_->get() : nullptr, run.routine.get(), {}),
                "launching a routine");
    }
    if (on_stream) {
      stream_->synchronize();
    }
    for (const Run& run : live_) {
      std::vector<float> y(kCount);
      run.buffers[1].read(run.offsets[1], std::as_writable_bytes(std::span(y)));
      check(y == result(codes_[run.known].form, run.x), "one of ", live_.size(),
            " routines with the statement ", kStatements[codes_[run.known].form],
            "has a wrong result after routines and buffers were replaced");
    }
  }

  Device& device_;
  Random& random_;
  std::optional<Stream> stream_;
  std::vector<Known> codes_;
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
        return linked({&x, 1}, "with one binding of two");
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
                       "launching a routine with two symbol values that it does not have");
        return "a launch with symbol values that do not exist";
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
        // A text that no cache has, and the old one.
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
        "after refused calls there are ", alive_text(now), "; before them there were ", alive_text(alive));
}

}  // namespace

std::vector<Test> recycling_tests() {
  return {{"recycled-buffers",
           "routines are right while others and their buffers are destroyed and replaced, also at the same "
           "addresses",
           {15, 26},
           recycled_buffers},
          {"after-refusals",
           "compiling, linking and launching work after calls that were refused, while a stream has launches",
           {10, 15, 26},
           after_mistakes}};
}

}  // namespace yoke::conformance
