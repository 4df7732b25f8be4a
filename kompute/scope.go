package kompute

// Scope owns the tensors that ops create on a stream while it is the innermost
// open scope. Closing it closes those tensors and every view of them. A decode
// loop opens one for each token. Keep moves a tensor out.
type Scope struct {
	s      *Stream
	parent *Scope
	open   bool
	owned  []*storage // some may have been moved to another scope
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

// Close closes the scopes inside this one and then the tensors that it owns.
// Work that was enqueued before still runs. Closing again does nothing.
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

// close closes the innermost scope. dev.mu is held.
func (sc *Scope) close() {
	sc.s.dev.freesLater = true
	for _, st := range sc.owned {
		if st.scope == sc {
			st.release()
		}
	}
	sc.s.dev.freeNative()
	sc.open = false
	sc.s.scope = sc.parent
	clear(sc.owned)
	sc.s.spare, sc.owned = sc.owned[:0], nil
}

// own adds new storage to the innermost scope, if there is one.
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

// Keep moves the storage of t out of sc to the enclosing scope and returns t.
// Without an enclosing scope the storage lives until t, and all views made of
// it from then on, are closed. Keep does nothing if sc and the scopes inside it
// do not own the tensor.
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

// keep reports whether the storage no longer belongs to any scope. dev.mu is
// held.
func (st *storage) keep(sc *Scope, v *View) bool {
	if st.closed.Load() || v.closed.Load() || !st.scope.within(sc) {
		return false
	}
	if st.scope = sc.parent; st.scope != nil {
		st.scope.owned = append(st.scope.owned, st)
		return false
	}
	// Earlier views no longer keep the storage open.
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
