package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barDelay is how long work must take before it shows a bar.
const barDelay = 300 * time.Millisecond

// Bar is a progress bar for work that takes long. A nil Bar shows nothing.
type Bar struct {
	out   io.Writer
	what  string
	start time.Time
	shown *progressbar.ProgressBar
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
	if b == nil || b.shown == nil && time.Since(b.start) < barDelay {
		return
	}
	if b.shown == nil {
		b.shown = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
	}
	// Failing to draw must not stop the work.
	_ = b.shown.Set64(done)
}

// Describe sets the description of the current work.
func (b *Bar) Describe(what string) {
	if b == nil {
		return
	}
	if b.what = what; b.shown != nil {
		b.shown.Describe(what)
	}
}

// Close removes the bar.
func (b *Bar) Close() {
	if b != nil && b.shown != nil {
		_ = b.shown.Clear()
		b.shown = nil
	}
}
