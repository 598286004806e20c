// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/memory_ends.cpp: kernels on imported host memory between pages without access, so that
// a load or a store beyond either end of a tensor is a crash.
#include <sys/mman.h>
#include <unistd.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <string_view>

#include "foreign.h"
#include "groups.h"
#include "program/corpus.h"
#include "program/run/batch.h"

namespace yoke::conformance {
namespace {

enum class Side { kBegin, kEnd };

struct Unmap {
  std::uint64_t byte_count = 0;
  void operator()(std::byte* mapped) const { munmap(mapped, byte_count); }
};

// Host memory whose pages before and after the tensor cannot be accessed. The tensor starts at the first byte, or ends
// as near to the last one as its alignment allows.
class Fenced {
 public:
  Fenced(Device& device, std::uint64_t byte_count, std::uint64_t alignment, Side side)
      : page_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))),
        inside_((byte_count + page_ - 1) / page_ * page_),
        byte_count_(byte_count) {
    const std::uint64_t whole = inside_ + 2 * page_;
    void* mapped = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mapped != MAP_FAILED, "the test cannot map memory");
    mapped_ = {static_cast<std::byte*>(mapped), Unmap{whole}};
    check(mprotect(inside(), inside_, PROT_READ | PROT_WRITE) == 0, "the test cannot protect memory");
    const std::uint64_t room = inside_ - (byte_count + alignment - 1) / alignment * alignment;
    first_ = inside() + (side == Side::kEnd ? room : 0);
    const yoke_import_args args = {sizeof args,      0, number_of(first_), byte_count,
                                   YOKE_MEMORY_HOST, 0, &Fenced::release,  this};
    buffer_ = imported(device, args);
  }
  ~Fenced() = default;
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  yoke_binding binding() const { return {buffer_.get(), 0, byte_count_, 0}; }
  // The bytes beside the tensor on its pages are kGuardByte.
  void write(const Bytes& bytes) {
    std::fill_n(inside(), inside_, kGuardByte);
    std::copy(bytes.begin(), bytes.end(), first_);
  }
  Bytes read() const { return {first_, first_ + byte_count_}; }

 private:
  static void release(void* /*user*/) {}
  std::byte* inside() const { return mapped_.get() + page_; }

  std::uint64_t page_;
  std::uint64_t inside_;
  std::uint64_t byte_count_;
  std::unique_ptr<std::byte, Unmap> mapped_;  // destroyed after the buffer that uses it
  std::byte* first_ = nullptr;
  BufferHandle buffer_;
};

// {T} is a type, {A} states its accumulator, {n} and {m} are lengths.
constexpr std::string_view kForms[] = {
    "arg x : {T}[{n}] in\n arg y : {T}[{n}] out\n y[i] = x[-i + {n-1}]\n",
    "arg x : {T}[{m}, {n}] in\n arg y : {T}[{n}, {m}] out\n y[i, j] = x[j, i]\n"};
constexpr std::string_view kNumberForms[] = {
    ("arg x : {T}[{n}] in\n arg z : {T}[{n}] in\n arg y : {T}[{n}] out\n"
     " y[i] = select(x[i] > z[i], x[i], z[i])\n"),
    "arg x : {T}[{n}] in\n arg z : {T}[] in\n arg y : {T}[{n}] inout\n y[i] = y[i] + x[i] * z[]\n",
    ("arg x : {T}[{m}, {n}] in\n arg y : {T}[{m}] out\n arg z : {T}[{n}] out\n"
     " y[i] = sum{A}[j] x[i, j]\n z[j] = max{A}[i] x[i, j]\n"),
    "arg x : {T}[{m}, {n}] in\n arg b : {T}[{n}] in\n arg y : {T}[{m}, {n}] out\n y[i, j] = x[i, j] + b[j]\n",
    ("arg a : {T}[{m}, {n}] in\n arg b : {T}[{n}, {m}] in\n arg y : {T}[{m}, {m}] out\n"
     " y[i, j] = sum{A}[k] a[i, k] * b[k, j]\n"),
    ("arg x : {T}[{n}, {m}] in\n arg at : i32[{n}] in # below {n}\n arg y : {T}[{n}, {m}] out\n"
     " y[i, j] = (x[at[i], j] else 3)\n")};

