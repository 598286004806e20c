// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.cpp: maps the program format's types and operations to register types and kernels.
#include "op_map.h"

namespace yoke::cc {

using program::Op;
using program::Type;

Reg reg_of(Type type) {
  switch (type) {
    case Type::kF64:
      return Reg::kF64;
    case Type::kI64:
      return Reg::kI64;
    case Type::kI32:
      return Reg::kI32;
    case Type::kU32:
      return Reg::kU32;
    case Type::kU8:
    case Type::kBool:
      return Reg::kU8;
    default:
      return Reg::kF32;
  }
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
MapOp map_op(Op op) {
  switch (op) {
    case Op::kAdd:
      return MapOp::kAdd;
    case Op::kSub:
      return MapOp::kSub;
    case Op::kMul:
      return MapOp::kMul;
    case Op::kDiv:
      return MapOp::kDiv;
    case Op::kMod:
      return MapOp::kMod;
    case Op::kNeg:
      return MapOp::kNeg;
    case Op::kMin:
      return MapOp::kMin;
    case Op::kMax:
      return MapOp::kMax;
    case Op::kAbs:
      return MapOp::kAbs;
    case Op::kSign:
      return MapOp::kSign;
    case Op::kFloor:
      return MapOp::kFloor;
    case Op::kCeil:
      return MapOp::kCeil;
    case Op::kRound:
      return MapOp::kRound;
    case Op::kTrunc:
      return MapOp::kTrunc;
    case Op::kExp:
      return MapOp::kExp;
    case Op::kExp2:
      return MapOp::kExp2;
    case Op::kExpm1:
      return MapOp::kExpm1;
    case Op::kLog:
      return MapOp::kLog;
    case Op::kLog2:
      return MapOp::kLog2;
    case Op::kLog1p:
      return MapOp::kLog1p;
    case Op::kSqrt:
      return MapOp::kSqrt;
    case Op::kRsqrt:
      return MapOp::kRsqrt;
    case Op::kRecip:
      return MapOp::kRecip;
    case Op::kPow:
      return MapOp::kPow;
    case Op::kSin:
      return MapOp::kSin;
    case Op::kCos:
      return MapOp::kCos;
    case Op::kTanh:
      return MapOp::kTanh;
    case Op::kSigmoid:
      return MapOp::kSigmoid;
    case Op::kErf:
      return MapOp::kErf;
    case Op::kErfc:
      return MapOp::kErfc;
    case Op::kFma:
      return MapOp::kFma;
    case Op::kLess:
      return MapOp::kLess;
    case Op::kLessEqual:
      return MapOp::kLessEqual;
    case Op::kGreater:
      return MapOp::kGreater;
    case Op::kGreaterEqual:
      return MapOp::kGreaterEqual;
    case Op::kEqual:
      return MapOp::kEqual;
    case Op::kNotEqual:
      return MapOp::kNotEqual;
    case Op::kAnd:
    case Op::kBitAnd:
      return MapOp::kBitAnd;
    case Op::kOr:
    case Op::kBitOr:
      return MapOp::kBitOr;
    case Op::kBitXor:
      return MapOp::kBitXor;
    case Op::kNot:
      return MapOp::kNot;
    case Op::kBitNot:
      return MapOp::kBitNot;
    case Op::kShiftLeft:
      return MapOp::kShiftLeft;
    case Op::kShiftRight:
      return MapOp::kShiftRight;
    case Op::kSelect:
      return MapOp::kSelect;
    case Op::kRandomBits:
      return MapOp::kRandomBits;
    default:
      return MapOp::kCopy;
  }
}

bool is_exact(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kMin:
    case Op::kMax:
    case Op::kAbs:
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kSelect:
      return true;
    default:
      return false;
  }
}

bool is_half(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

}  // namespace yoke::cc
