package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
)

// profileTimes is how many replays the table of a replayed token is made from, and
// profileTimeout how long they may take.
const (
	profileTimes   = 9
	profileTimeout = time.Minute
)

// deviceOptions are the device options for --overlap, --window, --stats and --trace.
func (o *options) deviceOptions() []kompute.Option {
	out := o.computing()
	if o.stats {
		out = append(out, kompute.WithOpTimes())
	}
	if o.tracing != nil {
		out = append(out, kompute.WithTrace(o.tracing))
	}
	return out
}

// computing are those for --overlap and --window.
func (o *options) computing() []kompute.Option {
	out := []kompute.Option{kompute.WithWindow(o.window, 0)}
	if o.overlap {
		out = append(out, kompute.WithOverlap())
	}
	return out
}

// writeTrace writes the trace to the file that --trace names.
func (o *options) writeTrace() error {
	if o.tracing == nil {
		return nil
	}
	f, err := cli.CreateOutput(o.trace)
	if err != nil {
		return &usageError{"trace", err.Error()}
	}
	_, err = o.tracing.WriteTo(f)
	return errors.Join(err, f.Close())
}

// printStats prints what the device did by op, the ops of a replayed token, the
// ops that ran on the CPU instead of the device, and the device's counters.
func (a *app) printStats(ctx context.Context) error {
	stats := a.device.Stats()
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "op\tcalls\tdispatches\tdevice\thost")
	for _, op := range slices.Sorted(maps.Keys(stats.OpTimes)) {
		t := stats.OpTimes[op]
		fmt.Fprintf(w, "%s\t%d\t%d\t%v\t%v\n", op, t.Calls, t.Dispatches, t.Time.Round(time.Microsecond), t.Host.Round(time.Microsecond))
	}
	fmt.Fprintln(w)
	if err := a.printToken(ctx, w); err != nil {
		return err
	}
	printFallbacks(w, stats)
	printRows(w, stats)
	printCounters(w, stats)
	return w.Flush()
}

// printToken prints the ops of one replay of the decode step, if there is one, or
// why there is none. A run that was cancelled is measured as well.
func (a *app) printToken(ctx context.Context, w io.Writer) error {
	region := a.session.Region()
	if region == nil {
		if why := a.session.Uncaptured(); why != nil {
			fmt.Fprintf(w, "nothing was replayed\t%s\n\n", oneLine(why))
		}
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), profileTimeout)
	defer stop()
	p, err := region.Profile(ctx, profileTimes)
	if errors.Is(err, kompute.ErrUnsupported) {
		return nil // the device does not support timestamps
	}
	if err != nil {
		return err
	}
	sums, gaps := map[string]kompute.OpTime{}, time.Duration(0)
	for _, d := range p.Dispatches {
		t := sums[d.Op.Name]
		t.Dispatches++
		t.Time += d.Time
		sums[d.Op.Name] = t
		gaps += d.Gap
	}
	fmt.Fprintln(w, "op of a replayed token\t\tdispatches\tdevice")
	for _, op := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(w, "%s\t\t%d\t%v\n", op, sums[op].Dispatches, sums[op].Time)
	}
	fmt.Fprintf(w, "between dispatches\t\t\t%v\n", gaps)
	fmt.Fprintf(w, "replayed, not measured inside\t\t%d\t%v\n\n", len(p.Dispatches), p.Replay)
	return nil
}

// printFallbacks prints how often each op ran on the CPU and why, and the waits and
// copies that this caused; nothing if none did.
func printFallbacks(w io.Writer, s kompute.DeviceStats) {
	if len(s.Fallbacks) == 0 {
		return
	}
	fmt.Fprintln(w, "op on the CPU instead\tcalls\treason")
	for _, op := range slices.Sorted(maps.Keys(s.Fallbacks)) {
		for _, reason := range slices.Sorted(maps.Keys(s.Fallbacks[op])) {
			fmt.Fprintf(w, "%s\t%d\t%s\n", op, s.Fallbacks[op][reason], reason)
		}
	}
	fmt.Fprintln(w, "moved for it\twaits\tof\tdownloads\tbytes\tuploads\tbytes")
	for _, op := range slices.Sorted(maps.Keys(s.FallbackMoves)) {
		m := s.FallbackMoves[op]
		fmt.Fprintf(w, "%s\t%d\t%v\t%d\t%d\t%d\t%d\n", op, m.Waits, m.WaitTime, m.Downloads, m.DownloadBytes, m.Uploads, m.UploadBytes)
	}
	fmt.Fprintln(w)
}

// printRows prints how often products ran, by their number of rows.
func printRows(w io.Writer, s kompute.DeviceStats) {
	if len(s.CallsByRows) == 0 {
		return
	}
	fmt.Fprintln(w, "calls of products\t1 row\t2 to 8\t9 to 16\tmore")
	for _, op := range slices.Sorted(maps.Keys(s.CallsByRows)) {
		n := s.CallsByRows[op]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", op, n.One, n.UpTo8, n.UpTo16, n.More)
	}
	fmt.Fprintln(w)
}

func printCounters(w io.Writer, s kompute.DeviceStats) {
	for _, row := range []struct {
		name  string
		value any
	}{
		{"live tensors", s.LiveTensors},
		{"live bytes", s.LiveBytes},
		{"peak bytes", s.PeakBytes},
		{"bytes from the driver", s.ReservedBytes},
		{"pipelines built", s.PipelinesBuilt},
		{"uploads", fmt.Sprintf("%d\t%d bytes", s.Uploads, s.UploadBytes)},
		{"downloads", fmt.Sprintf("%d\t%d bytes", s.Downloads, s.DownloadBytes)},
		{"tensor cache", fmt.Sprintf("%d hits\t%d misses", s.CacheHits, s.CacheMisses)},
	} {
		fmt.Fprintf(w, "%s\t%v\n", row.name, row.value)
	}
}
