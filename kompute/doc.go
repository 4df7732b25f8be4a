// Package kompute computes on tensors, on any Vulkan device or on the CPU.
//
// It has two APIs on one foundation, with one Tensor type.
//
// Kompute's API, for those who know its C++ or Python package: a [Manager]
// opens a device, an [Algorithm] is the caller's own SPIR-V with the tensors it
// binds, a [Sequence] records operations and evaluates them.
//
// The typed API: [Open] returns a [Device], [Device.NewStream] a [Stream],
// which runs operations (see package ops) in order, lazily and without blocking
// the caller. [Tensor.Read] returns results.
//
// # Tensors, views and storage
//
// A tensor is a typed view (shape, strides, offset) of storage that other views
// may share. Reshape, Transpose, Slice and the like copy nothing. The storage,
// not the view, tracks whether the host's or the device's copy is up to date,
// so two views of one storage always agree. Data is uploaded when an op needs
// it and the device's copy is stale, and downloaded when the host reads it and
// the host's copy is stale.
//
// # Regions
//
// Repeated work, such as a decode step, is captured once with [Stream.Capture].
// The resulting [Region] is fused, planned and recorded as a whole, and
// replaying it is one submission however much work it holds. Values that change
// from replay to replay live in tensors that the work itself advances; a
// [Mapped] tensor lets the host read them while later replays run.
//
// # Several streams
//
// Streams run concurrently. [Stream.Record] marks a point in a stream's work
// and [Stream.Wait] makes another stream, also of another device, continue
// after it; neither blocks the caller. [Tensor.ReadAsync] starts to read a
// result, and [Stream.Upload] to upload an operand, before it is needed.
//
// # Counters and timing
//
// [Stream.Stats], [Device.Stats] and [Region.Stats] count: ops, dispatches, copies, memory, and
// what fell back to the CPU and why. [Stream.StartTiming] measures by op, [Region.Profile] by dispatch,
// and a [Trace] collects all of it for a viewer. [Region.Describe] lists what a region consists of.
//
// # Lifetime
//
// Close a tensor when it is no longer needed; the storage is freed with its
// last view, after the last op that uses it. A tensor that is never closed is
// freed after the garbage collector finds it. Closing a [Scope] closes
// everything that ops created on a stream since the scope was opened, which
// suits a decode loop.
//
// # Errors
//
// Functions that can be called on bad input return typed errors: see ErrShape
// and its siblings. Ops return no error. An op that fails poisons its stream:
// later ops on it do nothing, and the first error comes back from Stream.Err,
// Stream.Synchronize and every read of what the stream wrote.
//
// # Building without Vulkan
//
// With CGO_ENABLED=0 or the build tag nogpu the package has the same API and
// only the CPU backend. A program built with Vulkan also starts where Vulkan is
// missing: the loader library is opened at run time.
package kompute
