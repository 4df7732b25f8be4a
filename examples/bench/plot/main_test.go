package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	if err := run([]string{file}, strings.NewReader(sample), io.Discard); err != nil {
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
	if bytes.Contains(data, []byte("Serif")) || !bytes.Contains(data, []byte("font-family:'Liberation Sans',Arial,Helvetica,'DejaVu Sans',sans-serif;")) {
		t.Error("a font without others to fall back on")
	}
}

// The background reaches from corner to corner.
func TestBackground(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.svg")
	if err := run([]string{file}, strings.NewReader(sample), io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	size := regexp.MustCompile(`viewBox="0 0 ([0-9.]+) ([0-9.]+)"`).FindSubmatch(data)
	if size == nil {
		t.Fatal("no viewBox")
	}
	first := regexp.MustCompile(`<path d="[^"]*" style="fill:#[0-9A-F]*"`).Find(data)
	want := fmt.Sprintf(`<path d="M0,0L%[1]s,0L%[1]s,%[2]sL0,%[2]sZ" style="fill:#FFFFFF"`, size[1], size[2])
	if string(first) != want {
		t.Errorf("the first path is %s, not %s", first, want)
	}
}

// With a font that is wider than that of the layout, names do not overlap bars.
func TestNamesHaveRoom(t *testing.T) {
	names := []string{"43 × quantized_matmul", "x"}
	p := newPlot("title", "µs", names)
	width := p.Y.Tick.Label.Width(names[0])
	if room := width + p.Y.Padding; room < wider*width {
		t.Errorf("a name of %v has room of %v", width, room)
	}
	for _, tick := range p.X.Tick.Marker.Ticks(0, 1000) {
		if strings.Contains(tick.Label, ".") {
			t.Errorf("a tick says %q", tick.Label)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for arg, want := range map[string]string{"--help": "usage: bench --json", "-h": "--version", "--version": "benchplot (kompute-go) "} {
		var out bytes.Buffer
		if err := run([]string{arg}, strings.NewReader(""), &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %q", arg, err, out.String())
		}
	}
}

func TestPNG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.PNG")
	if err := run([]string{file}, strings.NewReader(sample), io.Discard); err != nil {
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
		"no flag":    {[]string{"--draw"}, sample},
		"two files":  {[]string{file + ".svg", file + ".png"}, sample},
		"extension":  {[]string{file + ".pdf"}, sample},
		"no JSON":    {[]string{file + ".svg"}, "test  tokens/s"},
		"no tests":   {[]string{file + ".svg"}, "{}"},
		"no folder":  {[]string{filepath.Join(file, "b", "c.svg")}, sample},
		"empty text": {[]string{file + ".svg"}, ""},
	} {
		if err := run(c.args, strings.NewReader(c.in), io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOpsAreDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ops.svg")
	in := strings.NewReader(`{"device":"a GPU","ops":[
		{"op":"copy","dtype":"float32","size":4096,"limit":"memory","share":0.9,"bytes_per_second":4e12},
		{"op":"matmul","dtype":"float32","size":4096,"limit":"matrix","share":0.5,"flop_per_second":3e13}]}`)
	if err := run([]string{file}, in, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"copy float32: 4000 GB/s", "matmul float32: 30 TFLOP/s", "Ops of 4096 elements"} {
		if !strings.Contains(string(data), text) {
			t.Errorf("the picture has no %q", text)
		}
	}
}

func TestBatchesAreDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batch.svg")
	in := strings.NewReader(`{"model":"m","device":"a GPU","batches":[
		{"clients":1,"tokens_per_second":1400,"first_token_p50_ns":9e6,"first_token_p99_ns":9e6,"next_token_p50_ns":7e5,"next_token_p99_ns":8e5},
		{"clients":32,"tokens_per_second":14000,"first_token_p50_ns":9e7,"first_token_p99_ns":2e8,"next_token_p50_ns":2e6,"next_token_p99_ns":9e6}],
		"profiles":[{"clients":32,"rows":32,"replay_ns":2e6,"kernels":[{"kernel":"copy","op":"copy","calls":1,"total_ns":1e6}]}]}`)
	if err := run([]string{file}, in, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Time to the first token", "clients", "median", "99th percentile", "A step of 32 rows with 32 clients"} {
		if !strings.Contains(string(data), text) {
			t.Errorf("the picture has no %q", text)
		}
	}
}
