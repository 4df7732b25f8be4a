package kompute

import (
	"context"
	"unsafe"
)

// backend is what differs between devices. Views, scopes, errors and events are
// written once, in terms of it.
type backend interface {
	// newQueue makes the working half of s.
	newQueue(s *Stream) (queue, error)
	// give adds memory to fresh storage, with any content; wrap memory of the
	// caller's; giveMapped memory that host and device see, zeroed.
	give(st *storage) error
	wrap(st *storage, data []byte) error
	giveMapped(st *storage) error
	// fill gives fresh storage its first content; nil stands for zeros.
	fill(st *storage, data []byte) error
	// read calls f with memory that holds the newest content of the bytes lo to hi
	// of st, and the offset at which that memory starts in the storage. It waits
	// for the op that writes the storage last. st is in use; no lock is held.
	read(ctx context.Context, st *storage, lo, hi int, f func(mem []byte, base int)) error
	// write sets the elements of v to those in data, which are in row-major order.
	// Locks as for read.
	write(ctx context.Context, v *View, data []byte) error
	// free gives a native handle back, after the last use of it.
	free(native unsafe.Pointer)
	stats(*DeviceStats)
	// close frees the device. All queues are closed, all storage freed.
	close()
}

// queue does the work of one stream, in the order in which it was appended.
// Values of the stream's timeline say what is done.
type queue interface {
	// append adds op. The stream's append lock is held, the device's is not.
	append(op Op) error
	// upload brings storage to the device. Locks as for append.
	upload(st *storage) error
	// hold has what is appended from here on start after m, which is submitted and
	// of a stream of any device. Locks as for append.
	hold(m mark) error
	// read appends a copy of the bytes lo to hi of st for the host, which is in
	// use. Locks as for append.
	read(st *storage, lo, hi int) (readback, error)
	// poll reports whether the value is reached. No lock of the device is held.
	poll(value uint64) bool
	// flush starts everything appended so far, and returns the value that is
	// reached when it is done. No lock of the device is held.
	flush() (uint64, error)
	// wait returns when the value, which a flush gave, is reached, or ctx is done.
	wait(ctx context.Context, value uint64) error
	// beginCapture makes append collect ops for a region, up to endCapture or
	// abortCapture. Locks of these as for append.
	beginCapture() error
	// endCapture makes the region's work of what was collected. The collecting
	// ends also when it fails.
	endCapture(r *Region, c *capture) error
	abortCapture(c *capture)
	// replay appends a region and submits it with all work before. Locks as for
	// append.
	replay(r *Region, times int) error
	// profile replays a region once, and returns when it is done: with when it
	// ran, and when its dispatches did unless spans is nil. Locks as for append.
	profile(ctx context.Context, r *Region, spans []span) (whole span, err error)
	// timeOps has the work that is appended from here on measured, or no longer.
	// Locks as for append.
	timeOps(timing timing) error
	// describe says what a region holds. It is not closed meanwhile.
	describe(r *Region) (*RegionDescription, error)
	// freeRegion frees what a region holds; no call uses it. dev.mu is held.
	freeRegion(r *Region)
	stats(*StreamStats)
	// close frees what the stream holds; all its work is done.
	close()
}

// readback is a copy of bytes of a storage that a stream makes for the host. It
// must be dropped.
type readback interface {
	// wait returns when the copy is there, or ctx is done.
	wait(ctx context.Context) error
	// take calls f with the copy, which is there, and where in the storage it starts.
	take(f func(mem []byte, base int)) error
	// done reports whether wait would return at once.
	done() bool
	// drop gives the copy up. Calling it again does nothing.
	drop()
}
