// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/scalar.h: the operations on single values.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>

namespace yoke::program {

// Floats are stored in `number`, integers and bool in `integer`. The value always fits its type.
using Scalar = Literal;

Scalar convert(Type from, Type to, const Scalar& value);

// Applies an operation to arguments of type `type`. For select, it is the type of the last two arguments.
Scalar apply(Op op, Type type, const Scalar* args);

// The initial value and the operation of a reduction: sum, prod, min, max, any, all.
Scalar neutral(Reduce reduce, Type type);
Op fold_of(Reduce reduce);

// Whether argmax (or argmin) replaces `best` by `value`: `value` is strictly
// larger (smaller), or is the first NaN.
bool beats(Reduce reduce, Type type, const Scalar& value, const Scalar& best);

Scalar load(Type type, const void* at, std::int64_t element);
void store(Type type, void* at, std::int64_t element, const Scalar& value);

}  // namespace yoke::program
