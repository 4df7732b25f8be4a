package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `{"model": "tiny", "device": "a device", "driver": "1.0", "tests": [
	{"name": "pp8", "mode": "prompt", "tokens_per_second": 900, "low": 800, "high": 950, "work": {}},
	{"name": "tg4", "mode": "region", "tokens_per_second": 50, "low": 45, "high": 51, "work": {}},
	{"name": "tg4", "mode": "eager", "tokens_per_second": 20, "low": 20, "high": 20, "work": {}}],
	"profiles": [
		{"depth": 7, "replay_ns": 20000, "kernels": [
			{"kernel": "projection", "op": "projection", "fused_from": ["rms_norm", "quantized_matmul", "quantized_matmul"], "calls": 4, "total_ns": 15000},
			{"kernel": "copy", "op": "slice_update", "fused_from": [], "calls": 2, "total_ns": 3000}],
			"barrier_gaps": {"calls": 5, "total_ns": 2000}, "other_gaps": {"calls": 1, "total_ns": 10}},
		{"depth": 9, "eager_ops": [{"op": "copy", "calls": 1}]}]}`

func TestSVGShowsEveryTestAndKernel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.svg")
	if err := run([]string{file}, strings.NewReader(sample)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"tiny on a device", "pp8, prompt", "tg4, region", "tg4, eager", "depth 7", "4 × projection of rms_norm, 2 quantized_matmul", "2 × copy of slice_update", "5 × gap with barrier"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the picture does not show %q", want)
		}
	}
}

func TestPNG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.PNG")
	if err := run([]string{file}, strings.NewReader(sample)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if picture, err := png.Decode(f); err != nil || picture.Bounds().Dx() < 500 {
		t.Fatal(err, picture)
	}
}

func TestRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	for name, c := range map[string]struct {
		args []string
		in   string
	}{
		"no file":    {nil, sample},
		"two files":  {[]string{file + ".svg", file + ".png"}, sample},
		"extension":  {[]string{file + ".pdf"}, sample},
		"no JSON":    {[]string{file + ".svg"}, "test  tokens/s"},
		"no tests":   {[]string{file + ".svg"}, "{}"},
		"no folder":  {[]string{filepath.Join(file, "b", "c.svg")}, sample},
		"empty text": {[]string{file + ".svg"}, ""},
	} {
		if err := run(c.args, strings.NewReader(c.in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
