// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/scalar.h: what each operation gives for each type, one value at a time.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>

namespace yoke::program {

// Floats are held in `number`, integers and bool in `integer`, always as a value of their type.
using Scalar = Literal;

Scalar convert(Type from, Type to, const Scalar& value);

// An operation over arguments of type `type`; for select the type of what is chosen.
Scalar apply(Op op, Type type, const Scalar* args);

// A fold of the reduction's values starts here; sum, prod, min, max, any, all.
Scalar neutral(Reduce reduce, Type type);
Op fold_of(Reduce reduce);

// Whether argmax (or argmin) takes `value` in place of `best`: strictly beyond it, or the first NaN.
bool beats(Reduce reduce, Type type, const Scalar& value, const Scalar& best);

Scalar load(Type type, const void* at, std::int64_t element);
void store(Type type, void* at, std::int64_t element, const Scalar& value);

}  // namespace yoke::program
