package kompute

// Scope owns what ops create on a stream while it is the innermost open one:
// closing it closes all those tensors and every view of them. A decode loop
// opens one for each token. Keep moves a tensor out.
type Scope struct {
	s      *Stream
	parent *Scope
	open   bool
	owned  []*storage // some may have moved to another scope since
}

// Scope opens a scope inside the innermost open one. Goroutines that share a
// stream share its scopes.
func (s *Stream) Scope() *Scope {
	s = s.made()
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	sc := &Scope{s: s, parent: s.scope, open: !s.closed, owned: s.spare[:0]}
	s.spare = nil
	if sc.open {
		s.scope = sc
	}
	return sc
}

// Close closes what the scope owns, and scopes inside it first. Work that was
// enqueued before still runs. Closing again does nothing.
func (sc *Scope) Close() {
	if sc == nil || sc.s == nil {
		return
	}
	sc.s.dev.mu.Lock()
	defer sc.s.dev.mu.Unlock()
	if !sc.open {
		return
	}
	for sc.s.scope != sc {
		sc.s.scope.close()
	}
	sc.close()
}

// close ends the innermost scope. dev.mu is held.
func (sc *Scope) close() {
	for _, st := range sc.owned {
		if st.scope == sc {
			st.release()
		}
	}
	sc.open = false
	sc.s.scope = sc.parent
	clear(sc.owned)
	sc.s.spare, sc.owned = sc.owned[:0], nil
}

// own gives fresh storage to the innermost scope, or to nobody.
func (s *Stream) own(st *storage) {
	s.dev.mu.Lock()
	scope := s.scope
	if scope != nil {
		st.scope = scope
		scope.owned = append(scope.owned, st)
	}
	s.dev.mu.Unlock()
	if scope == nil {
		st.addNet()
	}
}

// Keep moves the storage of t out of sc: to the scope around it, or to nobody,
// and then it lives until t, and views made of it from then on, are closed. It
// returns t. A tensor that a scope around sc, or nobody, owns already, stays
// where it is.
func Keep[T Element](sc *Scope, t *Tensor[T]) *Tensor[T] {
	st := t.View().st
	if st == nil || sc == nil || sc.s == nil || st.dev != sc.s.dev {
		return t
	}
	st.dev.mu.Lock()
	moved := st.keep(sc, &t.v)
	st.dev.mu.Unlock()
	if moved {
		st.addNet()
	}
	return t
}

// keep reports whether the storage came to belong to nobody. dev.mu is held.
func (st *storage) keep(sc *Scope, v *View) bool {
	if st.closed || v.closed || !st.scope.within(sc) {
		return false
	}
	if st.scope = sc.parent; st.scope != nil {
		st.scope.owned = append(st.scope.owned, st)
		return false
	}
	// Views that the scope's work left behind no longer count.
	st.gen++
	st.refs = 1
	v.gen, v.borrowed = st.gen, false
	return true
}

// within reports whether inner is outer or a scope inside it.
func (inner *Scope) within(outer *Scope) bool {
	for ; inner != nil; inner = inner.parent {
		if inner == outer {
			return true
		}
	}
	return false
}
