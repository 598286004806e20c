// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/harness.cpp: runs a program on cc and on the reference executor, and compares.
#include "harness.h"

#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "routine.h"

namespace yoke::cc::test {

using program::Program;
using program::Role;
using program::Tensor;
using program::Type;

namespace {

constexpr std::size_t kGuard = 192;
constexpr std::byte kGuardByte{0xA5};

template <class T>
void put(std::byte* data, std::uint64_t i, T value) {
  std::memcpy(data + i * sizeof(T), &value, sizeof(T));
}
template <class T>
T get(const std::byte* data, std::uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

double random_float(std::mt19937_64& random, const Rules& rules) {
  if (std::uniform_real_distribution<double>(0, 1)(random) < rules.specials) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kSpecials[] = {
        0.0, -0.0, kInf, -kInf, 1e-40, -1e-41, 1e30, -1e38, std::numeric_limits<double>::quiet_NaN()};
    return kSpecials[random() % std::size(kSpecials)];
  }
  return std::uniform_real_distribution<double>(rules.low, rules.high)(random);
}

void fill(const Tensor& tensor, std::byte* data, std::mt19937_64& random, const Rules& rules) {
  std::uniform_int_distribution<std::int64_t> integers(rules.integer_low, rules.integer_high);
  for (std::uint64_t i = 0; i < tensor.element_count(); ++i) {
    switch (tensor.type) {
      case Type::kF64:
        put(data, i, random_float(random, rules));
        break;
      case Type::kF32:
        put(data, i, static_cast<float>(random_float(random, rules)));
        break;
      case Type::kF16:
        put(data, i, program::f32_to_f16(static_cast<float>(random_float(random, rules))));
        break;
      case Type::kBF16:
        put(data, i, program::f32_to_bf16(static_cast<float>(random_float(random, rules))));
        break;
      case Type::kI64:
        put(data, i, integers(random));
        break;
      case Type::kI32:
        put(data, i, static_cast<std::int32_t>(integers(random)));
        break;
      case Type::kU32:
        put(data, i, static_cast<std::uint32_t>(integers(random)));
        break;
      case Type::kU8:
        put(data, i, static_cast<std::uint8_t>(integers(random)));
        break;
      case Type::kBool:
        put(data, i, static_cast<std::uint8_t>(random() & 1U));
        break;
    }
  }
}

const DnnlEngine& engine() {
  static const DnnlEngine shared;
  return shared;
}

std::shared_ptr<const CompiledProgram> compile(const Program& program, int threads,
                                               const KernelTable* table) {
  const OpenMpThreads guard(threads);
  return std::make_shared<const CompiledProgram>(
      compile_program(program, {&engine(), table == nullptr ? &best_kernels() : table, threads}));
}

// The workspace is poisoned, so that reading what was never written shows.
struct Workspace {
  explicit Workspace(std::uint64_t byte_count) : guarded(byte_count + 64) {
    std::memset(guarded.data(), 0xFF, guarded.byte_count());
    const auto address = reinterpret_cast<std::uintptr_t>(guarded.data());
    base = guarded.data() + ((64 - address % 64) % 64);
  }
  Guarded guarded;
  std::byte* base = nullptr;
};

void compare(const Program& program, const Tensor& tensor, const std::byte* got, const std::byte* wanted,
             const Rules& rules) {
  for (std::uint64_t i = 0; i < tensor.element_count(); ++i) {
    const double x = element(tensor.type, got, i);
    const double y = element(tensor.type, wanted, i);
    const double distance = ulp_distance(tensor.type, x, y);
    if (!(distance <= rules.ulp) && !(std::fabs(x - y) <= rules.absolute)) {
      ADD_FAILURE() << tensor.name << "[" << i << "] is " << x << ", the reference says " << y << ": "
                    << distance << " ulp apart, allowed are " << rules.ulp << " or " << rules.absolute << "\n"
                    << program::print(program);
      return;
    }
  }
}

}  // namespace

Guarded::Guarded(std::uint64_t byte_count)
    : memory_(byte_count + 2 * kGuard, kGuardByte), byte_count_(byte_count) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  offset_ = 64 + (64 - address % 64) % 64;
}

bool Guarded::guards_are_whole() const {
  const auto whole = [](std::byte b) { return b == kGuardByte; };
  return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(offset_), whole) &&
         std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(offset_ + byte_count_), memory_.end(),
                     whole);
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables(8);
  tables.resize(static_cast<std::size_t>(usable_kernels(tables.data(), 8)));
  return tables;
}

Program read(std::string_view text) {
  return program::parse_and_verify(text).programs.at(0);
}

double element(Type type, const std::byte* data, std::uint64_t i) {
  switch (type) {
    case Type::kF64:
      return get<double>(data, i);
    case Type::kF32:
      return static_cast<double>(get<float>(data, i));
    case Type::kF16:
      return static_cast<double>(program::f16_to_f32(get<std::uint16_t>(data, i)));
    case Type::kBF16:
      return static_cast<double>(program::bf16_to_f32(get<std::uint16_t>(data, i)));
    case Type::kI64:
      return static_cast<double>(get<std::int64_t>(data, i));
    case Type::kI32:
      return get<std::int32_t>(data, i);
    case Type::kU32:
      return get<std::uint32_t>(data, i);
    default:
      return get<std::uint8_t>(data, i);
  }
}

