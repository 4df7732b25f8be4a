package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barDelay is how long work must take before it shows a bar.
const barDelay = 300 * time.Millisecond

// bar is a progress bar for work that takes long, on a terminal only.
type bar struct {
	out   io.Writer
	what  string
	start time.Time
	shown *progressbar.ProgressBar
}

// newBar returns a bar, or nil, which shows nothing, where out is no terminal.
func newBar(out io.Writer, what string, wanted bool) *bar {
	f, ok := out.(*os.File)
	if !wanted || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &bar{out: out, what: what, start: time.Now()}
}

// set shows that done of total is done.
func (b *bar) set(done, total int64) {
	if b == nil || b.shown == nil && time.Since(b.start) < barDelay {
		return
	}
	if b.shown == nil {
		b.shown = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
	}
	// A bar that cannot be drawn is no reason to stop the work.
	_ = b.shown.Set64(done)
}

// close takes the bar away.
func (b *bar) close() {
	if b != nil && b.shown != nil {
		_ = b.shown.Clear()
		b.shown = nil
	}
}
