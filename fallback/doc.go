// Package fallback runs every op on the CPU, in Go. It is the whole CPU backend,
// and what other devices fall back on if they lack a kernel. Each op has a file
// with the basename that it has in every layer.
//
// Ops take host arrays of any offset and of any strides that are not negative; an
// absent operand is the zero array. The caller allocates outputs in the right shape.
// Operands that csrc/ops/ops.def marks with an exclamation mark, such as the pages of
// PagedUpdate, are changed in place. An output must not overlap an operand, except
// that the output of an element-wise op may be exactly the view of an operand.
//
// Arithmetic on floats runs in float32, whatever the elements are, and is
// rounded once when it is stored, to the nearest, ties to even.
//
// Results do not depend on the number of threads. Except in MatMul, they do not
// depend on the layout of the operands either: a view and its copy give the same
// bits.
//
// Every op checks its operands again and returns an error that wraps ErrInvalid,
// naming the op, the operand and the reason. Large ops use GOMAXPROCS threads;
// any number of goroutines may call ops at once.
package fallback
