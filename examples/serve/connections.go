package main

import (
	"net"
	"net/http"
	"sync"
)

// silent are the connections on which nothing has come yet. A server that shuts down waits
// five seconds for those, though load balancers and browsers open some in advance.
type silent struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
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
	if state == http.StateNew {
		s.conns[c] = struct{}{}
	} else {
		delete(s.conns, c)
	}
}

func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // nobody waits for an answer
	}
}
