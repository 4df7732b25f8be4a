package main

import (
	"net"
	"net/http"
	"sync"
)

// silent are the connections whose first request has not come, or not all of its header. A
// server that shuts down waits five seconds for those, though load balancers and browsers
// open some in advance.
type silent struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// closeWhenShutDown has h close its silent connections as soon as it shuts down.
func (s *silent) closeWhenShutDown(h *http.Server) {
	s.conns = make(map[net.Conn]struct{})
	h.ConnState = s.note
	h.RegisterOnShutdown(s.close)
}

func (s *silent) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.conns, c)
	case s.closed: // it was accepted before the server stopped listening
		_ = c.Close()
	default:
		s.conns[c] = struct{}{}
	}
}

func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close() // nobody waits for an answer
	}
}
