// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/generator.cpp: chooses sizes, symbols, tensors and forms of statements.
#include "generator.h"

#include <yoke/program/text.h>

#include <algorithm>

#include "edit.h"
#include "generator_impl.h"
#include "type_rules.h"

namespace yoke::conformance {

using program::Access;
using program::Assign;
using program::Reduce;
using program::Role;
using program::Statement;
using program::Tensor;
using program::Type;

namespace {

constexpr Type kTypes[] = {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64,
                           Type::kI32, Type::kU32, Type::kU8,  Type::kBool};

struct Subject {
  program::Op op;
  Type type;
};

// Every op on every type of the mask that it accepts.
std::vector<Subject> subjects(std::uint64_t mask) {
  std::vector<Subject> all;
  for (std::size_t op = 0; op < program::kOpCount; ++op) {
    if (program::op_info(static_cast<program::Op>(op)).arity < 0) {
      continue;
    }
    for (const Type type : kTypes) {
      const auto one = static_cast<program::Op>(op);
      const bool has_type = (mask >> static_cast<unsigned>(type) & 1U) != 0;
      const bool has_bool = (mask >> static_cast<unsigned>(Type::kBool) & 1U) != 0;
      const program::Family family = program::op_info(one).family;
      const bool of_bool = family == program::Family::kChoice || family == program::Family::kComparison ||
                           family == program::Family::kLogic;
      if (has_type && (has_bool || !of_bool) && takes_type(one, type)) {
        all.push_back({one, type});
      }
    }
  }
  return all;
}

constexpr std::uint64_t kFormCount = 20;
constexpr std::uint64_t kVastIterations = 150'000;

// Whether a program is neither small nor slow.
bool is_vast(const Case& one) {
  std::uint64_t all = 0;
  for (const Statement& statement : one.program.statements) {
    std::uint64_t iterations = statement.repeat < 0 ? 1 : 4;
    for (const program::Loop& loop : statement.loops) {
      iterations *= loop.extent;
    }
    all += iterations;
  }
  for (const Tensor& tensor : one.program.tensors) {
    all += tensor.element_count();
  }
  return all >= 60'000 && all <= 8 * kVastIterations;
}

}  // namespace

bool takes_type(program::Op op, Type type) {
  if (op == program::Op::kConst || op == program::Op::kRead || op == program::Op::kCast ||
      op == program::Op::kGuard) {
    return true;
  }
  if (op == program::Op::kIndex) {
    return type == Type::kI64;
  }
  std::vector<Type> types(static_cast<std::size_t>(program::op_info(op).arity), type);
  if (op == program::Op::kSelect) {
    types[0] = Type::kBool;
  }
  std::string reason;
  return program::result_type(op, types, reason).has_value();
}

Generator::Generator(std::uint64_t seed, std::uint64_t index, const GeneratorOptions& options,
                     std::uint64_t attempt)
    : options_(options), random_(seed, "program", index + attempt * (std::uint64_t{1} << 32U)) {
  case_.seed = seed;
  case_.index = index;
  case_.program.name = "p" + std::to_string(index);
}

Case Generator::make() {
  choose_sizes();
  choose_symbols();
  feature(case_.index);
  const std::uint64_t more = options_.chains ? 4 + random_.below(12) : random_.below(options_.vast ? 3 : 6);
  for (std::uint64_t i = 0; i < more; ++i) {
    any_form();
  }
  if (case_.program.statements.empty()) {
    map_form({}, number_type());
  }
  show_results();
  repeat_statements();
  group_by_hints();
  share_arguments();
  choose_launches();
  return std::move(case_);
}

// The subject of a program: one op on one type for even numbers, one form of statement for odd ones. A
// form that needs a type outside the mask is replaced by a map.
void Generator::feature(std::uint64_t number) {
  static constexpr void (*kForms[kFormCount])(Generator&) = {
      [](Generator& g) { g.reduce_form(Reduce::kSum); },
      [](Generator& g) { g.reduce_form(Reduce::kProd); },
      [](Generator& g) { g.reduce_form(Reduce::kMin); },
      [](Generator& g) { g.reduce_form(Reduce::kMax); },
      [](Generator& g) { g.bool_reduce_form(Reduce::kAny); },
      [](Generator& g) { g.bool_reduce_form(Reduce::kAll); },
      [](Generator& g) { g.arg_form(Reduce::kArgMax); },
      [](Generator& g) { g.arg_form(Reduce::kArgMin); },
      [](Generator& g) { g.contraction_form(); },
      [](Generator& g) { g.contraction_form(); },
      [](Generator& g) { g.convolution_form(); },
      [](Generator& g) { g.gather_form(); },
      [](Generator& g) { g.scatter_form(); },
      [](Generator& g) { g.accumulate_form(); },
      [](Generator& g) { g.split_form(); },
      [](Generator& g) { g.partial_form(); },
      [](Generator& g) { g.radix_form(); },
      [](Generator& g) { g.softmax_form(); },
      [](Generator& g) { g.random_form(); },
      [](Generator& g) { g.in_place_form(); }};
  if (number % 2 == 0) {
    const std::vector<Subject> all = subjects(options_.type_mask);
    const Subject& subject = all[number / 2 % all.size()];
    map_form(subject.op, subject.type);
    return;
  }
  kForms[number / 2 % kFormCount](*this);
}

void Generator::any_form() {
  if (options_.chains && chance(25)) {
    return chance(50) ? repeat_form() : copy_form();
  }
  if (chance(45)) {
    return map_form({}, number_type());
  }
  feature(1 + 2 * random_.below(kFormCount));
}

// An earlier statement again, into a new tensor.
void Generator::repeat_form() {
  const auto& statements = case_.program.statements;
  if (statements.empty()) {
    return map_form({}, number_type());
  }
  Statement again = statements[random_.below(statements.size())];
  const std::uint32_t from = again.target.tensor;
  const auto writes_it = [&](const Statement& one) { return one.target.tensor == from; };
  if (again.assign != Assign::kSet || !known_[from].whole ||
      std::count_if(statements.begin(), statements.end(), writes_it) != 1 ||
      case_.program.tensors[from].role == Role::kInOut) {
    return map_form({}, number_type());  // it may write only a part
  }
  const Tensor source = case_.program.tensors[from];
  again.target.tensor = add_result(source.type, source.dims);
  again.hint = -1;
  known_[again.target.tensor] = {true, known_[from].exact};
  case_.program.statements.push_back(std::move(again));
}

// y[i, ..] = t[i, ..]
void Generator::copy_form() {
  const auto from = readable(number_type(), false);
  if (!from) {
    return map_form({}, number_type());
  }
  const Tensor source = case_.program.tensors[*from];
  const std::uint32_t target = add_result(source.type, source.dims);
  plain_target(target);
  Access access = statement_.target;
  access.tensor = *from;
  finish(Expr::read(source.type, std::move(access)), known_[*from].exact);
}

std::optional<Type> Generator::type_where(bool (*fits)(Type)) {
  std::vector<Type> types;
  for (const Type type : kTypes) {
    if (has(type) && fits(type)) {
      types.push_back(type);
    }
  }
  if (types.empty()) {
    return std::nullopt;
  }
  return types[random_.below(types.size())];
}

Type Generator::number_type() {
  // Prefers f32, the most common type.
  if (has(Type::kF32) && chance(35)) {
    return Type::kF32;
  }
  const auto number = type_where([](Type type) { return type != Type::kBool; });
  return number.value_or(Type::kBool);
}

void Generator::choose_sizes() {
  if (options_.chains) {  // few, so that many reads match a temporary
    if (options_.large) {
      pool_ = {one_of<std::uint64_t>({7, 8, 9, 15, 16, 17}), one_of<std::uint64_t>({31, 32, 33, 63, 64, 65}),
               chance(20) ? 1U : one_of<std::uint64_t>({127, 128, 129, 255, 256, 257})};
      iteration_limit_ = 20000;
    } else {
      pool_ = {2 + random_.below(3), 3 + random_.below(3), chance(20) ? 1U : 4U};
      iteration_limit_ = 2000;
    }
    return;
  }
  if (options_.vast) {
    pool_ = {2 + random_.below(7), one_of<std::uint64_t>({31, 32, 33, 63, 64, 65, 100, 129}),
             one_of<std::uint64_t>({255, 256, 257, 300, 511, 1000, 1024, 1025, 1537, 4095, 4097}),
             one_of<std::uint64_t>({8193, 20011, 40000, 65535, 65536, 65537, 70001, 98304, 131073})};
    iteration_limit_ = kVastIterations;
    return;
  }
  const std::uint64_t size_class = random_.below(100);
  for (int i = 0; i < 4; ++i) {
    pool_.push_back(size_class < 55 ? 1 + random_.below(6) : 1 + random_.below(40));
  }
  if (chance(35)) {
    pool_.push_back(1);
  }
  if (chance(35)) {
    pool_.push_back(one_of<std::uint64_t>({7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65}));
  }
  if (options_.large && size_class >= 94) {
    pool_.push_back(one_of<std::uint64_t>({127, 128, 129, 255, 300, 512, 513, 1023, 1024, 1025, 1500}));
    iteration_limit_ = 200000;
  }
}

// Makes most temporaries that are never read results; otherwise their values would not be checked.
void Generator::show_results() {
  std::vector<bool> is_read(case_.program.tensors.size());
  const auto visit = [&](const auto& self, const program::Expr& expr) -> void {
    if (expr.op == program::Op::kRead) {
      is_read[expr.access.tensor] = true;
    }
    for (const program::Expr& argument : expr.args) {
      self(self, argument);
    }
  };
  for (const program::Statement& statement : case_.program.statements) {
    visit(visit, statement.value);
  }
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    program::Tensor& tensor = case_.program.tensors[i];
    if (tensor.role == Role::kTemp && !is_read[i] && chance(90)) {
      tensor.role = Role::kOut;
    }
  }
}