double ulp_distance(Type type, double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) {
    return 0;
  }
  if (!program::is_float(type) || std::isnan(x) || std::isnan(y) || std::isinf(x) || std::isinf(y)) {
    return std::numeric_limits<double>::infinity();
  }
  const int digits = type == Type::kF64 ? 53 : type == Type::kF32 ? 24 : type == Type::kF16 ? 11 : 8;
  const int lowest = type == Type::kF64 ? -1022 : type == Type::kF16 ? -14 : -126;
  int exponent = 0;
  std::frexp(std::max(std::fabs(x), std::fabs(y)), &exponent);
  return std::fabs(x - y) / std::ldexp(1.0, std::max(exponent - 1, lowest) - digits + 1);
}

void run_on_cc(const Program& program, const std::vector<std::byte*>& arguments,
               const std::vector<std::int64_t>& symbols, int threads, const KernelTable* table) {
  const auto compiled = compile(program, threads, table);
  Workspace workspace(compiled->workspace_byte_count);
  BoundProgram bound(compiled, arguments, workspace.base);
  bound.launch(symbols);
  EXPECT_TRUE(workspace.guarded.guards_are_whole()) << "the workspace was overrun\n"
                                                    << program::print(program);
}

struct Launchable::Impl {
  std::vector<Guarded> memory;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<BoundProgram> bound;
};

Launchable::Launchable(const Program& program) : impl_(std::make_unique<Impl>()) {
  std::vector<std::byte*> arguments;
  impl_->memory.reserve(program.tensors.size());
  for (const std::uint32_t id : program.arguments()) {
    impl_->memory.emplace_back(program.tensors[id].byte_count());
    std::memset(impl_->memory.back().data(), 0, impl_->memory.back().byte_count());
    arguments.push_back(impl_->memory.back().data());
  }
  auto compiled = compile(program, 1, nullptr);
  impl_->workspace = std::make_unique<Workspace>(compiled->workspace_byte_count);
  impl_->bound = std::make_unique<BoundProgram>(std::move(compiled), arguments, impl_->workspace->base);
}

Launchable::~Launchable() = default;
void Launchable::launch() {
  impl_->bound->launch({});
}

namespace {

// One run on cc from the same start; gives back what it wrote.
std::vector<Guarded> run_and_compare(const Program& program, const std::vector<Guarded>& start,
                                     const std::vector<Guarded>& wanted, const Rules& rules,
                                     const KernelTable& table, const std::vector<std::int64_t>& symbols) {
  const std::vector<std::uint32_t> ids = program.arguments();
  std::vector<Guarded> got = start;
  std::vector<std::byte*> arguments;
  for (Guarded& memory : got) {
    arguments.push_back(memory.data());
  }
  run_on_cc(program, arguments, symbols, rules.threads, &table);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Tensor& tensor = program.tensors[ids[i]];
    EXPECT_TRUE(got[i].guards_are_whole()) << tensor.name << " was overrun\n" << program::print(program);
    if (tensor.role == Role::kIn) {
      EXPECT_EQ(std::memcmp(got[i].data(), start[i].data(), got[i].byte_count()), 0)
          << tensor.name << " was written";
    } else {
      compare(program, tensor, got[i].data(), wanted[i].data(), rules);
    }
  }
  return got;
}

}  // namespace

void expect_like_reference(const Program& program, std::uint64_t seed, const Rules& rules,
                           const std::vector<const KernelTable*>& tables,
                           const std::vector<std::int64_t>& symbols) {
  std::mt19937_64 random(seed);
  std::vector<Guarded> start;
  for (const std::uint32_t id : program.arguments()) {
    start.emplace_back(program.tensors[id].byte_count());
    fill(program.tensors[id], start.back().data(), random, rules);
  }
  std::vector<Guarded> wanted = start;
  std::vector<void*> pointers;
  for (Guarded& memory : wanted) {
    pointers.push_back(memory.data());
  }
  program::execute(program, pointers, symbols);

  for (const KernelTable* table : tables) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", kernels " + table->name + ", threads " +
                 std::to_string(rules.threads));
    std::vector<Guarded> first;
    for (int run = 0; run < rules.runs && !::testing::Test::HasFailure(); ++run) {
      std::vector<Guarded> got = run_and_compare(program, start, wanted, rules, *table, symbols);
      for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(std::memcmp(got[i].data(), first[i].data(), got[i].byte_count()), 0)
            << "argument " << i << " has other bits in another run\n"
            << program::print(program);
      }
      first = std::move(got);
    }
  }
}

void expect_like_reference(std::string_view text, std::uint64_t seed, const Rules& rules,
                           const std::vector<std::int64_t>& symbols) {
  expect_like_reference(read(text), seed, rules, all_tables(), symbols);
}

std::vector<std::string> notes_of(std::string_view text) {
  std::vector<std::string> notes;
  const auto compiled = compile(read(text), 1, nullptr);
  for (const Note& note : compiled->notes) {
    notes.push_back(note.reason);
  }
  return notes;
}

}  // namespace yoke::cc::test
