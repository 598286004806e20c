// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/random_text_test.cpp: random programs make the round trip, and broken texts never crash.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "corpus.h"

namespace yoke::program {
namespace {

// YOKE_TEST_SEED repeats a run; the seed is printed with every failure.
std::uint32_t seed() {
  const char* text = std::getenv("YOKE_TEST_SEED");
  static const std::uint32_t value =
      text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : std::random_device()();
  return value;
}

constexpr Type kTypes[] = {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64,
                           Type::kI32, Type::kU32, Type::kU8,  Type::kBool};

// Builds valid programs through the data structures, the way a frontend does.
class Generator {
 public:
  explicit Generator(std::uint32_t from) : random_(from) {}

  Program program() {
    Program result;
    result.name = "p";
    result.symbols = {{"s", -2, 3, 1, {}}, {"t", 0, 8, 4, {}}};
    for (std::size_t i = 0; i < std::size(kTypes); ++i) {
      const std::string name(type_name(kTypes[i]));
      result.tensors.push_back({"in_" + name, kTypes[i], {4, 3}, Role::kIn, {}});
      result.tensors.push_back({"io_" + name, kTypes[i], {4, 3}, Role::kInOut, {}});
    }
    const int count = below(6) + 1;
    for (int i = 0; i < count; ++i) {
      result.statements.push_back(statement());
      if (below(4) == 0) {
        result.statements.back().hint = static_cast<std::int32_t>(result.hints.size());
        result.hints.push_back("hint");
      }
    }
    return result;
  }

 private:
  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  std::uint32_t in_tensor(Type type) const { return 2 * (static_cast<std::uint32_t>(type) - 1); }
  Type type() { return kTypes[below(9)]; }
  Type float_type() { return kTypes[below(4)]; }
  Type integer_type() { return kTypes[4 + below(4)]; }

  Statement statement() {
    Statement result;
    const Type target = type();
    loops_ = {{"i", 4}, {"j", below(3) == 0 ? 2U : 3U}};
    result.target = {in_tensor(target) + 1, {{Affine::loop(0), {}, {}}, {Affine::loop(1), {}, {}}}, {}};
    Type value = target;
    if (target != Type::kBool && below(3) == 0) {
      loops_.push_back({"k", static_cast<std::uint64_t>(below(4) + 1)});
      result.reduce_loops = {2};
      result.reduce = static_cast<Reduce>(below(4));
      if (byte_size(target) == 2) {
        result.accumulator = below(2) == 0 ? Type::kF32 : Type::kF64;
        value = below(2) == 0 ? target : Type::kF32;
      } else if (target == Type::kI32 && below(2) == 0) {
        result.accumulator = Type::kI64;
        value = below(2) == 0 ? Type::kI32 : Type::kU8;
      }
    } else if (target == Type::kBool && below(2) == 0) {
      loops_.push_back({"k", 2});
      result.reduce_loops = {2};
      result.reduce = below(2) == 0 ? Reduce::kAny : Reduce::kAll;
    }
    if (target != Type::kBool) {
      result.assign = static_cast<Assign>(below(5));
    }
    result.value = expr(value, below(6));
    result.loops = loops_;
    return result;
  }

  Affine affine() {
    Affine result;
    result.constant = below(9) - 4;
    for (std::uint32_t loop = 0; loop < loops_.size(); ++loop) {
      if (below(2) == 0) {
        result.terms.push_back({false, loop, below(2) == 0 ? 1 : below(2) == 0 ? -3 : 2});
      }
    }
    for (std::uint32_t symbol = 0; symbol < 2; ++symbol) {
      if (below(4) == 0) {
        result.terms.push_back({true, symbol, below(2) == 0 ? 1 : -2});
      }
    }
    return result;
  }

  Expr read(Type of) {
    Access access{in_tensor(of), {{Affine::loop(0), {}, {}}, {Affine::loop(1), {}, {}}}, {}};
    if (below(3) != 0) {
      access.indices[0].affine = affine();
      access.otherwise = constant(of).literal;
      if (below(3) == 0) {
        access.indices[1] = {{}, in_tensor(integer_type()), {Affine::loop(0), Affine::number(below(3))}};
      }
    }
    return Expr::read(of, access);
  }

  Expr constant(Type of) {
    constexpr double kValues[] = {0.0, -0.0, 1.0, -1.0, 0.1, 1e-7, 6e4, 255, -1.0 / 3};
    Expr result = Expr::constant(of, kValues[below(9)]);
    if (is_float(of) && below(12) == 0) {
      result.literal.number = below(2) == 0 ? -1 / 0.0 : 0 * (1 / 0.0);
    }
    return result;
  }

  Op one_of(std::initializer_list<Op> ops) { return ops.begin()[below(static_cast<int>(ops.size()))]; }

  Expr leaf(Type of) {
    if (of == Type::kI64 && below(3) == 0) {
      return below(2) == 0
                 ? Expr::index_loop(static_cast<std::uint32_t>(below(static_cast<int>(loops_.size()))))
                 : Expr::index_symbol(static_cast<std::uint32_t>(below(2)));
    }
    return below(2) == 0 ? constant(of) : read(of);
  }

