package kompute

import (
	"context"
	"unsafe"
)

// backend is what differs between devices: all bookkeeping of storage, streams
// and events is written once, in terms of it.
type backend interface {
	// newQueue makes the working half of s.
	newQueue(s *Stream) (queue, error)
	// load makes the bytes lo to hi of st current in host memory, and returns
	// host memory that holds them together with the offset at which it starts
	// in the storage. st is busy, its content complete; no lock is held.
	load(st *storage, lo, hi int) (mem []byte, base int, err error)
	// fetch starts to read bytes of storage that only the device has. Locks as for
	// load; st is not busy.
	fetch(st *storage, lo, hi int) (*readback, error)
	// freeBuffer gives device memory back, after the last use of it.
	freeBuffer(buf unsafe.Pointer)
	stats(*DeviceStats)
	// close frees the device. All queues are closed, all buffers freed.
	close()
}

// queue does the work of one stream, in the order in which it was appended.
// Every piece of work has a ticket: 1, 2, 3, … in Stream.appended.
type queue interface {
	// append adds op. The stream's append lock is held, the device's is not.
	append(op Op) error
	// hold appends work that ends when m does, which is submitted and of a stream
	// of any device: what is appended behind it starts after m. Locks as for
	// append.
	hold(m mark) error
	// read appends a copy of the bytes lo to hi of st for the host. Locks as for
	// append.
	read(st *storage, lo, hi int) (*readback, error)
	// poll reports whether the ticket is done. No lock of the device is held.
	poll(ticket uint64) bool
	// submit starts everything appended up to ticket, at least. No lock of the
	// device is held.
	submit(ticket uint64) error
	// wait returns when the submitted ticket is done, or ctx is.
	wait(ctx context.Context, ticket uint64) error
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
	// describe says what a region does. It is not closed meanwhile.
	describe(r *Region) (*RegionDescription, error)
	// freeRegion frees what a region holds; no call uses it. dev.mu is held.
	freeRegion(r *Region)
	stats(*StreamStats)
	// close frees what the stream holds; all its work is done.
	close()
}
