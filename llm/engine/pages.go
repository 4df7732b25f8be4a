package engine

import (
	"container/list"
	"unsafe"
)

// page is one page of keys and values.
type page struct {
	number int32
	users  int           // requests that read it
	key    pageKey       // its content, if it is full and can be found
	idle   *list.Element // in allocator.idle, if it is unused but can be found
}

// pageKey identifies the content of a full page: its own tokens after those of
// the page before. Keys and values depend on all earlier tokens, and so does
// the key.
type pageKey struct {
	before *page // nil for the first one
	tokens string
}

// allocator allocates pages, and finds those with the beginning of a prompt. It
// is guarded by the engine's lock.
type allocator struct {
	tokens int // of a page
	free   []*page
	idle   list.List // *page: can be found but are unused, the longest idle first
	found  map[pageKey]*page
}

func newAllocator(count, tokens int) *allocator {
	a := &allocator{tokens: tokens, found: map[pageKey]*page{}}
	for i := count - 1; i >= 0; i-- {
		a.free = append(a.free, &page{number: int32(i)})
	}
	return a
}

// available returns how many pages take can return.
func (a *allocator) available() int { return len(a.free) + a.idle.Len() }

// take returns a page for new tokens, or nil if all are in use. If no page is
// free, it takes the one that has been idle for the longest time.
func (a *allocator) take() *page {
	if n := len(a.free); n > 0 {
		p := a.free[n-1]
		a.free = a.free[:n-1]
		p.users = 1
		return p
	}
	oldest := a.idle.Front()
	if oldest == nil {
		return nil
	}
	p := oldest.Value.(*page)
	a.idle.Remove(oldest)
	a.forget(p)
	// A new object, since later pages refer to the old one as their predecessor.
	return &page{number: p.number, users: 1}
}

// forget makes a page impossible to find.
func (a *allocator) forget(p *page) {
	if a.found[p.key] == p {
		delete(a.found, p.key)
	}
	p.key, p.idle = pageKey{}, nil
}

// holding returns the pages that hold the beginning of tokens, in order. At least one
// token is left over, because its logits are needed.
func (a *allocator) holding(tokens []int32) (pages []*page) {
	var before *page
	for len(tokens) > a.tokens {
		p := a.found[pageKey{before, bytesOf(tokens[:a.tokens])}]
		if p == nil {
			break
		}
		pages, before, tokens = append(pages, p), p, tokens[a.tokens:]
	}
	return pages
}

// find returns how many pages share would return, and how many of them are unused.
func (a *allocator) find(tokens []int32) (found, idle int) {
	pages := a.holding(tokens)
	for _, p := range pages {
		if p.idle != nil {
			idle++
		}
	}
	return len(pages), idle
}

// share returns the pages that hold the beginning of tokens, as holding does, and
// adds a user to them.
func (a *allocator) share(tokens []int32) []*page {
	pages := a.holding(tokens)
	for _, p := range pages {
		if p.users++; p.idle != nil {
			a.idle.Remove(p.idle)
			p.idle = nil
		}
	}
	return pages
}

// publish makes a full page available to share, unless another page with these
// tokens already is. It returns whether p is; if not, no page after it can be.
func (a *allocator) publish(p, before *page, tokens []int32) bool {
	if before != nil && a.found[before.key] != before {
		return false // its predecessor cannot be found
	}
	key := pageKey{before, bytesOf(tokens)}
	if a.found[key] == nil && p.key == (pageKey{}) {
		p.key, a.found[key] = key, p
	}
	return a.found[key] == p
}

// release removes a user from pages, the last of them first: others are more
// likely to need the beginnings.
func (a *allocator) release(pages []*page) {
	for i := len(pages) - 1; i >= 0; i-- {
		p := pages[i]
		if p.users--; p.users > 0 {
			continue
		}
		if a.found[p.key] == p {
			p.idle = a.idle.PushBack(p)
		} else {
			a.free = append(a.free, p)
		}
	}
}

// bytesOf returns the tokens' bytes.
func bytesOf(tokens []int32) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tokens))), 4*len(tokens)))
}
