package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// pictureWidth is the width of every picture; its height depends on the content.
const (
	pictureWidth = 24 * vg.Centimeter
	edge         = 5 * vg.Millimeter
	headHeight   = 14 * vg.Millimeter // the title of the picture
	panelGap     = 7 * vg.Millimeter  // below each panel
)

// The fonts of a picture. It is laid out with Liberation Sans; a viewer without
// that font uses the next one in the list.
const (
	fontFamily   = "Liberation Sans"
	fontFamilies = "'Liberation Sans',Arial,Helvetica,'DejaVu Sans',sans-serif"
	// wider is how much wider than Liberation Sans a font of the list may be.
	wider = 1.25
)

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// canvas is what a picture is drawn on, and written to a file.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

func (r *results) write(file string) error {
	panels, err := r.panels()
	if err != nil {
		return err
	}
	height := headHeight
	for _, p := range panels {
		height += p.height + panelGap
	}
	var picture canvas
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".svg":
		picture = svg{vgsvg.New(pictureWidth, height)}
	case ".png":
		picture = vgimg.PngCanvas{Canvas: vgimg.New(pictureWidth, height)}
	default:
		return fmt.Errorf("%s ends neither in .svg nor in .png", file)
	}
	r.draw(draw.New(picture), panels)
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = picture.WriteTo(f)
	return errors.Join(err, f.Close())
}

// draw draws a background, the title and the panels below each other.
func (r *results) draw(all draw.Canvas, panels []panel) {
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	title := text.Style{Color: color.Black, Font: font.From(sans, 14), Handler: plot.DefaultTextHandler, YAlign: text.YTop}
	all.FillText(title, vg.Point{X: edge, Y: all.Max.Y - edge}, strings.TrimPrefix(r.Model+" on "+r.Device, " on "))
	top := all.Max.Y - headHeight
	for _, p := range panels {
		p.plot.Draw(draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: edge, Y: top - p.height}, Max: vg.Point{X: all.Max.X - edge, Y: top},
		}})
		top -= p.height + panelGap
	}
}

// svg is an SVG whose text names fonts to fall back on.
type svg struct{ *vgsvg.Canvas }

// WriteTo writes the picture.
func (s svg) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := s.Canvas.WriteTo(&b); err != nil {
		return 0, err
	}
	n, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:"+fontFamily+";"), []byte("font-family:"+fontFamilies+";")))
	return int64(n), err
}
