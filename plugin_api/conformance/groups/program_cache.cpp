// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_cache.cpp: long texts that differ in one character, at either end, or in the
// order of their programs, compiled one after the other, so that a cache with an incomplete key mixes them up.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "groups.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr std::uint32_t kCount = 16;

// What a text computes: element i of its only output is `factor` * x[i] + `number`, or the same with products.
struct Made {
  std::string text;
  std::vector<float> expected;
};

std::vector<float> inputs() {
  std::vector<float> x(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i % 5 + 1);
  }
  return x;
}

// Writes texts for maps, or for products if the backend runs nothing else.
class Author {
 public:
  explicit Author(Device& device) {
    device.plugin().table<yoke_program_api>();
    try {
      require_supported(device, one(0, 1, "").text, 1);
    } catch (const Unsupported&) {
      only_products_ = true;
      require_supported(device, one(0, 1, "").text, 1);
    }
  }
  bool only_products() const { return only_products_; }

  // The number comes after `padding` bytes of comments.
  Made one(std::uint64_t padding, int number, const std::string& name, const std::string& after = {}) const {
    return {"yoke.program 1\n" + comment(padding) + program(name, number) + after, expected(number)};
  }
  std::string program(const std::string& name, int number) const {
    const std::string head = "program p" + name + "() {\n";
    // A product reads another row of x.
    return head + (only_products_ ? " arg x : f32[4, 4] in\n arg y : f32[4, 4] out\n y[i, j] = sum[k:" +
                                        std::to_string(number % 4 + 1) + "] x[i, k] * x[k, j]\n}\n"
                                  : " arg x : f32[16] in\n arg y : f32[16] out\n y[i] = x[i] * 2 + " +
                                        std::to_string(number) + "\n}\n");
  }
  std::vector<float> expected(int number) const {
    const std::vector<float> x = inputs();
    std::vector<float> y(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      for (std::size_t k = 0; only_products_ && k < static_cast<std::size_t>(number % 4 + 1); ++k) {
        y[i] += x[i / 4 * 4 + k] * x[k * 4 + i % 4];
      }
      y[i] = only_products_ ? y[i] : x[i] * 2 + static_cast<float>(number);
    }
    return y;
  }
  static std::string comment(std::uint64_t byte_count) {
    std::string lines;
    while (lines.size() < byte_count) {
      lines += "# " + std::string(std::min<std::uint64_t>(byte_count - lines.size(), 90), 'x') + "\n";
    }
    return lines;
  }
  // Many statements, which no backend drops as it drops comments. The last one has the number.
  Made chain(int statements, int number) const {
    std::string text = "yoke.program 1\nprogram chain() {\n arg x : f32[16] in\n arg y : f32[16] out\n";
    for (int i = 0; i < statements; ++i) {
      text += " temp t" + std::to_string(i) + " : f32[16]\n";
    }
    std::string last = "x";
    for (int i = 0; i < statements; ++i) {
      text += " t" + std::to_string(i) + "[i] = " + last + "[i] + 1\n";
      last = "t" + std::to_string(i);
    }
    std::vector<float> expected = inputs();
    for (float& value : expected) {
      value += static_cast<float>(statements + number);
    }
    return {text + " y[i] = " + last + "[i] + " + std::to_string(number) + "\n}\n", expected};
  }

 private:
  bool only_products_ = false;
};

// A compiled text whose entries are linked to their own buffers.
class Compiled {
 public:
  Compiled(Device& device, std::string_view text) : device_(device), code_(compile(device, text)) {}

  std::string name(std::uint32_t entry) const { return describe_entry(device_.plugin(), code_, entry).name; }
  void check_entry(std::uint32_t entry, const std::vector<float>& expected, const std::string& what) const {
    const std::vector<float> x = inputs();
    const Buffer in(device_, kCount * sizeof(float));
    const Buffer out(device_, kCount * sizeof(float));
    in.write(0, std::as_bytes(std::span(x)));
    const Buffer workspace = workspace_for(device_, code_, entry);
    const yoke_binding bindings[] = {binding(in), binding(out)};
    const Routine routine = link(device_.plugin(), code_, entry, bindings, binding(workspace));
    launch(device_.plugin(), routine);
    check(out.contents() == bytes_of_floats(expected), "wrong results, maybe those of another text: ", what);
  }

 private:
  Device& device_;
  Code code_;
};

// Two texts, compiled in turn, alive together and one after the other; also at the same address.
void check_pair(Device& device, const Made& a, const Made& b, const std::string& what) {
  {
    const Compiled first(device, a.text);
    const Compiled second(device, b.text);
    second.check_entry(0, b.expected, what);
    first.check_entry(0, a.expected, what);
  }
  std::string place = a.text;
  place.reserve(std::max(a.text.size(), b.text.size()));
  for (const Made* one : {&a, &b, &a}) {
    place = one->text;
    Compiled(device, place).check_entry(0, one->expected, what + ", at the same address");
  }
}