void Generator::choose_symbols() {
  const std::uint64_t count = chance(45) ? 1 + random_.below(2) : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    program::Symbol symbol;
    symbol.name = i == 0 ? "base" : "shift";
    symbol.step = one_of<std::int64_t>({1, 1, 2, 3, 5});
    symbol.low = random_.between(-3, 4);
    // The last value may be less than one step below the end.
    const std::int64_t values = random_.between(1, 4);
    symbol.high = symbol.low + (values - 1) * symbol.step + random_.between(1, symbol.step);
    case_.program.symbols.push_back(symbol);
  }
}

void Generator::choose_launches() {
  const std::span symbols(case_.program.symbols.data(), case_.program.launch_symbol_count());
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> other;
  for (const program::Symbol& symbol : symbols) {
    const std::int64_t steps = (symbol.high - 1 - symbol.low) / symbol.step;
    first.push_back(symbol.low);
    last.push_back(symbol.low + steps * symbol.step);
    other.push_back(symbol.low + random_.between(0, steps) * symbol.step);
  }
  case_.launches = {first};
  for (const auto& values : {last, other}) {
    if (std::find(case_.launches.begin(), case_.launches.end(), values) == case_.launches.end()) {
      case_.launches.push_back(values);
    }
  }
}

// A run of statements gets a hint, and promises to share a loop if it can.
void Generator::group_by_hints() {
  auto& statements = case_.program.statements;
  for (std::size_t i = 0; i < statements.size();) {
    if (!chance(20) || statements[i].hint >= 0) {
      ++i;
      continue;
    }
    const auto number = static_cast<std::int32_t>(case_.program.hints.size());
    const bool has_loop = statements[i].loops.size() > statements[i].reduce_loops.size();
    if (has_loop && chance(60)) {
      case_.program.hints.push_back({"fused", {statements[i].loops[0].name}});
    } else {
      case_.program.hints.push_back({one_of<const char*>({"softmax", "attention", "group"}), {}});
    }
    const std::size_t begin = i;
    const std::size_t end = std::min(statements.size(), i + 1 + random_.below(4));
    const std::int32_t repeat = statements[i].repeat;
    for (; i < end && statements[i].hint < 0 && statements[i].repeat == repeat; ++i) {
      statements[i].hint = number;
    }
    renumber_hints(case_.program);
    while (i > begin && !verifies()) {
      statements[--i].hint = -1;  // does not fit into the group
      renumber_hints(case_.program);
    }
    i = std::max(i, begin + 1);
  }
}

