"""Bitwise operations and divisors of integers and booleans. The array library refuses other dtypes."""

from __future__ import annotations

import operator

from ndgrad._src.ops.table import elementwise

bitwise_and = elementwise("bitwise_and", operator.and_, args="x y", moves_values=True, commutes=True)
bitwise_or = elementwise("bitwise_or", operator.or_, args="x y", moves_values=True, commutes=True)
bitwise_xor = elementwise("bitwise_xor", operator.xor, args="x y", moves_values=True, commutes=True)
bitwise_not = elementwise("bitwise_not", operator.invert, moves_values=True)
bitwise_left_shift = elementwise("bitwise_left_shift", operator.lshift, args="x y")
bitwise_right_shift = elementwise("bitwise_right_shift", operator.rshift, args="x y")
gcd = elementwise("gcd", "gcd", args="x y")
lcm = elementwise("lcm", "lcm", args="x y")
