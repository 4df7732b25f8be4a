package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// results holds everything that was measured; --json prints it.
type results struct {
	Model          string          `json:"model"`
	Device         string          `json:"device"`
	Backend        string          `json:"backend"`
	Driver         string          `json:"driver"`
	DisabledFusion string          `json:"disabled_fusion,omitempty"`
	Repetitions    int             `json:"repetitions"`
	Memory         memory          `json:"memory"`
	Tests          []row           `json:"tests,omitempty"`
	Scaling        []*scaling      `json:"scaling,omitempty"` // instead of Tests
	Batches        []*batch        `json:"batches,omitempty"` // instead of Tests
	Profiles       []*profile      `json:"profiles,omitempty"`
	Prompts        []promptProfile `json:"prompts,omitempty"`
	NoProfile      string          `json:"no_profile,omitempty"` // why there is none
	ending
}

// some reports whether anything was measured.
func (r *results) some() bool { return len(r.Tests)+len(r.Scaling)+len(r.Batches) > 0 }

// memory is the memory in use, in bytes.
type memory struct {
	Weights int64 `json:"weights_bytes"`
	Cache   int64 `json:"cache_bytes"` // the largest
	// Transient is the memory of a decode step's own tensors; TransientUnplanned
	// what it would be if none shared memory.
	Transient          int64 `json:"transient_bytes"`
	TransientUnplanned int64 `json:"transient_bytes_unplanned"`
	Peak               int64 `json:"peak_bytes"`     // of open tensors
	Reserved           int64 `json:"reserved_bytes"` // taken from the driver, at the end
}

func (o *options) print(w io.Writer, r *results) error {
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%s on %s (%s, %s)\n", r.Model, r.Device, r.Backend, r.Driver)
	r.ending.print(w)
	if r.DisabledFusion != "" {
		fmt.Fprintf(w, "without fusion pass: %s\n", r.DisabledFusion)
	}
	m := r.Memory
	fmt.Fprintf(w, "MB: weights %s, cache %s, transients %s (%s unplanned), peak of open tensors %s, taken from the driver %s\n\n",
		megabytes(m.Weights), megabytes(m.Cache), megabytes(m.Transient), megabytes(m.TransientUnplanned), megabytes(m.Peak), megabytes(m.Reserved))
	var err error
	switch {
	case len(r.Scaling) > 0:
		err = printScaling(w, r.Scaling)
	case len(r.Batches) > 0:
		err = printBatches(w, r.Batches)
	default:
		err = printTests(w, r.Tests)
	}
	if err != nil {
		return err
	}
	for _, p := range r.Profiles {
		if err := p.print(w); err != nil {
			return err
		}
	}
	for _, p := range r.Prompts {
		fmt.Fprintf(w, "\nthe prompt %s by op:\n", p.Name)
		err := printOps(w, p.Ops)
		if err == nil && p.Piece != nil {
			err = p.Piece.print(w)
		}
		if err != nil {
			return err
		}
	}
	if r.NoProfile != "" {
		fmt.Fprintf(w, "\nno times of kernels: %s\n", r.NoProfile)
	}
	return nil
}

func megabytes(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) }

// percent is empty for what was not measured.
func percent(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(100*x, 'f', 1, 64) + "%"
}

func micros(ns float64) string { return strconv.FormatFloat(ns/1e3, 'f', 1, 64) }

func itoa(n int) string { return strconv.Itoa(n) }

func table(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// printTests prints a line for each test. Work is that of one token, or of a
// whole prompt.
func printTests(w io.Writer, rows []row) error {
	t := table(w)
	fmt.Fprintln(t, "test\tmode\ttokens/s\tlow\thigh\tdispatches\tbarriers\tsubmits\tenqueue µs\trecord µs\tof a\t")
	for _, r := range rows {
		k := r.Work
		enqueue := ""
		if k.EnqueueNanos > 0 {
			enqueue = micros(k.EnqueueNanos)
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%s\t%s\t%s\t\n", r.Name, r.Mode, r.Median, r.Low, r.High,
			k.Dispatches, k.Barriers, k.Submits, enqueue, micros(k.RecordNanos), k.Per)
	}
	return t.Flush()
}

// counted returns a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// print prints the tables of one depth.
func (p *profile) print(w io.Writer) error {
	if len(p.Kernels) > 0 {
		what := fmt.Sprintf("a token of the region at depth %d", p.Depth)
		if p.Rows > 0 {
			what = fmt.Sprintf("the prompt's last piece as a region of %d rows, after %d tokens", p.Rows, p.Depth)
		}
		if p.Clients > 0 {
			what = fmt.Sprintf("a step of %s, of %s", counted(p.Clients, "client"), counted(p.Rows, "row"))
		}
		fmt.Fprintf(w, "\n%s: %s µs of device time, %s with a timestamp around each dispatch; medians of %d:\n",
			what, micros(float64(p.ReplayNanos)), micros(float64(p.TimedNanos)), p.Tokens)
		if p.Workers > 0 {
			fmt.Fprintf(w, "%.1f%% of the time of its %s is waiting for each other\n", 100*p.Waiting, counted(p.Workers, "thread"))
		}
		if err := p.printKernels(w); err != nil {
			return err
		}
	}
	if len(p.EagerOps) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nan eager token at depth %d by op, means of %d:\n", p.Depth, p.Tokens)
	return printOps(w, p.EagerOps)
}

func printOps(w io.Writer, ops []eagerOp) error {
	t := table(w)
	fmt.Fprintln(t, "calls\tdispatches\tµs\t op")
	for _, o := range ops {
		fmt.Fprintf(t, "%.1f\t%.1f\t%s\t %s\n", o.Calls, o.Dispatches, micros(o.Nanos), o.Op)
	}
	return t.Flush()
}

func (p *profile) printKernels(w io.Writer) error {
	total := float64(p.BarrierGaps.Nanos + p.OtherGaps.Nanos)
	for _, k := range p.Kernels {
		total += float64(k.Nanos)
	}
	t := table(w)
	fmt.Fprintln(t, "calls\tµs each\tµs\tshare\tgrid\tworked\t kernel")
	line := func(calls int, ns int64, grid, worked, name string) {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.1f%%\t%s\t%s\t %s\n", calls, micros(float64(ns)/float64(max(calls, 1))), micros(float64(ns)),
			100*float64(ns)/max(total, 1), grid, worked, name)
	}
	for _, k := range p.Kernels {
		worked := "" // the part of all threads' time
		if p.Workers > 0 && k.Nanos > 0 {
			worked = percent(float64(k.WorkNanos) / float64(k.Nanos*int64(p.Workers)))
		}
		line(k.Calls, k.Nanos, fmt.Sprintf("%dx%dx%d", k.Grid[0], k.Grid[1], k.Grid[2]), worked, k.name())
	}
	line(p.BarrierGaps.Calls, p.BarrierGaps.Nanos, "", "", "gaps with a barrier")
	line(p.OtherGaps.Calls, p.OtherGaps.Nanos, "", "", "gaps without")
	return t.Flush()
}
