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
	// after makes what is appended from here on wait for another stream's
	// ticket, which has been submitted. Locks as for append.
	after(m mark) error
	// submit starts everything appended up to ticket, at least. No lock of the
	// device is held.
	submit(ticket uint64) error
	// wait returns when the submitted ticket is done, or ctx is.
	wait(ctx context.Context, ticket uint64) error
	stats(*StreamStats)
	// close frees what the stream holds; all its work is done.
	close()
}