// A limit of the forms, which are made for small programs.
std::uint64_t Generator::scaled(std::uint64_t limit) const {
  return options_.vast ? std::min(limit * 250, iteration_limit_) : limit;
}

std::uint64_t Generator::extent(std::uint64_t limit) {
  const std::uint64_t wanted = pool_[random_.below(pool_.size())];
  return wanted <= limit ? wanted : std::max<std::uint64_t>(1, std::min<std::uint64_t>(limit, 3));
}

std::size_t Generator::rank() {
  const std::uint64_t draw = random_.below(100);
  return draw < 8 ? 0 : draw < 34 ? 1 : draw < 66 ? 2 : draw < 84 ? 3 : draw < 92 ? 4 : 5 + random_.below(4);
}

Generator::Dims Generator::dims(std::size_t rank, std::uint64_t limit) {
  Dims made;
  if (options_.vast) {
    rank = std::max<std::size_t>(std::min<std::size_t>(rank, 5), chance(90) ? 1 : 0);
    limit = scaled(limit);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    // Tensors of high rank have small dimensions.
    made.push_back(rank > 4 ? extent(std::min<std::uint64_t>(limit, 3)) : extent(limit));
    limit /= made.back();
  }
  return made;
}

std::uint32_t Generator::add_tensor(Type type, Dims dims, Role role, DataKind kind, std::int64_t limit) {
  const char* prefix = role == Role::kIn ? "x" : role == Role::kInOut ? "s" : role == Role::kOut ? "y" : "t";
  program::Tensor tensor;
  tensor.name = prefix + std::to_string(names_++);
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.role = role;
  case_.program.tensors.push_back(std::move(tensor));
  case_.data.push_back({kind, kind == DataKind::kSparse ? random_.between(4, 60) : limit, -1});
  known_.push_back({role == Role::kIn || role == Role::kInOut, true});
  return static_cast<std::uint32_t>(case_.program.tensors.size() - 1);
}

std::uint32_t Generator::add_result(Type type, Dims dims) {
  const std::uint64_t draw = random_.below(100);
  const std::uint64_t out_share = options_.chains ? 15 : 45;
  const Role role = draw < out_share ? Role::kOut : draw < 85 ? Role::kTemp : Role::kInOut;
  return add_tensor(type, std::move(dims), role, DataKind::kDyadic);
}

Case generate_case(std::uint64_t seed, std::uint64_t index, const GeneratorOptions& options) {
  Case made = Generator(seed, index, options).make();
  for (std::uint64_t attempt = 1; options.vast && attempt < 50 && !is_vast(made); ++attempt) {
    made = Generator(seed, index, options, attempt).make();
  }
  return made;
}

}  // namespace yoke::conformance
