package engine

import (
	"sync"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// outbox passes tokens, and the ends of answers, to streams, in order and
// concurrently with the steps: waking a reader takes longer than everything else
// that the host does for a token.
type outbox struct {
	mu     sync.Mutex
	more   sync.Cond
	items  []delivery
	closed bool
	done   chan struct{} // closed when nothing more comes
}

// delivery is a token, or the end of a stream.
type delivery struct {
	stream       *Stream
	token        generate.Token
	ends         bool
	finish, rest string
	err          error
}

func newOutbox() *outbox {
	o := &outbox{done: make(chan struct{})}
	o.more.L = &o.mu
	return o
}

// add queues a delivery. Once the outbox is closed, it delivers at once.
func (o *outbox) add(d delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		d.deliver()
		return
	}
	o.items = append(o.items, d)
	o.more.Signal()
}

// run delivers until the outbox is closed and empty.
func (o *outbox) run() {
	defer close(o.done)
	var taken []delivery
	for {
		o.mu.Lock()
		for len(o.items) == 0 && !o.closed {
			o.more.Wait()
		}
		if len(o.items) == 0 {
			o.mu.Unlock()
			return
		}
		taken, o.items = o.items, taken[:0]
		o.mu.Unlock()
		for i := range taken {
			taken[i].deliver()
		}
		clear(taken) // they hold streams
	}
}

// close waits until all that was queued has been delivered.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.more.Signal()
	o.mu.Unlock()
	<-o.done
}

func (d *delivery) deliver() {
	if d.ends {
		d.stream.end(d.finish, d.rest, d.err)
	} else {
		d.stream.push(d.token)
	}
}
