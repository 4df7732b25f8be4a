package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops/optest"
)

// opSizes are the approximate numbers of elements of an op's large operand: as many as a GPU starts at once, as many
// as fill it, and at least 64 MB of 16-bit elements.
var (
	opSizes    = []int{1 << 16, 1 << 20, 1 << 25}
	opSizesCPU = []int{1 << 12, 1 << 16, 1 << 20}
)

// roofline is the result of --ops, in the form that --json prints.
type roofline struct {
	Device  string `json:"device"`
	Backend string `json:"backend"`
	Driver  string `json:"driver"`
	// The probes' rates, in bytes read and written and in operations a second; 0: this device has no such probe.
	StreamRate float64       `json:"stream_bytes_per_second"`
	FloatRate  float64       `json:"float_flop_per_second"`
	MatrixRate float64       `json:"matrix_flop_per_second"`
	Ops        []opRate      `json:"ops"`
	Skipped    []skippedOp   `json:"skipped,omitempty"`
	Calls      []kernelCalls `json:"kernel_calls,omitempty"`
	ending
}

// opRate is one measured call, with its share of the rate of the probe that it is compared with.
type opRate struct {
	optest.Measured
	BytesPerSecond float64 `json:"bytes_per_second"`
	FLOPPerSecond  float64 `json:"flop_per_second,omitempty"`
	// Limit is "memory" or "matrix", whichever would take longer at the probes' rates, and Share is the share of that
	// rate that the call reaches.
	Limit string  `json:"limit"`
	Share float64 `json:"share"`
}

type skippedOp struct {
	Op     string `json:"op"`
	Reason string `json:"reason"`
}

// kernelCalls is how often a variant of a kernel was dispatched.
type kernelCalls struct {
	Variant string `json:"variant"`
	Calls   uint64 `json:"calls"`
}

// measureOps runs --ops.
func (o *options) measureOps(ctx context.Context, stdout, stderr io.Writer) (err error) {
	m, err := kompute.NewManager(o.device, kompute.WithStrict(), kompute.WithOpTimes())
	if err != nil {
		return err
	}
	defer closeInto(&err, m)
	device := m.Device()
	info := device.Info()
	r := &roofline{Device: info.Name, Backend: info.Backend, Driver: info.Driver}
	sizes := o.sizes
	if sizes == nil {
		if sizes = opSizes; info.Backend == "cpu" || info.Type == "cpu" {
			sizes = opSizesCPU
		}
	}
	if err := r.probe(ctx, m, slices.Max(sizes)); err != nil {
		return err
	}
	tooFew := false
	measure := optest.MeasureOptions{
		Ops: o.opNames, Sizes: sizes, Rows: o.rows,
		Each: func(m optest.Measured) {
			if empty.MatchString(m.Shapes) {
				tooFew = true
				r.skip(m.Op, fmt.Sprintf("it has nothing to do at %d elements", m.Size))
				return
			}
			fmt.Fprintf(stderr, "bench: %s of %d elements\n", strings.Join(strings.Fields(m.Op+" "+m.Kind+" "+m.DType.String()), " "), m.Size)
			r.Ops = append(r.Ops, r.rate(m))
		},
		Skipped: func(op string, err error) { r.skip(op, err.Error()) },
	}
	err = optest.Measure(ctx, device, measure)
	if err != nil && len(r.Ops) == 0 {
		return err
	}
	r.ending = endingOf(err)
	if tooFew && len(r.Ops) == 0 {
		return fmt.Errorf("--sizes: %d elements are too few for %s", slices.Max(sizes), o.ops)
	}
	for _, v := range device.Kernels() {
		if v.Calls > 0 {
			r.Calls = append(r.Calls, kernelCalls{v.String(), v.Calls})
		}
	}
	if err := errors.Join(r.print(stdout, o.json), err); err != nil || o.plot == "" {
		return err
	}
	return draw(ctx, o.plot, r)
}

// empty matches the shapes of a call with an operand or a result that has no elements, as that of a size below an op's
// smallest one.
var empty = regexp.MustCompile(`[\[ ]0[\] ]`)

// skip notes once why an op is not measured.
func (r *roofline) skip(op, reason string) {
	if s := (skippedOp{op, reason}); !slices.Contains(r.Skipped, s) {
		r.Skipped = append(r.Skipped, s)
	}
}

// rate compares a call with the probes.
func (r *roofline) rate(m optest.Measured) opRate {
	seconds := max(m.Time.Seconds(), 1e-9)
	out := opRate{Measured: m, BytesPerSecond: float64(m.Bytes) / seconds, FLOPPerSecond: m.FLOP / seconds, Limit: "memory"}
	if r.StreamRate > 0 {
		out.Share = out.BytesPerSecond / r.StreamRate
	}
	if top := max(r.MatrixRate, r.FloatRate); top > 0 && out.FLOPPerSecond/top > out.Share {
		out.Limit, out.Share = "matrix", out.FLOPPerSecond/top
	}
	return out
}

func (r *roofline) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%s (%s, %s)\n", r.Device, r.Backend, r.Driver)
	r.ending.print(w)
	fmt.Fprintf(w, "probes: memory %s GB/s read and written%s%s\n\n", giga(r.StreamRate), probed("float32", r.FloatRate), probed("matrices", r.MatrixRate))
	t := table(w)
	fmt.Fprintln(t, "op\ttype\telements\trows\tµs\tGB/s\tTFLOP/s\tshare\tof\t kernels")
	for _, m := range r.Ops {
		rows, flop := "", ""
		if m.Rows > 0 {
			rows = itoa(m.Rows)
		}
		if m.FLOP > 0 {
			flop = tera(m.FLOPPerSecond)
		}
		fmt.Fprintf(t, "%s\t%v\t%d\t%s\t%s\t%s\t%s\t%.0f%%\t%s\t %s\n", strings.TrimSpace(m.Op+" "+m.Kind), m.DType, m.Size, rows,
			micros(float64(m.Time)), giga(m.BytesPerSecond), flop, 100*m.Share, m.Limit, strings.Join(m.Kernels, " "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "not measured: %s: %s\n", s.Op, s.Reason)
	}
	return nil
}

func giga(v float64) string { return fmt.Sprintf("%.0f", v/1e9) }

// tera has two digits that count, and all those before the point.
func tera(v float64) string {
	return fmt.Sprintf("%.*f", max(0, 1-int(math.Floor(math.Log10(max(v/1e12, 1e-6))))), v/1e12)
}

// probed describes a rate of arithmetic, if there is a probe for it.
func probed(what string, rate float64) string {
	if rate == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s TFLOP/s", what, tera(rate))
}

// opList reads --ops's value: "all", or basenames with commas.
func opList(list string) ([]string, error) {
	if list == "all" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(optest.Ops(), name) {
			return nil, fmt.Errorf("--ops: there is no op %q; there are %s", name, strings.Join(optest.Ops(), " "))
		}
	}
	return names, nil
}
