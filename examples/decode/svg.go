package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"strings"
)

// dumpRegion draws the decode step that the answers were made with.
func (a *app) dumpRegion(file string) error {
	region := a.session.Region()
	if region == nil {
		return &usageError{"dump-region", "nothing was replayed"}
	}
	picture, err := drawRegion(region.JSON(), a.folder.Name()+" on "+a.device.Info().Name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, picture, 0o644)
}

// regionGraph is what the picture shows of Region.JSON.
type regionGraph struct {
	OpsAppended             int   `json:"ops_appended"`
	OpsRecorded             int   `json:"ops_recorded"`
	TransientBytes          int64 `json:"transient_bytes"`
	TransientBytesUnplanned int64 `json:"transient_bytes_unplanned"`
	Ops                     []struct {
		Op, Pass   string
		Fused      []string
		Dispatches int
	}
	Dispatches []struct {
		Kernel        string
		Grid          [3]int
		Barrier       bool
		Reads, Writes []struct{ Tensor int }
	}
	Tensors []struct {
		Kind                string
		Bytes, Arena        int64
		Offset, First, Last int64
	}
}

// The picture's measures, in pixels.
const (
	rowHeight   = 24
	boxWidth    = 216
	boxGap      = 8
	leftEdge    = 48
	topEdge     = 64
	memoryWidth = 360
)

// drawRegion draws a row for each phase, which is what runs between two
// barriers, with a box for each dispatch; and beside it, in the same rows, which
// part of the region's own memory is in use.
func drawRegion(text []byte, title string) ([]byte, error) {
	var g regionGraph
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, errors.Join(errors.New("--dump-region: the region's description"), err)
	}
	phases, widest := g.phases()
	rows := 0
	if len(phases) > 0 {
		rows = phases[len(phases)-1] + 1
	}
	memoryEdge := leftEdge + widest*(boxWidth+boxGap) + 2*boxGap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		memoryEdge+memoryWidth+boxGap, topEdge+rows*rowHeight+boxGap)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="15">%s</text>`+"\n", html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="8" y="40">%d ops, %d after fusion; %d dispatches in %d phases</text>`+"\n", g.OpsAppended, g.OpsRecorded, len(g.Dispatches), rows)
	fmt.Fprintf(&b, `<text x="%d" y="40">own memory: %d bytes, %d without sharing</text>`+"\n", memoryEdge, g.TransientBytes, g.TransientBytesUnplanned)
	g.drawDispatches(&b, phases)
	g.drawMemory(&b, phases, memoryEdge)
	b.WriteString("</svg>\n")
	return []byte(b.String()), nil
}

// phases returns the phase of each dispatch, and how many the widest one has.
func (g *regionGraph) phases() (phases []int, widest int) {
	phase, here := 0, 0
	for i, d := range g.Dispatches {
		if d.Barrier && i > 0 {
			phase++
			here = 0
		}
		here++
		widest = max(widest, here)
		phases = append(phases, phase)
	}
	return phases, widest
}

// drawDispatches draws the boxes. Those of one op have one colour, and hovering
// tells everything about them.
func (g *regionGraph) drawDispatches(b *strings.Builder, phases []int) {
	next, column := 0, 0
	for _, op := range g.Ops {
		label := op.Op
		if len(op.Fused) > 0 {
			label += " = " + strings.Join(op.Fused, " + ") + " (" + op.Pass + ")"
		}
		for range op.Dispatches {
			if next == len(phases) {
				return
			}
			if column++; next == 0 || phases[next] != phases[next-1] {
				column = 0
			}
			d := g.Dispatches[next]
			x, y := leftEdge+column*(boxWidth+boxGap), topEdge+phases[next]*rowHeight
			if column == 0 {
				fmt.Fprintf(b, `<text x="8" y="%d" fill="#777">%d</text>`+"\n", y+15, phases[next])
			}
			fmt.Fprintf(b, `<g><title>%s
kernel %s, grid %v, reads %s, writes %s</title><rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="%s" stroke="#555"/><text x="%d" y="%d">%s</text></g>`+"\n",
				html.EscapeString(label), html.EscapeString(d.Kernel), d.Grid, g.kinds(d.Reads), g.kinds(d.Writes),
				x, y+2, boxWidth, rowHeight-4, colour(op.Op, len(op.Fused) > 0), x+6, y+16, html.EscapeString(shorten(op.Op+": "+d.Kernel, 34)))
			next++
		}
	}
}

// kinds names tensors by number and kind.
func (g *regionGraph) kinds(uses []struct{ Tensor int }) string {
	var names []string
	for _, u := range uses {
		if u.Tensor >= 0 && u.Tensor < len(g.Tensors) {
			names = append(names, fmt.Sprintf("%s#%d", g.Tensors[u.Tensor].Kind, u.Tensor))
		}
	}
	return strings.Join(names, " ")
}

// drawMemory draws the region's own tensors: to the right by place, downwards
// by time.
func (g *regionGraph) drawMemory(b *strings.Builder, phases []int, edge int) {
	end := int64(1)
	for _, t := range g.Tensors {
		if t.Kind == "planned" {
			end = max(end, t.Offset+t.Bytes)
		}
	}
	for i, t := range g.Tensors {
		if t.Kind != "planned" || t.First >= int64(len(phases)) || t.Last >= int64(len(phases)) {
			continue
		}
		x := float64(edge) + float64(t.Offset)/float64(end)*memoryWidth
		y := topEdge + phases[t.First]*rowHeight
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#555" stroke-width="0.5"><title>tensor %d: %d bytes at %d of arena %d</title></rect>`+"\n",
			x, y+2, max(float64(t.Bytes)/float64(end)*memoryWidth, 1), (phases[t.Last]-phases[t.First]+1)*rowHeight-4,
			colour(fmt.Sprint(i), false), i, t.Bytes, t.Offset, t.Arena)
	}
}

// colour returns a pale colour for a name, the same for the same name; fused ops
// have stronger ones.
func colour(name string, fused bool) string {
	hue := 7
	for _, c := range name {
		hue = (hue*31 + int(c)) % 360
	}
	if fused {
		return fmt.Sprintf("hsl(%d,80%%,70%%)", hue)
	}
	return fmt.Sprintf("hsl(%d,60%%,88%%)", hue)
}

func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:n-1] + "…"
}
