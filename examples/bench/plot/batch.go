package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// batch is one number of clients of `bench --batch`.
type batch struct {
	Clients  int
	Rate     float64 `json:"tokens_per_second"`
	FirstP50 float64 `json:"first_token_p50_ns"`
	FirstP99 float64 `json:"first_token_p99_ns"`
	NextP50  float64 `json:"next_token_p50_ns"`
	NextP99  float64 `json:"next_token_p99_ns"`
}

// curve is a quantity against the number of clients.
type curve struct {
	name, color string
	value       func(*batch) float64
}

const curveHeight = 70 * vg.Millimeter

// batchPanels draws rate and latencies against clients.
func (r *results) batchPanels() ([]panel, error) {
	if len(r.Batches) == 0 {
		return nil, nil
	}
	var out []panel
	for _, c := range []struct {
		title, unit string
		curves      []curve
	}{
		{"Tokens generated per second, for all clients", "tokens per second", []curve{
			{"", "region", func(b *batch) float64 { return b.Rate }},
		}},
		{"Time to the first token", "ms", []curve{
			{"median", "region", func(b *batch) float64 { return b.FirstP50 / 1e6 }},
			{"99th percentile", "eager", func(b *batch) float64 { return b.FirstP99 / 1e6 }},
		}},
		{"Time from one token to the next", "ms", []curve{
			{"median", "region", func(b *batch) float64 { return b.NextP50 / 1e6 }},
			{"99th percentile", "eager", func(b *batch) float64 { return b.NextP99 / 1e6 }},
		}},
	} {
		p, err := r.curves(c.title, c.unit, c.curves)
		if err != nil {
			return nil, err
		}
		out = append(out, panel{p, curveHeight})
	}
	return out, nil
}

// curves draws lines with a point at each number of clients.
func (r *results) curves(title, unit string, all []curve) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = nil // the picture has its own title
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "clients", unit
	p.Title.Padding = 3 * vg.Millimeter
	p.X.Min, p.Y.Min = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = font.From(sans, style.Font.Size)
	}
	p.Legend.Top, p.Legend.Left = true, true
	for _, c := range all {
		var xy plotter.XYs
		for i := range r.Batches {
			b := &r.Batches[i]
			xy = append(xy, plotter.XY{X: float64(b.Clients), Y: c.value(b)})
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, err
		}
		line.Color, points.Color = modeColors[c.color], modeColors[c.color]
		line.Width = vg.Millimeter / 2
		p.Add(line, points)
		if c.name != "" {
			p.Legend.Add(c.name, line, points)
		}
	}
	return p, nil
}
