// Package ops holds the operations on tensors: one typed entry per op, one file
// per op family, under the op's basename.
//
// Every op takes a stream first, returns its result at once and never an error:
// the work is appended to the stream, and runs later. An op that is called with
// something it cannot take poisons the stream with a *kompute.OpError and
// returns a tensor whose Err says why; what is enqueued afterwards does
// nothing, and the first error comes back from the stream's Err and Synchronize
// and from every read. So a whole model can be written as one expression and
// checked once:
//
//	h := ops.RMSNorm(s, x, weight, 1e-6)
//	h = ops.SiLUMul(s, ops.MatMul(s, h, gate), ops.MatMul(s, h, up))
//	y, err := ops.MatMul(s, h, down).Read(ctx)
//
// # The way of an op
//
// Take Softmax. This package checks the operands (not nil, not closed, of the
// stream's device, of a rank, shape and size that fits), asks the stream for an
// uninitialised result, and enqueues a kompute.Op: a name, the views in the
// order that csrc/ops/op_params.h gives, and the parameters. On a Vulkan device,
// csrc/ops/softmax.cpp chooses a kernel for these dtypes and layouts. On the
// CPU device, and for what the Vulkan device cannot do, fallback.Softmax runs.
// Nothing that this package refuses reaches C++.
//
// # What all ops have in common
//
// Operands may be any views: transposed, sliced, broadcast, at any offset. A
// result is always contiguous, and belongs to the innermost open scope of the
// stream; only [SliceUpdate] returns one of its operands, which it has changed.
// Results with no elements are returned without any work.
//
// Floats are computed in float32, whichever float type the operands have, and
// rounded once, to nearest even, when a result of 16 bits is stored. Integers are
// computed in their own type and wrap around.
//
// # Errors
//
// Each op lists its own. Common to all are, wrapped in a *kompute.OpError:
//
//   - kompute.ErrInvalid: an operand or the stream is nil, or a parameter is
//     out of its range
//   - kompute.ErrShape: ranks or shapes that do not fit
//   - kompute.ErrDevice: an operand lives on another device than the stream
//   - kompute.ErrClosed: an operand was closed
//   - kompute.ErrDType: an element type that the op does not take, where Go's
//     types do not rule it out
//   - kompute.ErrTooLarge: an operand or the result has more elements than 32
//     bits can count
//   - the error of a failed operand, if one is the result of a refused call
package ops
