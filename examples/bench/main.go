// Command bench measures how fast a Qwen3 model reads and writes tokens on a
// device, in llama-bench's terms: ppN is a prompt of N tokens, tgN are N tokens
// made one by one. Without --model it makes a checkpoint of a given shape with
// random weights.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kompute-go/kompute-go/generate"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/model"
)

// options is what the command line asks for.
type options struct {
	model, shape, out, device string
	seed                      uint64
	prompts, gens, depths     []int
	reps                      int
	eager, json               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		stop()
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.model, "model", "", "checkpoint `folder` to measure (default: one of --shape with random weights)")
	fs.StringVar(&o.shape, "shape", "qwen3-0.6b", "`shape` to make: tiny, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b")
	fs.StringVar(&o.out, "out", "", "`folder` to make it in, and to keep (default: a temporary one)")
	fs.StringVar(&o.device, "device", "auto", "`device`: auto, cpu, vulkan, vulkan:INDEX or vulkan:NAME")
	fs.Uint64Var(&o.seed, "seed", 0, "seed of the random weights and prompts")
	prompts := fs.String("p", "512", "prompt `lengths` to measure, with commas; 0: none")
	gens := fs.String("n", "128", "numbers of `tokens` to make, with commas; 0: none")
	depths := fs.String("d", "0", "`tokens` in the cache before, with commas")
	fs.IntVar(&o.reps, "r", 5, "repetitions of each test")
	fs.BoolVar(&o.eager, "eager", false, "enqueue the ops of each token one by one instead of replaying a region")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var errs [3]error
	o.prompts, errs[0] = numbers("p", *prompts)
	o.gens, errs[1] = numbers("n", *gens)
	o.depths, errs[2] = numbers("d", *depths)
	if o.reps < 1 {
		return nil, fmt.Errorf("-r: %d is less than 1", o.reps)
	}
	return o, errors.Join(errs[:]...)
}

func numbers(flagName, list string) ([]int, error) {
	var out []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-%s: %q is not a number of tokens", flagName, word)
		}
		out = append(out, n)
	}
	return out, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	device, err := kompute.Open(o.device)
	if err != nil {
		return err
	}
	defer device.Close()
	dir, remove, err := o.folder(stderr)
	if err != nil {
		return err
	}
	defer remove()
	folder, err := generate.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	m, err := folder.Load(device, model.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	b := &bench{folder: folder, model: m, options: generate.Options{Eager: o.eager}, reps: o.reps, rng: rand.New(rand.NewPCG(o.seed, 1))}
	var rows []row
	for _, t := range o.tests() {
		r, err := b.run(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		rows = append(rows, r)
	}
	return report(stdout, o, device, m, rows)
}

// folder returns the checkpoint folder, and what removes it if it is temporary.
func (o *options) folder(stderr io.Writer) (string, func(), error) {
	if o.model != "" {
		return o.model, func() {}, nil
	}
	s, err := findShape(o.shape)
	if err != nil {
		return "", nil, err
	}
	dir, remove := o.out, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench-"+s.name+"-"); err != nil {
			return "", nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
	} else if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return dir, remove, nil // made by an earlier run
	}
	fmt.Fprintf(stderr, "making %s with random weights in %s\n", s.name, dir)
	if err := writeFolder(dir, s, o.seed); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

func (o *options) tests() []test {
	var list []test
	add := func(kind string, n, depth int) {
		if n == 0 {
			return
		}
		name := kind + strconv.Itoa(n)
		if depth > 0 {
			name += " @ d" + strconv.Itoa(depth)
		}
		list = append(list, test{Name: name, Tokens: n, Depth: depth, prompt: kind == "pp"})
	}
	for _, d := range o.depths {
		for _, n := range o.prompts {
			add("pp", n, d)
		}
		for _, n := range o.gens {
			add("tg", n, d)
		}
	}
	return list
}

func report(w io.Writer, o *options, d *kompute.Device, m model.Model, rows []row) error {
	info := d.Info()
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{
			"device": info.Name, "backend": info.Backend, "driver": info.Driver, "weights_bytes": m.Bytes(),
			"peak_memory_bytes": d.Stats().PeakBytes, "tests": rows,
		})
	}
	fmt.Fprintf(w, "%s (%s, %s), weights %.0f MB\n", info.Name, info.Backend, info.Driver, float64(m.Bytes())/1e6)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "test\ttokens/s\tlow\thigh\tdispatches\tbarriers\tsubmits\thost µs\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t", r.Name, r.Median, r.Low, r.High)
		if r.prompt {
			fmt.Fprintln(t, "\t\t\t\t")
			continue
		}
		p := r.PerToken
		fmt.Fprintf(t, "%.1f\t%.1f\t%.2f\t%.1f\t\n", p.Dispatches, p.Barriers, p.Submits, p.HostNanos/1e3)
	}
	return t.Flush()
}
