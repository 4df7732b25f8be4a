package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// barDelay is how long work must take before it shows a bar.
const barDelay = 300 * time.Millisecond

const (
	barPause = 50 * time.Millisecond // between drawings
	barWidth = 40                    // columns between its ends
)

// Bar is a progress bar for work that takes long. A nil Bar shows nothing.
type Bar struct {
	out         io.Writer
	what        string
	start       time.Time
	drawn       time.Time // zero: not yet
	done, total int64
}

// NewBar returns a bar, or nil if out is not a terminal.
func NewBar(out io.Writer, what string) *Bar {
	if !IsTerminal(out) {
		return nil
	}
	return &Bar{out: out, what: what, start: time.Now()}
}

// AtOnce makes the bar appear at the first Set, however short the work is. It
// returns b.
func (b *Bar) AtOnce() *Bar {
	if b != nil {
		b.start = time.Time{}
	}
	return b
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Set shows that done of total is done.
func (b *Bar) Set(done, total int64) {
	if b == nil || b.drawn.IsZero() && time.Since(b.start) < barDelay {
		return
	}
	b.done, b.total = done, total
	if done >= total || time.Since(b.drawn) >= barPause {
		b.draw()
	}
}

// draw draws the bar over itself. Failing to do so must not stop the work.
func (b *Bar) draw() {
	b.drawn = time.Now()
	part := 0.0
	if b.total > 0 {
		part = min(1, max(0, float64(b.done)/float64(b.total)))
	}
	full := int(part * barWidth)
	_, _ = fmt.Fprintf(b.out, "\r%s %3.0f%% |%s%s|\x1b[K", b.what, 100*part, strings.Repeat("█", full), strings.Repeat(" ", barWidth-full))
}

// Describe sets the description of the current work.
func (b *Bar) Describe(what string) {
	if b == nil {
		return
	}
	if b.what = what; !b.drawn.IsZero() {
		b.draw()
	}
}

// Close removes the bar.
func (b *Bar) Close() {
	if b != nil && !b.drawn.IsZero() {
		_, _ = io.WriteString(b.out, "\r\x1b[K")
		b.drawn = time.Time{}
	}
}
