// Command benchplot draws what `bench --json` prints, which it reads from its
// standard input, to the file that its one argument names: .svg or .png.
// It is a module of its own, so that the rest needs no plotting library.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// results is what the picture shows of bench's JSON.
type results struct {
	Model, Device, Driver string
	Tests                 []struct {
		Name, Mode string
		Rate       float64 `json:"tokens_per_second"`
		Low, High  float64
	}
	Profiles []profile
}

// profile is where a token's device time goes at one depth.
type profile struct {
	Depth   int
	Replay  float64 `json:"replay_ns"`
	Kernels []struct {
		Kernel, Op string
		FusedFrom  []string `json:"fused_from"`
		Calls      int
		Nanos      float64 `json:"total_ns"`
	}
	BarrierGaps gaps `json:"barrier_gaps"`
	OtherGaps   gaps `json:"other_gaps"`
}

type gaps struct {
	Calls int
	Nanos float64 `json:"total_ns"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "benchplot:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) error {
	if len(args) != 1 {
		return errors.New("usage: bench --json … | benchplot FILE.svg|FILE.png")
	}
	var r results
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("standard input is not what bench --json prints: %w", err)
	}
	if len(r.Tests) == 0 {
		return errors.New("standard input holds no tests")
	}
	return r.write(args[0])
}

// pictureWidth is that of every picture; its height follows from what it shows.
const (
	pictureWidth = 24 * vg.Centimeter
	edge         = 5 * vg.Millimeter
)

func (r *results) write(file string) (err error) {
	panels, err := r.panels()
	if err != nil {
		return err
	}
	height := vg.Length(0)
	for _, p := range panels {
		height += p.height
	}
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".svg":
		canvas = vgsvg.New(pictureWidth, height)
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.New(pictureWidth, height)}
	default:
		return fmt.Errorf("%s ends neither in .svg nor in .png", file)
	}
	all := draw.New(canvas)
	top := height
	for _, p := range panels {
		p.plot.Draw(draw.Crop(all, edge, -edge, top-p.height, top-height))
		top -= p.height
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = canvas.WriteTo(f)
	return err
}
