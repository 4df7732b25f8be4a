package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/kompute"
)

// The picture's measures, in pixels. All text is monospaced, so that its width
// is known wherever the picture is shown.
const (
	fontSize    = 11
	charWidth   = 0.61 * fontSize // of common monospaced fonts, rounded up
	rowHeight   = 22
	boxGap      = 8
	edge        = 16
	phaseWidth  = 5 * charWidth // the column of phase numbers
	headHeight  = 92            // title, sums, the axis of memory
	memoryWidth = 480
)

// picture is a region being drawn: a row for each phase (the dispatches between two
// barriers), with a box for each dispatch; and beside it, in the same rows, which
// part of the region's own memory is in use.
type picture struct {
	strings.Builder
	region   *kompute.RegionDescription
	phases   []int // of each dispatch
	rows     int
	boxWidth float64
	columns  int     // boxes in the widest row
	memory   float64 // where it starts
}

func drawRegion(region *kompute.RegionDescription, title string) []byte {
	p := &picture{region: region, phases: region.Phases(), rows: region.PhaseCount()}
	p.measure()
	sums := fmt.Sprintf("%d ops, %d after fusion; %d dispatches in %d phases", region.CapturedOps, len(region.Ops), len(region.Dispatches), p.rows)
	p.memory = max(edge+phaseWidth+float64(p.columns)*(p.boxWidth+boxGap), edge+float64(len(sums))*charWidth) + 3*boxGap
	width := max(p.memory+memoryWidth+edge, 2*edge+float64(utf8.RuneCountInString(title))*charWidth*titleScale)
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" font-family="DejaVu Sans Mono, Menlo, Consolas, Courier New, monospace" font-size="%d">`+"\n",
		width, headHeight+p.rows*rowHeight+edge, width, headHeight+p.rows*rowHeight+edge, fontSize)
	p.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	fmt.Fprintf(p, `<text x="%d" y="26" font-size="%.1f">%s</text>`+"\n", edge, fontSize*titleScale, html.EscapeString(title))
	fmt.Fprintf(p, `<text x="%d" y="48">%s</text>`+"\n", edge, sums)
	p.drawRows()
	p.drawDispatches()
	p.drawMemory()
	p.WriteString("</svg>\n")
	return []byte(p.String())
}

// titleScale is how much larger than the rest the title is.
const titleScale = 1.3

// measure computes how wide boxes must be for their labels, and how many there are in
// the widest row.
func (p *picture) measure() {
	column := 0
	for i, d := range p.region.Dispatches {
		if column++; i == 0 || p.phases[i] != p.phases[i-1] {
			column = 1
		}
		p.columns = max(p.columns, column)
		p.boxWidth = max(p.boxWidth, float64(utf8.RuneCountInString(p.label(d)))*charWidth+12)
	}
}

// drawRows numbers the phases and underlays every other one.
func (p *picture) drawRows() {
	for row := range p.rows {
		y := headHeight + row*rowHeight
		if row%2 == 1 {
			fmt.Fprintf(p, `<rect x="0" y="%d" width="100%%" height="%d" fill="#f4f4f4"/>`+"\n", y, rowHeight)
		}
		fmt.Fprintf(p, `<text x="%.1f" y="%d" fill="#777" text-anchor="end">%d</text>`+"\n", edge+phaseWidth-10, y+15, row)
	}
}

// drawDispatches draws the boxes. Those of one op have one colour, and hovering shows
// their details.
func (p *picture) drawDispatches() {
	column := 0
	for i, d := range p.region.Dispatches {
		if column++; i == 0 || p.phases[i] != p.phases[i-1] {
			column = 0
		}
		op := p.region.Ops[d.OpIndex]
		x := edge + phaseWidth + float64(column)*(p.boxWidth+boxGap)
		y := headHeight + p.phases[i]*rowHeight
		fmt.Fprintf(p, `<g><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%d" rx="3" fill="%s" stroke="#555"/><text x="%.1f" y="%d">%s</text></g>`+"\n",
			html.EscapeString(p.details(d)), x, y+2, p.boxWidth, rowHeight-4, colour(op.Name, len(op.FusedFrom) > 0), x+6, y+15, html.EscapeString(p.label(d)))
	}
}

// label is a dispatch's op, its kernel where that has another name, and the shape
// of what it writes first. Scratch memory of an op has none.
func (p *picture) label(d kompute.RegionDispatch) string {
	op := p.region.Ops[d.OpIndex]
	text := op.Name
	if d.Kernel != op.Name {
		text += ": " + d.Kernel
	}
	for _, o := range op.Operands {
		writes := func(u kompute.RegionUse) bool { return u.Tensor == o.Tensor }
		if o.Access&kompute.AccessWrite != 0 && slices.ContainsFunc(d.Writes, writes) {
			return text + fmt.Sprintf(" → %v", o.Shape)
		}
	}
	return text
}

// details is the text shown when hovering over a dispatch.
func (p *picture) details(d kompute.RegionDispatch) string {
	op := p.region.Ops[d.OpIndex]
	lines := []string{op.Name}
	if len(op.FusedFrom) > 0 {
		lines[0] += " = " + strings.Join(op.FusedFrom, " + ") + " (" + op.Pass + ")"
	}
	for _, o := range op.Operands {
		lines = append(lines, fmt.Sprintf("%s %s of %s", o.Access, o, p.region.TensorName(o.Tensor)))
	}
	lines = append(lines, fmt.Sprintf("kernel %s, grid %v", d.Kernel, d.Grid))
	return strings.Join(lines, "\n")
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
