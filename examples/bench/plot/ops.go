package main

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// opRate is one call of `bench --ops`.
type opRate struct {
	Op, Kind    string
	DType       any `json:"dtype"`
	Size, Rows  int
	Limit       string
	Share       float64
	BytesPerSec float64 `json:"bytes_per_second"`
	FLOPPerSec  float64 `json:"flop_per_second"`
}

func (o *opRate) name() string {
	name := strings.Join(strings.Fields(o.Op+" "+o.Kind), " ")
	if o.Rows > 0 {
		name += fmt.Sprintf(", %d rows", o.Rows)
	}
	if o.Limit == "matrix" {
		return fmt.Sprintf("%s %v: %.3g TFLOP/s", name, o.DType, o.FLOPPerSec/1e12)
	}
	return fmt.Sprintf("%s %v: %.0f GB/s", name, o.DType, o.BytesPerSec/1e9)
}

// opPanels draws a panel for each size, with a bar for each op.
func (r *results) opPanels() ([]panel, error) {
	var sizes []int
	for _, o := range r.Ops {
		if !slices.Contains(sizes, o.Size) {
			sizes = append(sizes, o.Size)
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	var out []panel
	for _, size := range sizes {
		var names []string
		var values plotter.Values
		for i := len(r.Ops) - 1; i >= 0; i-- { // the first at the top
			if o := &r.Ops[i]; o.Size == size {
				names = append(names, shortened(o.name()))
				values = append(values, 100*o.Share)
			}
		}
		p := newPlot(fmt.Sprintf("Ops of %d elements: the share of what a probe of memory or arithmetic reaches beside", size), "%", names)
		if err := addBars(p, values, modeColors["region"]); err != nil {
			return nil, err
		}
		out = append(out, panel{p, margins + vg.Length(len(names))*lineSpace})
	}
	return out, nil
}
