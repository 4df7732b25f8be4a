package generate

import "strings"

// stopper passes text on up to the first stop string. It holds back an end of the
// text that may be the beginning of one.
type stopper struct {
	stops []string
	held  string
}

// push adds text. It returns the text that certainly precedes any stop string,
// and whether one has appeared.
func (s *stopper) push(text string) (out string, stopped bool) {
	s.held += text
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		out, s.held = s.held[:first], ""
		return out, true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
			}
		}
	}
	out, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return out, false
}

// flush returns the text that was held back, once the text has ended.
func (s *stopper) flush() string {
	out := s.held
	s.held = ""
	return out
}