void long_texts(Kit& kit) {
  Device& device = kit.device();
  const Author author(device);
  std::uint64_t pairs = 0;
  const auto compare = [&](const Made& a, const Made& b, const std::string& what) {
    kit.progress(what);
    check_pair(device, a, b, what);
    ++pairs;
  };
  for (const std::uint64_t padding :
       {0U, 50U, 200U, 500U, 1000U, 4000U, 8100U, 16300U, 65500U, 300'000U, 1'100'000U}) {
    const std::string where = text(" with ", padding, " bytes of comments");
    compare(author.one(padding, 1, ""), author.one(padding, 2, ""), "texts that differ after a head" + where);
    const std::string tail = Author::comment(padding);
    compare(author.one(0, 1, "", tail), author.one(0, 2, "", tail),
            "texts that differ before a tail" + where);
    // The same programs in another order, so the same length and the same characters.
    const std::string a = author.program("a", 1);
    const std::string b = author.program("b", 2);
    const std::string head = "yoke.program 1\n" + Author::comment(padding);
    compare({text(head, a, b), author.expected(1)}, {text(head, b, a), author.expected(2)},
            "texts with two programs in another order" + where);
    const Compiled both(device, text(head, a, b));
    both.check_entry(1, author.expected(2), "the second program of a text" + where);
  }
  // The same characters in another order.
  compare(author.one(0, 12, ""), author.one(0, 21, ""), "texts with two digits exchanged");
  compare(author.one(0, 1, "1", author.program("2", 2)), author.one(0, 2, "1", author.program("2", 1)),
          "texts whose programs have exchanged their numbers");
  if (!author.only_products()) {
    for (const int statements : {3, 30, 120}) {
      compare(author.chain(statements, 1), author.chain(statements, 2),
              text("programs of ", statements, " statements that differ in the last one"));
    }
  }
  kit.note(text(pairs, " pairs of texts"));
}

// Threads that compile the same text and others at the same time.
void compile_at_once(Kit& kit) {
  Device& device = kit.device();
  const Author author(device);
  for (int round = 0; round < 6 * kit.effort(); ++round) {
    kit.progress(text("round ", round));
    run_threads(6, [&](unsigned thread) {
      for (int i = 0; i < 3; ++i) {
        const int number = round * 7 + (thread % 2 == 0 ? i : static_cast<int>(thread) + i);
        const Made one = author.one(2000, number, "");
        Compiled(device, one.text).check_entry(0, one.expected, "texts compiled by several threads");
      }
    });
  }
}

// Threads that ask for a new text while another thread compiles it get all of its programs. Each thread starts a little
// later than the one before it, at times spread over the time that compiling takes.
void compile_together(Kit& kit) {
  constexpr unsigned kThreads = 6;
  constexpr std::uint32_t kPrograms = 40;
  Device& device = kit.device();
  const Author author(device);
  const auto begin = Clock::now();
  std::uint64_t compile_ns = UINT64_MAX;
  std::mutex mutex;
  int round = 0;
  while (round < 4 || (round < 60 * kit.effort() && ns_since(begin) < 300 * kMillisecond)) {
    kit.progress(text("round ", round));
    std::string programs = text("yoke.program 1\n# round ", round, "\n");
    for (std::uint32_t i = 0; i < kPrograms; ++i) {
      programs += author.program(std::to_string(i), static_cast<int>(i) + round);
    }
    std::atomic<unsigned> ready{0};
    std::uint64_t slowest_ns = 0;
    run_threads(kThreads, [&](unsigned thread) {
      ++ready;
      Patience::wait_until([&] { return ready == kThreads; }, "a thread did not start");
      if (round > 0) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(compile_ns / kThreads * thread));
      }
      const auto before = Clock::now();
      const Compiled compiled(device, programs);
      {
        const std::lock_guard lock(mutex);
        slowest_ns = std::max(slowest_ns, ns_since(before));
      }
      for (const std::uint32_t entry : {kPrograms - 1, kPrograms - 1 - thread}) {
        check_equal(compiled.name(entry), text("p", entry), "the name of entry ", entry);
        compiled.check_entry(entry, author.expected(static_cast<int>(entry) + round),
                             "the last programs of a text that several threads compile");
      }
    });
    compile_ns = std::min(compile_ns, slowest_ns);
    ++round;
  }
  kit.note(text(round, " texts"));
}

}  // namespace

std::vector<Test> program_cache_tests() {
  return {{"long-texts",
           "texts of any length that differ in one character, at either end, or in their order have their "
           "own results",
           {24, 26},
           long_texts,
           2},
          {"compile-at-once",
           "threads that compile equal and different texts at the same time get the codes of their own texts",
           {20, 26},
           compile_at_once,
           2},
          {"compile-together",
           "threads that ask for a text of many programs while another thread compiles it get all of its "
           "programs",
           {20, 26},
           compile_together,
           2}};
}

}  // namespace yoke::conformance