std::string filled(std::string_view form, std::string_view type, std::uint64_t n, std::uint64_t m) {
  std::string made(form);
  std::string accumulator = type == "u8" ? ":i64" : "";
  accumulator = type == "f16" || type == "bf16" ? ":f32" : accumulator;
  const std::pair<std::string_view, std::string> values[] = {{"{T}", std::string(type)},
                                                             {"{A}", accumulator},
                                                             {"{n}", std::to_string(n)},
                                                             {"{m}", std::to_string(m)},
                                                             {"{n-1}", std::to_string(n - 1)}};
  for (const auto& [name, value] : values) {
    for (std::size_t at = made.find(name); at != std::string::npos; at = made.find(name, at)) {
      made.replace(at, name.size(), value);
    }
  }
  return made;
}

std::vector<Case> cases_of(Kit& kit) {
  const std::uint64_t types = kit.device().info().type_mask;
  std::vector<Case> cases;
  const auto add = [&](std::string_view form, std::string_view type, std::uint64_t n, std::uint64_t m) {
    Case one = corpus_case(
        text("yoke.program 1\nprogram ends", cases.size(), "() {\n ", filled(form, type, n, m), "}\n"),
        kit.settings().seed);
    one.index = cases.size();
    if (uses_only(one, types)) {
      cases.push_back(std::move(one));
    }
  };
  constexpr std::uint64_t kLengths[] = {3, 35, 1027};  // a few elements beyond a multiple of 16
  std::uint64_t turn = 0;
  const auto add_next = [&](std::string_view form, std::string_view type) {
    add(form, type, kLengths[turn % std::size(kLengths)], 3 + turn % 5);
    ++turn;
  };
  for (const std::string_view type : {"bool", "u8", "f16", "bf16", "i32", "f32", "i64", "f64"}) {
    for (const std::string_view form : kForms) {
      add_next(form, type);
    }
    for (const std::string_view form : kNumberForms) {
      if (type != "bool") {
        add_next(form, type);
      }
    }
  }
  return cases;
}

void run_case(Device& device, const Code& code, std::uint32_t entry, const Case& one, Side side,
              const Stream* stream) {
  const Plugin& plugin = device.plugin();
  const Contents initial = initial_arguments(one);
  std::deque<Fenced> memory;
  std::vector<yoke_binding> bindings;
  for (std::uint32_t i = 0; i < initial.size(); ++i) {
    const std::uint64_t alignment = describe_argument(device, code, entry, i).alignment;
    memory.emplace_back(device, initial[i].size(), alignment, side).write(initial[i]);
    bindings.push_back(memory.back().binding());
  }
  const Buffer workspace = workspace_for(device, code, entry);
  {
    const Routine routine = link(plugin, code, entry, bindings, binding(workspace));
    launch(plugin, routine, {}, stream);
  }
  Contents results;
  for (const Fenced& fenced : memory) {
    results.push_back(fenced.read());
  }
  const std::string mismatch = compare_results(one, {}, results, 0, initial);
  check(mismatch.empty(), "wrong results in imported memory: ", mismatch, "\n", program::print(one.program));
}

void at_ends(Kit& kit) {
  kit.plugin().need<&yoke_memory_api::buffer_import>();
  kit.plugin().table<yoke_program_api>();
  Device& device = kit.device();
  { const Fenced probe(device, 64, 64, Side::kEnd); }  // Unsupported if the device cannot import it
  const std::vector<Case> cases = cases_of(kit);
  BatchRunner runner(device);
  Tally tally;
  std::vector<Case> chosen;
  for (const std::size_t number : runner.supported(cases, tally)) {
    chosen.push_back(cases[number]);
  }
  tally.programs = chosen.size();
  require_some(tally);
  const Code code = compile(device, text_of(chosen));
  const std::optional<Stream> stream = stream_if_any(device);
  for (std::uint32_t entry = 0; entry < chosen.size(); ++entry) {
    for (const Side side : {Side::kEnd, Side::kBegin}) {
      kit.progress(text("tensors at the ", side == Side::kEnd ? "end" : "beginning", " of their pages in\n",
                        program::print(chosen[entry].program)));
      run_case(device, code, entry, chosen[entry], side, stream ? &*stream : nullptr);
    }
  }
  kit.note(text(chosen.size(), " programs"));
}

}  // namespace

std::vector<Test> memory_end_tests() {
  return {{"import-at-ends",
           "kernels use no memory before or after their tensors, not even bytes that they ignore",
           {42, 52},
           at_ends,
           2}};
}

}  // namespace yoke::conformance
