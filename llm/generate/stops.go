package generate

import "strings"

// stopper passes text on up to the first place where a stop string appears. It holds back
// what may be the beginning of one, even if a shorter one appears within that: it is no
// longer than the longest stop string, so the first place is soon known.
type stopper struct {
	stops []string
	held  string
	found string // the one that first found
}

// push adds text. It returns the text that certainly precedes any stop string,
// and whether the first one is known.
func (s *stopper) push(text string) (out string, stopped bool) {
	s.held += text
	open := s.open()
	if first, found := s.first(); found && first <= open {
		out, s.held = s.held[:first], ""
		return out, true
	}
	out, s.held = s.held[:open], s.held[open:]
	return out, false
}

// first returns where the first stop string in the text that is held begins, or the end of
// the text if there is none. Of those that begin there, s.found becomes the shortest, which is
// there first however the text comes in pieces.
func (s *stopper) first() (at int, found bool) {
	at = len(s.held)
	for _, stop := range s.stops {
		i := strings.Index(s.held, stop)
		if i >= 0 && (i < at || i == at && len(stop) < len(s.found)) {
			at, found, s.found = i, true, stop
		}
	}
	return at, found
}

// open returns where the longest suffix of the held text begins that the text to come may
// complete to a stop string.
func (s *stopper) open() int {
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	return len(s.held) - keep
}

// flush returns the text that was held back before any stop string, once the text has
// ended, and whether there is one.
func (s *stopper) flush() (out string, stopped bool) {
	first, stopped := s.first()
	out, s.held = s.held[:first], ""
	return out, stopped
}
