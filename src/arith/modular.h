// Arithmetic of divisibility: what is known of a number is its remainder modulo some modulus.
#pragma once
#include "arith/facts.h"

namespace tl {

inline Modular modular_point(int64_t v) { return {0, v}; }
Modular modular_constant(int64_t value, DType type);
int64_t gcd(int64_t a, int64_t b);    // of the magnitudes; gcd(0, b) is b
Modular normalised(Modular m);        // the remainder in [0, modulus)
Modular unite(Modular a, Modular b);  // what holds of both
// What is known of a number for which both hold.
Modular combine(Modular a, Modular b);
// The remainder modulo m, if known.
std::optional<int64_t> remainder_by(Modular a, int64_t m);

Modular modular_scaled(Modular a, int64_t factor);
Modular modular_sum(Modular a, Modular b);
// After wrapping to the type, only the power of two in the modulus remains.  `data`: an i64 wraps, too.
Modular modular_wrapped(Modular a, DType type, bool data = false);

Modular modular_of(UnaryOp op, Modular a);
Modular modular_of(BinaryOp op, Modular a, Modular b);  // over the integers: before any wrapping
// The smallest interval with the same members.
Interval tighten(Interval range, Modular m);

}  // namespace tl
