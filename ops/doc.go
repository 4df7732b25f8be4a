// Package ops holds the operations on tensors: one typed entry per op, one file
// per op family, under the op's basename.
//
// Every op takes a stream first and returns its result at once, without an
// error: the work is appended to the stream, and runs later. An op with invalid
// operands poisons the stream with a *kompute.OpError and returns a tensor
// whose Err returns that error; ops enqueued afterwards do nothing, and the
// stream's Err, Synchronize and every read return the first error. So a whole
// model can be written as one expression and checked once:
//
//	h := ops.RMSNorm(s, x, weight, 1e-6)
//	h = ops.SiLUMul(s, ops.MatMul(s, h, gate), ops.MatMul(s, h, up))
//	y, err := ops.MatMul(s, h, down).Read(ctx)
//
// # How an op runs
//
// Take Softmax. This package checks the operands (not nil, not closed, on the
// stream's device, of a valid rank, shape and size), asks the stream for an
// uninitialised result, and enqueues a kompute.Op: a name, the views in the
// order of csrc/ops/ops.def, and the parameters. On a Vulkan device,
// csrc/ops/softmax.cpp chooses a kernel for these dtypes and layouts. On the
// CPU device, and where the Vulkan device does not support the op,
// fallback.Softmax runs. Calls that this package rejects never reach C++.
//
// # Common to all ops
//
// Operands may be any views: transposed, sliced, broadcast, at any offset. A
// result is always contiguous, and belongs to the innermost open scope of the
// stream. Only [SliceUpdate], [PagedUpdate], [Tally], [Penalize] and [Mask] return one
// of their operands, which they change in place. A result without elements costs no work.
//
// Floats of every type are computed in float32 and rounded once, to nearest
// even, when a 16-bit result is stored. Integers are computed in their own type
// and wrap around. Devices may take floats below the smallest normal one for zero;
// the CPU backend does not.
//
// Where Vulkan itself runs on the CPU, its driver may end long loops early and
// report no error. So calls whose rows are too long for it, from some 40,000 elements
// in a matrix product to millions in a scan, are computed by the CPU backend, or
// refused by a device opened with [kompute.WithStrict].
//
// # Errors
//
// Each op lists its own. All ops can fail with these, wrapped in a
// *kompute.OpError:
//
//   - kompute.ErrInvalid: an operand or the stream is nil, or a parameter is
//     out of its range
//   - kompute.ErrShape: ranks or shapes that do not fit
//   - kompute.ErrDevice: an operand belongs to another device than the stream
//   - kompute.ErrClosed: an operand was closed
//   - kompute.ErrDType: an element type that the op does not take, where Go's
//     types do not rule it out
//   - kompute.ErrTooLarge: an operand or the result has more elements than 32
//     bits can count, or the result takes more than 4 GiB
//   - the error of a failed operand, if one is the result of a rejected call
package ops