  Expr expr(Type of, int depth) {
    if (depth <= 0) {
      return leaf(of);
    }
    const int choice = below(10);
    if (choice == 0) {
      return Expr::cast(of, expr(type(), depth - 1));
    }
    if (choice == 1) {
      return Expr::make(Op::kSelect,
                        {expr(Type::kBool, depth - 1), expr(of, depth - 1), expr(of, depth - 1)});
    }
    if (of == Type::kU32 && choice == 2) {
      return Expr::make(Op::kRandomBits,
                        {expr(Type::kI64, depth - 1), expr(Type::kI64, 0), expr(Type::kI64, 0)});
    }
    if (of == Type::kBool) {
      return boolean(choice, depth);
    }
    const auto arg = [&] { return expr(of, depth - 1 - below(2)); };
    if (is_integer(of) && choice < 6) {
      return choice == 5 ? Expr::make(Op::kBitNot, {arg()})
                         : Expr::make(one_of({Op::kBitAnd, Op::kBitOr, Op::kBitXor, Op::kShiftLeft,
                                              Op::kShiftRight, Op::kMod}),
                                      {arg(), arg()});
    }
    if (is_float(of) && choice < 6) {
      return choice == 5 ? Expr::make(Op::kFma, {arg(), arg(), arg()})
                         : Expr::make(one_of({Op::kExp, Op::kLog1p, Op::kTanh, Op::kFloor, Op::kRound,
                                              Op::kErf, Op::kRecip}),
                                      {arg()});
    }
    return choice < 7 ? Expr::make(one_of({Op::kNeg, Op::kAbs, Op::kSign}), {arg()})
                      : Expr::make(one_of({Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax}),
                                   {arg(), arg()});
  }

  Expr boolean(int choice, int depth) {
    if (choice < 4) {
      return Expr::make(one_of({Op::kAnd, Op::kOr}),
                        {expr(Type::kBool, depth - 1), expr(Type::kBool, depth - 1)});
    }
    if (choice == 4) {
      return Expr::make(Op::kNot, {expr(Type::kBool, depth - 1)});
    }
    const Type of = kTypes[below(8)];
    return Expr::make(
        one_of({Op::kLess, Op::kLessEqual, Op::kGreater, Op::kGreaterEqual, Op::kEqual, Op::kNotEqual}),
        {expr(of, depth - 1), expr(of, depth - 1)});
  }

  std::mt19937 random_;
  std::vector<Loop> loops_;
};

void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(a.hints, b.hints);
  ASSERT_EQ(a.statements.size(), b.statements.size());
  for (std::size_t i = 0; i < a.statements.size(); ++i) {
    const Statement& x = a.statements[i];
    const Statement& y = b.statements[i];
    EXPECT_TRUE(x.loops == y.loops && x.target == y.target && x.assign == y.assign && x.reduce == y.reduce &&
                x.reduce_loops == y.reduce_loops && x.accumulator == y.accumulator && x.hint == y.hint &&
                same(x.value, y.value))
        << print(a, x) << "\nbecame\n"
        << print(b, y);
  }
}

TEST(RandomPrograms, MakeTheRoundTripAndVerify) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  for (std::uint32_t i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    const Program program = Generator(seed() + i).program();
    ASSERT_NO_THROW(verify(program)) << print(program);
    const std::string text = print(program);
    Module again;
    ASSERT_NO_THROW(again = parse(text)) << text;
    expect_same(program, again.programs.at(0));
    EXPECT_EQ(print(again), text);
    EXPECT_EQ(error_of(text), "accepted") << text;
  }
}

// What the verifier accepts runs without leaving its buffers; the address sanitizer sees it if not.
TEST(RandomPrograms, RunWithoutLeavingTheirBuffers) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  std::mt19937 random(seed());
  for (std::uint32_t i = 0; i < 300; ++i) {
    const Program program = Generator(seed() + i).program();
    std::vector<std::vector<std::uint8_t>> buffers;
    std::vector<void*> arguments;
    for (const Tensor& tensor : program.tensors) {
      buffers.emplace_back(static_cast<std::size_t>(tensor.byte_count()));
      for (std::uint8_t& byte : buffers.back()) {
        byte = static_cast<std::uint8_t>(random() % (tensor.type == Type::kBool ? 2 : 256));
      }
    }
    for (auto& buffer : buffers) {
      arguments.push_back(buffer.data());
    }
    const std::vector<std::int64_t> symbols = {static_cast<std::int64_t>(random() % 5) - 2,
                                               static_cast<std::int64_t>(random() % 2) * 4};
    const auto before = buffers;
    execute(program, arguments, symbols);
    const auto after = buffers;
    for (std::size_t t = 0; t < buffers.size(); ++t) {
      if (program.tensors[t].role == Role::kIn) {
        EXPECT_EQ(after[t], before[t]) << program.tensors[t].name << " in\n" << print(program);
      }
      std::copy(before[t].begin(), before[t].end(), buffers[t].begin());
    }
    execute(program, arguments, symbols);
    EXPECT_EQ(buffers, after) << "a second run gave other bytes\n" << print(program);
  }
}

TEST(BrokenTexts, EveryPrefixIsReadOrRefused) {
  for (const std::string& text : corpus()) {
    for (std::size_t length = 0; length < text.size(); ++length) {
      const std::string message = error_of(text.substr(0, length));
      EXPECT_FALSE(message.empty());
      // Only what lacks nothing but the last line's end is whole.
      if (length + 1 < text.size() && text.substr(length).find("program second") == std::string::npos) {
        EXPECT_NE(message, "accepted") << text.substr(0, length);
      }
    }
  }
}

TEST(BrokenTexts, WithChangedBytesAreReadOrRefused) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  std::mt19937 random(seed());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = corpus()[random() % corpus().size()];
    const std::size_t changes = random() % 4 + 1;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
        default:
          text[at] = "()[]{}*+-<>=,:.@0129aijn"[random() % 24];
          break;
      }
    }
    try {
      const Module module = parse(text);
      EXPECT_EQ(print(parse(print(module))), print(module)) << text;
      verify(module);
    } catch (const ProgramError& error) {
      ++refused;
      EXPECT_FALSE(error.reason().empty());
    }
  }
  EXPECT_GT(refused, 1000);  // most changes break a text
}

}  // namespace
}  // namespace yoke::program
