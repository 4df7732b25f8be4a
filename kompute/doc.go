// Package kompute computes on tensors, on any Vulkan device or on the CPU.
//
// It has two faces on one foundation, with one Tensor type.
//
// The face of Kompute, for those who know its C++ or Python package: a
// [Manager] opens a device, an [Algorithm] is the caller's own SPIR-V with the
// tensors it binds, a [Sequence] records operations and evaluates them.
//
// The typed face: [Open] gives a [Device], [Device.NewStream] a [Stream], which
// takes operations (package ops has them) and runs them in order, lazily and
// without the caller waiting. [Tensor.Read] is where results come back.
//
// # Tensors, views and storage
//
// A tensor is a typed view (shape, strides, offset) of storage that other views
// may share. Reshape, Transpose, Slice and the like move nothing. The storage
// keeps track of where its content is up to date, on the host or on the device;
// views know nothing of it, so two views of one storage always agree. Data goes
// up when an op needs it and the device's copy is stale, and comes down when
// the host reads it and the host's copy is stale.
//
// # Regions
//
// Work that comes again and again, such as a decode step, is captured once with
// [Stream.Capture]. The [Region] that comes of it is fused, planned and recorded
// as a whole, and replaying it is one submission however much work it holds.
// Values that change from replay to replay live in tensors that the work itself
// advances; a [Mapped] tensor lets the host look at them from behind.
//
// # Several streams
//
// Streams run beside each other. [Stream.Record] marks a point in a stream's work
// and [Stream.Wait] has another one, also of another device, start behind it;
// neither makes the caller wait. [Tensor.ReadAsync] starts to bring a result
// back, [Stream.Upload] to send an operand, before anyone needs it.
//
// # What is done, and how long it takes
//
// [Stream.Stats], [Device.Stats] and [Region.Stats] count: ops, dispatches, copies,
// memory, and what fell back to the CPU and why. [Stream.TimeOps] measures by op,
// [Region.Profile] by dispatch, and a [Trace] collects all of it for a viewer.
// Region.Describe says what a region is made of.
//
// # Lifetime
//
// Close a tensor when it is not needed any more; the storage goes with its last
// view, after the last op that uses it. A forgotten tensor is freed when the
// garbage collector finds it. A [Scope] closes at once everything that ops
// created on a stream since the scope was opened, which suits a decode loop.
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
// the CPU backend only. Built with Vulkan, a program still starts where there
// is none: the loader library is opened at run time.
package kompute
