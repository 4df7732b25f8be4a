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
	barWidth = 40                    // columns between its ends, fewer where the terminal is too narrow
	barLeast = 10                    // of them, for which the description is cut
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
	_, _ = fmt.Fprintf(b.out, "\r%s\x1b[K", barLine(b.what, part, columns(b.out)))
}

// barLine makes the line of a bar in fewer than that many columns: a longer one would continue in the next line, where
// the next drawing does not begin. 0 columns are any number. A character takes one.
func barLine(what string, part float64, columns int) string {
	const around = len(" 100% ||")
	text, width := []rune(what), barWidth
	if columns > 0 {
		room := columns - 1 - around
		width = max(0, min(barWidth, max(barLeast, room-len(text)), room))
		if most := max(0, room-width); len(text) > most {
			text = text[:most]
		}
	}
	full := int(part * float64(width))
	line := []rune(fmt.Sprintf("%s %3.0f%% |%s%s|", string(text), 100*part, strings.Repeat("█", full), strings.Repeat(" ", width-full)))
	if columns > 0 && len(line) >= columns {
		line = line[:columns-1]
	}
	return string(line)
}

// columns returns the width of a terminal, 0 if it is not known.
func columns(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
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
