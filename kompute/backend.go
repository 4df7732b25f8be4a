package kompute

import (
	"context"
)

// backend is the part that differs between devices. Views, scopes, errors and
// events are built on it.
type backend interface {
	// newQueue creates the queue that executes the work of s.
	newQueue(s *Stream) (queue, error)
	// New storage has no memory. It gets some, with undefined content, when it is
	// first used; wrap uses the caller's memory, and giveMapped adds zeroed memory
	// that host and device both see.
	wrap(st *storage, data []byte) error
	giveMapped(st *storage) error
	// fill sets the first content of new storage; nil means zeros.
	fill(st *storage, data []byte) error
	// read calls f with memory that holds the current content of bytes lo to hi of st, and the
	// offset at which that memory starts in the storage. It waits for the op that writes the
	// storage last. The caller has st in use and holds no lock.
	read(ctx context.Context, st *storage, lo, hi int, f func(mem []byte, base int)) error
	// write sets the elements of v to data, in row-major order, and records that (View.writtenByHost). Locks as for
	// read.
	write(ctx context.Context, v *View, data []byte) error
	// free destroys native handles after their last use.
	free(native []uintptr)
	stats(*DeviceStats)
	// close frees the device. All queues are closed, all storage freed.
	close()
}

// queue executes the work of one stream in the order in which it was appended.
// The value that the stream's timeline has reached tells what is done.
type queue interface {
	// append adds op. The stream's append lock is held, the device's is not.
	append(op Op) error
	// upload copies storage to the device if its copy there is stale. Locks as
	// for append.
	upload(st *storage) error
	// hold makes work appended from now on start after m, which must be submitted; its stream may be
	// of any device. Locks as for append.
	hold(m mark) error
	// read appends a copy of bytes lo to hi of st to the host; the caller has
	// st in use. Locks as for append.
	read(st *storage, lo, hi int) (readback, error)
	// poll reports whether the value is reached. No lock of the device is held.
	poll(value uint64) bool
	// flush starts everything appended so far, and returns the value that is
	// reached when it is done. No lock of the device is held. flush and replay
	// return errBusy, having done nothing, if too much of the stream's work is
	// under way.
	flush() (uint64, error)
	// waitForRoom waits until flush and replay would not return errBusy, or until ctx is done. No lock of the device is held.
	waitForRoom(ctx context.Context) error
	// abandon returns the value that is reached when what a failed stream has appended is given up. dev.mu is held.
	abandon() uint64
	// wait returns when value, which flush or abandon returned, is reached, or ctx is done.
	wait(ctx context.Context, value uint64) error
	// beginCapture makes append collect ops for a region, up to endCapture or
	// abortCapture. Locks of these as for append.
	beginCapture() error
	// endCapture builds the region from the collected ops. Collecting ends even
	// if it fails.
	endCapture(r *Region, c *capture) error
	abortCapture(c *capture)
	// replay appends a region and submits it with all earlier work. Locks as
	// for append.
	replay(r *Region, times int) error
	// profile replays a region once for each of runs and waits for that, or until
	// ctx is done. It returns when the replays ran and, for those of runs that are
	// not nil, fills in when the dispatches ran. Locks as for append.
	profile(ctx context.Context, r *Region, runs [][]span) ([]replayTime, error)
	// timeOps starts or stops measuring work that is appended from now on.
	// Locks as for append.
	timeOps(timing timing) error
	// describe lists what a region consists of. The region is not closed
	// meanwhile.
	describe(r *Region) (*RegionDescription, error)
	// freeRegion frees a region's resources; no call uses it. dev.mu is held.
	freeRegion(r *Region)
	stats(*StreamStats)
	// close frees the stream's resources; all its work is done.
	close()
}

// readback is a pending copy of a storage's bytes to the host. Every readback
// must be dropped.
type readback interface {
	// wait returns when the copy is complete, or ctx is done.
	wait(ctx context.Context) error
	// take calls f with the completed copy and its offset in the storage.
	take(f func(mem []byte, base int)) error
	// done reports whether wait would return at once.
	done() bool
	// drop releases the copy. Calling it again does nothing.
	drop()
}

// emptyRead is a read of nothing.
type emptyRead struct{}

func (emptyRead) wait(context.Context) error              { return nil }
func (emptyRead) take(f func(mem []byte, base int)) error { f(nil, 0); return nil }
func (emptyRead) done() bool                              { return true }
func (emptyRead) drop()                                   {}
