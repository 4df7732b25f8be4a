package main

import (
	"fmt"
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// panel is one part of the picture, from top to bottom.
type panel struct {
	plot   *plot.Plot
	height vg.Length
}

var modeColors = map[string]color.Color{
	"prompt": color.RGBA{R: 0x59, G: 0xa1, B: 0x4f, A: 0xff},
	"region": color.RGBA{R: 0x4e, G: 0x79, B: 0xa7, A: 0xff},
	"eager":  color.RGBA{R: 0xf2, G: 0x8e, B: 0x2b, A: 0xff},
}

const (
	barWidth  = 4 * vg.Millimeter
	lineSpace = 6 * vg.Millimeter
	margins   = 25 * vg.Millimeter // title and axis
)

// panels draws the rates of prompts, those of tokens, since they differ by
// orders of magnitude, and one panel of kernels for each depth.
func (r *results) panels() ([]panel, error) {
	out, err := r.opPanels()
	if err != nil {
		return nil, err
	}
	batches, err := r.batchPanels()
	if err != nil {
		return nil, err
	}
	out = append(out, batches...)
	for _, prompts := range []bool{true, false} {
		p, err := r.rates(prompts)
		if err != nil {
			return nil, err
		}
		if p.plot != nil {
			out = append(out, p)
		}
	}
	for i := range r.Profiles {
		p, err := r.Profiles[i].panel()
		if err != nil {
			return nil, err
		}
		if p.plot != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// rates draws a bar for each test, with a line from the slowest to the fastest
// repetition.
func (r *results) rates(prompts bool) (panel, error) {
	bars := map[string]plotter.Values{}
	var names []string
	var spread struct {
		plotter.XYs
		plotter.XErrors
	}
	for i := len(r.Tests) - 1; i >= 0; i-- { // the first at the top
		t := r.Tests[i]
		if (t.Mode == "prompt") != prompts {
			continue
		}
		at := len(names)
		names = append(names, t.Name+", "+t.Mode)
		for mode := range modeColors {
			value := 0.0
			if mode == t.Mode {
				value = t.Rate
			}
			bars[mode] = append(bars[mode], value)
		}
		spread.XYs = append(spread.XYs, plotter.XY{X: t.Rate, Y: float64(at)})
		spread.XErrors = append(spread.XErrors, struct{ Low, High float64 }{t.Rate - t.Low, t.High - t.Rate})
	}
	if len(names) == 0 {
		return panel{}, nil
	}
	title := "Generated tokens"
	if prompts {
		title = "Prompts"
	}
	p := newPlot(title+": median, and the range from the slowest to the fastest repetition", "tokens per second", names)
	for mode, values := range bars {
		if err := addBars(p, values, modeColors[mode]); err != nil {
			return panel{}, err
		}
	}
	whiskers, err := plotter.NewXErrorBars(spread)
	if err != nil {
		return panel{}, err
	}
	p.Add(whiskers)
	return panel{p, margins + vg.Length(len(names))*lineSpace}, nil
}

// panel draws a bar for each kernel of a token or step, and for the gaps.
func (p *profile) panel() (panel, error) {
	if len(p.Kernels) == 0 {
		return panel{}, nil
	}
	var names []string
	var values plotter.Values
	add := func(calls int, name string, ns float64) {
		names = append(names, fmt.Sprintf("%d × %s", calls, name))
		values = append(values, ns/1e3)
	}
	add(p.OtherGaps.Calls, "gap without barrier", p.OtherGaps.Nanos)
	add(p.BarrierGaps.Calls, "gap with barrier", p.BarrierGaps.Nanos)
	for i := len(p.Kernels) - 1; i >= 0; i-- { // the first at the top
		k := p.Kernels[i]
		name := k.Kernel
		if len(k.FusedFrom) > 0 {
			name += " of " + joined(k.FusedFrom)
		} else if k.Op != k.Kernel {
			name += " of " + k.Op
		}
		add(k.Calls, shortened(name), k.Nanos)
	}
	what := fmt.Sprintf("A token at depth %d", p.Depth)
	if p.Clients > 0 {
		what = fmt.Sprintf("A step of %d rows with %d clients", p.Rows, p.Clients)
	}
	out := newPlot(fmt.Sprintf("%s by kernel; without timestamps inside, it takes %.0f µs", what, p.Replay/1e3), "µs", names)
	if err := addBars(out, values, modeColors["region"]); err != nil {
		return panel{}, err
	}
	return panel{out, margins + vg.Length(len(names))*lineSpace}, nil
}

// joined counts ops that come several times in a row.
func joined(ops []string) string {
	var parts []string
	for first, i := 0, 1; i <= len(ops); i++ {
		if i < len(ops) && ops[i] == ops[first] {
			continue
		}
		part := ops[first]
		if i-first > 1 {
			part = fmt.Sprintf("%d %s", i-first, part)
		}
		parts = append(parts, part)
		first = i
	}
	return strings.Join(parts, ", ")
}

func shortened(name string) string {
	const most = 44
	if len(name) <= most {
		return name
	}
	return name[:most-1] + "…"
}

// newPlot makes a plot with a name for each bar, from below, and an axis in that
// unit.
func newPlot(title, unit string, names []string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the picture has its own title
	p.Title.Text = title
	p.Title.Padding = 3 * vg.Millimeter
	p.X.Label.Text = unit
	p.X.Label.Padding = vg.Millimeter
	p.X.Min = 0
	p.X.Tick.Marker = ticks{}
	p.NominalY(names...)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font = font.From(sans, style.Font.Size)
	}
	// Names are placed so that they end at the bars, and a substitute font makes
	// them longer.
	longest := vg.Length(0)
	for _, name := range names {
		longest = max(longest, p.Y.Tick.Label.Width(name))
	}
	p.Y.Padding = longest * (wider - 1)
	return p
}

// ticks are those of plot.DefaultTicks, with numbers as short as possible.
type ticks struct{}

// Ticks returns the ticks of an axis.
func (ticks) Ticks(lo, hi float64) []plot.Tick {
	out := plot.DefaultTicks{}.Ticks(lo, hi)
	for i, t := range out {
		if t.Label != "" {
			out[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return out
}

func addBars(p *plot.Plot, values plotter.Values, fill color.Color) error {
	bars, err := plotter.NewBarChart(values, barWidth)
	if err != nil {
		return err
	}
	bars.Horizontal = true
	bars.Color = fill
	bars.LineStyle.Width = 0
	p.Add(bars)
	return nil
}
