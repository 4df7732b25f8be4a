package main

import (
	"fmt"
	"html"
	"math"

	"github.com/kompute-go/kompute-go/kompute"
)

// drawMemory draws the region's own tensors under an axis in bytes: horizontally by
// offset, one arena after the other, and vertically by time.
func (p *picture) drawMemory() {
	m := &p.region.Memory
	fmt.Fprintf(p, `<text x="%.1f" y="48">own memory: %s, %s without sharing</text>`+"\n", p.memory, bytesText(m.TransientBytes), bytesText(m.TransientBytesUnplanned))
	starts, end := arenaStarts(m.Arenas)
	if end == 0 {
		return
	}
	scale := memoryWidth / float64(end)
	p.drawAxis(m.Arenas, starts, scale)
	for i, t := range m.Tensors {
		if t.Kind != kompute.RegionTensorPlanned && t.Kind != kompute.RegionTensorAwaited {
			continue
		}
		x := p.memory + float64(starts[t.Arena]+t.Offset)*scale
		y := headHeight + p.phases[t.First]*rowHeight
		rows := p.phases[t.Last] - p.phases[t.First] + 1
		fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#555" stroke-width="0.5"><title>%s</title></rect>`+"\n",
			x, y+2, max(float64(t.Bytes)*scale, 1), rows*rowHeight-4, colour(fmt.Sprint(i), false), html.EscapeString(p.lifetime(i, t)))
	}
}

// lifetime is the text shown when hovering over a tensor.
func (p *picture) lifetime(i int, t kompute.RegionTensor) string {
	return fmt.Sprintf("%s: %d bytes at %d of arena %d, phases %d to %d",
		p.region.TensorName(i), t.Bytes, t.Offset, t.Arena, p.phases[t.First], p.phases[t.Last])
}

// arenaStarts places arenas one after the other, and returns where each begins and
// where the last one ends.
func arenaStarts(arenas []int64) (starts []int64, end int64) {
	for _, bytes := range arenas {
		starts = append(starts, end)
		end += bytes
	}
	return starts, end
}

// drawAxis draws a line above each arena with ticks in bytes, and through the
// rows a faint line for each tick. Where arenas are too narrow for it, a tick has
// no text.
func (p *picture) drawAxis(arenas, starts []int64, scale float64) {
	const y = headHeight - 8
	bottom := headHeight + p.rows*rowHeight
	free := 0.0 // right of the last text
	for i, bytes := range arenas {
		left, length := p.memory+float64(starts[i])*scale, float64(bytes)*scale
		fmt.Fprintf(p, `<path d="M%.1f %dH%.1f" stroke="#333"/>`+"\n", left, y, left+length)
		step := tickStep(float64(bytes), length)
		for at := 0.0; at <= float64(bytes); at += step {
			x, text := left+at*scale, bytesText(int64(at))
			fmt.Fprintf(p, `<path d="M%.1f %dV%d" stroke="#333"/><path d="M%.1f %dV%d" stroke="#ddd" stroke-dasharray="2 3"/>`+"\n",
				x, y-4, y, x, y, bottom)
			width := float64(len(text)) * charWidth
			start := min(max(x-width/2, p.memory), p.memory+memoryWidth-width)
			if start >= free {
				fmt.Fprintf(p, `<text x="%.1f" y="%d">%s</text>`+"\n", start, y-8, text)
				free = start + width + charWidth
			}
		}
	}
}

// tickWidth is the room that the text of a tick needs, in pixels.
const tickWidth = 12 * charWidth

// tickStep is the smallest power of two of bytes whose ticks do not touch on an
// axis of that many pixels.
func tickStep(bytes, pixels float64) float64 {
	least := bytes / math.Max(math.Floor(pixels/tickWidth), 1)
	return math.Max(math.Exp2(math.Ceil(math.Log2(math.Max(least, 1)))), 1)
}

// bytesText formats bytes in a suitable unit.
func bytesText(n int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case n >= mib:
		return trimmed(float64(n)/mib) + " MiB"
	case n >= kib:
		return trimmed(float64(n)/kib) + " KiB"
	}
	return fmt.Sprintf("%d B", n)
}

// trimmed writes a number with at most one digit after the point.
func trimmed(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
