package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// svgPicture is the part of a drawing that the tests check.
type svgPicture struct {
	Width  float64   `xml:"width,attr"`
	Height float64   `xml:"height,attr"`
	Rects  []svgRect `xml:"rect"`
	Texts  []svgText `xml:"text"`
	Boxes  []struct {
		Title string  `xml:"title"`
		Rect  svgRect `xml:"rect"`
		Text  svgText `xml:"text"`
	} `xml:"g"`
}

type svgRect struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Width  string  `xml:"width,attr"`
	Height string  `xml:"height,attr"`
	Title  string  `xml:"title"`
}

type svgText struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Size   float64 `xml:"font-size,attr"`
	Anchor string  `xml:"text-anchor,attr"`
	Text   string  `xml:",chardata"`
}

// span is where a text begins and ends.
func (t svgText) span() (left, right float64) {
	width := float64(utf8.RuneCountInString(t.Text)) * charWidth
	if t.Size > 0 {
		width *= t.Size / fontSize
	}
	switch t.Anchor {
	case "middle":
		return t.X - width/2, t.X + width/2
	case "end":
		return t.X - width, t.X
	}
	return t.X, t.X + width
}

func parsePicture(t *testing.T, data []byte) svgPicture {
	var p svgPicture
	require.NoError(t, xml.Unmarshal(data, &p))
	return p
}

// requireNoOverprinting checks that all text is inside the picture, that labels are
// inside their boxes, and that no two texts overlap.
func requireNoOverprinting(t *testing.T, p svgPicture) {
	t.Helper()
	all := p.Texts
	for _, box := range p.Boxes {
		_, right := box.Text.span()
		require.Greater(t, box.Text.X, box.Rect.X)
		require.Less(t, right, box.Rect.X+number(t, box.Rect.Width), box.Text.Text)
		all = append(all, box.Text)
	}
	for i, a := range all {
		left, right := a.span()
		require.GreaterOrEqual(t, left, 0.0, a.Text)
		require.LessOrEqual(t, right, p.Width, a.Text)
		for _, b := range all[:i] {
			otherLeft, otherRight := b.span()
			apart := right < otherLeft || otherRight < left || max(a.Y-b.Y, b.Y-a.Y) >= fontSize
			require.True(t, apart, "%q is printed over %q", a.Text, b.Text)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	var v float64
	require.NoError(t, xml.Unmarshal([]byte("<v>"+text+"</v>"), &v))
	return v
}

// The picture has a box for each dispatch, with shapes, and the region's memory
// under an axis, on every backend.
func TestDumpRegion(t *testing.T) {
	for _, device := range backends() {
		file := filepath.Join(t.TempDir(), "region.svg")
		out := runArgs(t, "--quiet", "--prompt", "Hi", "--max-tokens", "4", "--device", device, "--dump-region", file)
		require.Zero(t, out.code, out.stderr)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		p := parsePicture(t, data)
		require.Equal(t, "100%", p.Rects[0].Width, "a background")
		require.Greater(t, len(p.Boxes), 10)
		requireNoOverprinting(t, p)
		text := string(data)
		require.Contains(t, text, "quantized_gather → [1 1 256]")
		require.Contains(t, text, "own memory: ")
		require.Contains(t, text, ">0 B<")
		require.Contains(t, text, " KiB<")
		require.Contains(t, text, "read float32[1 1 256] of planned#")
	}
}

// The file's extension selects the form.
func TestDumpRegionAsJSONAndText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "region")
	args := []string{"--quiet", "--prompt", "Hi", "--max-tokens", "4", "--device=cpu", "--dump-region"}
	require.Zero(t, runArgs(t, append(args, file+".json")...).code)
	data, err := os.ReadFile(file + ".json")
	require.NoError(t, err)
	var region kompute.RegionDescription
	require.NoError(t, json.Unmarshal(data, &region))
	require.Greater(t, len(region.Ops), 10)
	require.Zero(t, runArgs(t, append(args, file+".txt")...).code)
	text, err := os.ReadFile(file + ".txt")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(text), "\n"+region.String()), "the same region")
}

// Regions of any form are drawn without overlapping text.
func TestDrawRegion(t *testing.T) {
	planned := func(arena int, offset, bytes int64, first, last int) kompute.RegionTensor {
		return kompute.RegionTensor{Kind: kompute.RegionTensorPlanned, Arena: arena, Offset: offset, Bytes: bytes, First: first, Last: last}
	}
	op := kompute.RegionOp{Name: strings.Repeat("a_long_name_", 5), Dispatches: 1}
	for name, region := range map[string]*kompute.RegionDescription{
		"empty": {},
		"one narrow op": {CapturedOps: 1000, Ops: []kompute.RegionOp{{Name: "f", Dispatches: 1}},
			Dispatches: []kompute.RegionDispatch{{Kernel: "f"}}},
		"no own memory": {Ops: []kompute.RegionOp{op}, Dispatches: []kompute.RegionDispatch{{Kernel: "<kernel>"}}},
		"small and large arenas": {
			Ops:        []kompute.RegionOp{op, op},
			Dispatches: []kompute.RegionDispatch{{Kernel: "a"}, {OpIndex: 1, Kernel: "b", Barrier: true}},
			Memory: kompute.RegionMemory{Arenas: []int64{5, 1000, 3 << 30}, Tensors: []kompute.RegionTensor{
				planned(0, 0, 5, 0, 0), planned(1, 0, 1000, 0, 1), planned(2, 1<<20, 1<<30, 1, 1),
			}},
		},
		"one byte": {
			Ops: []kompute.RegionOp{op}, Dispatches: []kompute.RegionDispatch{{Kernel: "a"}},
			Memory: kompute.RegionMemory{Arenas: []int64{1}, Tensors: []kompute.RegionTensor{planned(0, 0, 1, 0, 0)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := parsePicture(t, drawRegion(region, "a model on a device with quite a long name, as devices have them"))
			requireNoOverprinting(t, p)
			require.Len(t, p.Boxes, len(region.Dispatches))
		})
	}
}
