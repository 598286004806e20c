// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/builder.h: translates expressions to a kernel's operations.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel.h"
#include "op_map.h"

namespace yoke::cc {

// Whether the access needs a check of its elements, one by one or row by row.
bool is_bounded(const program::Program& program, const program::Statement& statement,
                const program::Access& access, bool is_target);

class KernelBuilder {
 public:
  KernelBuilder(const program::Program& program, std::span<const std::uint32_t> statements,
                const std::vector<Store>& stores, const KernelTable& table, const Original& original);
  TileKernel build();

 private:
  // The values of one expression over the tile: a virtual register or,
  // with kStreamBit set, a stream used in place.
  struct Value {
    std::uint16_t id = 0;
    std::uint8_t mask = 0;
    Reg reg = Reg::kF32;
    bool invariant = false;  // the same for the whole launch
  };
  struct Virtual {
    std::int64_t element_size = 4;
    std::uint8_t mask = 0;
    bool persistent = false;
    std::int32_t home = -1;  // the stream that stores the value instead of a register; -1: a register
  };
  static constexpr std::uint16_t kStreamBit = 0x8000;
  using Key = std::tuple<int, int, int, int, int, int, int>;

  // Loops.
  void schedule();
  Form to_kernel(const Form& form) const;
  std::uint8_t mask_of(const Form& form) const;
  bool in_place(const Form& form, std::uint8_t mask) const;
  bool is_bounded(const program::Access& access, bool is_target) const {
    return cc::is_bounded(program_, *statement_, access, is_target);
  }

  // Values.
  Value fresh(Reg reg, std::uint8_t mask, bool invariant, std::int64_t element_size = 0);
  void emit(const Instr& instr, bool invariant);
  Value expand(Value value, std::uint8_t mask);
  Value map(MapOp op, Reg result, Value a, const Value* b = nullptr, const Value* c = nullptr);
  // find(scalars) is the loop of the operation that `op` identifies.
  template <class Find>
  Value map_with(const Find& find, int op, Reg type, Reg result, Value a, const Value* b, const Value* c,
                 std::int64_t element_size);
  Value cast(Value value, program::Type from, program::Type to);
  Value cast_reg(Value value, Reg to, bool to_bool = false);
  Value constant(program::Type type, const program::Literal& literal);
  Value loop_value(const Form& form);
  Value expression(const program::Expr& expr);
  Value operation(const program::Expr& expr);
  std::optional<Value> operation_pair(const program::Expr& expr);
  Value guarded(const program::Expr& expr);
  Value rounded(Value value, program::Type type);

  // Memory.
  std::uint16_t stream(std::uint32_t tensor, const Form& form);
  Value load(const program::Access& access);
  Value load_linear(std::uint32_t tensor, const Form& form);
  Value widened(Value raw, program::Type type);
  std::uint32_t bounded(const program::Access& access, std::uint8_t& mask, bool is_target);
  Value element_value(const program::Index& index);
  Value load_bounded(const program::Access& access);
  // Writes the value of the statement, which is computed from instruction `first_instr` of the segment on.
  void write(Value value, std::size_t first_instr);
  void store(Value value, std::size_t first_instr);
  void scatter(Value value, MapOp op);

  void elementwise();
  void reduction();
  std::optional<Value> row_reduction();
  Reduction& begin_reduction(Value value);
  void finish();
  void allocate();
  std::vector<std::size_t> last_uses(const std::vector<const Instr*>& order) const;

  const program::Program& program_;
  std::span<const std::uint32_t> statements_;
  const std::vector<Store>& stores_;
  const KernelTable& table_;
  const Original& original_;
  const program::Statement* statement_ = nullptr;  // being translated
  TileKernel kernel_;
  std::vector<Instr>* segment_ = nullptr;
  std::vector<Virtual> virtuals_;
  std::map<Key, Value> known_;              // values by operation: equal ones are computed once
  std::map<std::uint32_t, Value> written_;  // per tensor: the current value
  std::vector<Value>* inside_ = nullptr;    // of the reads that the guard being translated covers
  std::uint8_t present_ = 0;                // mask of the tile
  std::uint8_t target_mask_ = 0;            // mask of the target
  std::uint8_t row_mask_ = 0;               // mask of a value per row
  bool spans_rows_ = false;                 // the statements have row roles
  std::size_t loop_count_ = 0;              // of the statement with the most loops
  std::size_t place_ = 0;                   // of statement_ among statements_
  std::uint32_t carry_count_ = 0;
};

}  // namespace yoke::cc
