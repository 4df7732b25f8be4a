package main

import (
	"fmt"
	"io"

	"github.com/kompute-go/kompute-go/internal/cli"
)

// progress reports on stderr what is being done: a bar on a terminal, otherwise a
// line for each step.
type progress struct {
	out         io.Writer
	bar         *cli.Bar
	done, total int64 // runs
}

func newProgress(out io.Writer, total int) *progress {
	return &progress{out: out, bar: cli.NewBar(out, "").AtOnce(), total: int64(total)}
}

// step begins something that is worth a line.
func (p *progress) step(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
		p.bar.Set(p.done, p.total)
		return
	}
	fmt.Fprintf(p.out, "bench: %s\n", what)
}

// ran counts one run of what is being measured.
func (p *progress) ran() {
	p.done++
	p.bar.Set(p.done, p.total)
}

func (p *progress) close() { p.bar.Close() }
