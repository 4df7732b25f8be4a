// Command bench measures how fast a Qwen3 model reads and writes tokens on a
// device, in llama-bench's terms: ppN is a prompt of N tokens, tgN are N tokens
// made one by one, from a region that is replayed and op by op (eager). It shows
// as well which kernels the time of a token goes into, and what is held in
// memory. Without --model it makes a checkpoint of a given shape with random
// weights.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/models"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// options is what the command line asks for.
type options struct {
	model, shape, out, device, plot string
	seed                            uint64
	prompts, gens, depths           []int
	reps, profile                   int
	eager, region, json             bool
	sampling                        sample.Params
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
	fs.StringVar(&o.shape, "shape", "qwen3-0.6b", "`shape` to make: tiny, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b; or demo, the embedded model")
	fs.StringVar(&o.out, "out", "", "`folder` to make it in, and to keep (default: a temporary one)")
	fs.StringVar(&o.device, "device", "auto", "`device`: auto, cpu, vulkan, vulkan:INDEX or vulkan:NAME")
	fs.Uint64Var(&o.seed, "seed", 0, "seed of the random weights and prompts")
	prompts := fs.String("p", "512", "prompt `lengths` to measure, with commas; 0: none")
	gens := fs.String("n", "128", "numbers of `tokens` to make, with commas; 0: none")
	depths := fs.String("d", "0", "`tokens` in the cache before, with commas")
	fs.IntVar(&o.reps, "r", 5, "repetitions of each test")
	fs.IntVar(&o.profile, "profile", 5, "tokens to measure each kernel over, at each depth; 0: none")
	fs.BoolVar(&o.eager, "eager", false, "make tokens only op by op, instead of both ways")
	fs.BoolVar(&o.region, "region", false, "make tokens only by replaying a region, instead of both ways")
	fs.Float64Var(&o.sampling.Temperature, "temp", 0, "sampling temperature; 0 is greedy")
	fs.Float64Var(&o.sampling.TopP, "top-p", 1, "as in decode, with --temp")
	fs.IntVar(&o.sampling.TopK, "top-k", 0, "as in decode, with --temp")
	fs.Float64Var(&o.sampling.MinP, "min-p", 0, "as in decode, with --temp")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	fs.StringVar(&o.plot, "plot", "", "draw the results to `file`, .svg or .png, by the program benchplot beside this one")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var errs [3]error
	o.prompts, errs[0] = numbers("p", *prompts)
	o.gens, errs[1] = numbers("n", *gens)
	o.depths, errs[2] = numbers("d", *depths)
	return o, errors.Join(append(errs[:], o.check(fs))...)
}

// check refuses what cannot be measured, before anything is made.
func (o *options) check(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("%q is not a flag", fs.Arg(0))
	case o.reps < 1:
		return fmt.Errorf("-r: %d is less than 1", o.reps)
	case o.profile < 0:
		return fmt.Errorf("--profile: %d is less than 0", o.profile)
	case o.eager && o.region:
		return errors.New("--eager and --region: leave both out to measure both")
	}
	return errors.Join(o.sampling.Validate(), o.checkPlot())
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

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	device, err := kompute.Open(o.device)
	if err != nil {
		return err
	}
	defer closeInto(&err, device)
	folder, remove, err := o.folder(stderr)
	if err != nil {
		return err
	}
	defer remove()
	defer closeInto(&err, folder)
	m, err := folder.Load(ctx, device, model.Options{})
	if err != nil {
		return err
	}
	defer closeInto(&err, m)
	results, err := newBench(o, folder, m).runAll(ctx)
	if err != nil {
		return err
	}
	if err := o.print(stdout, results); err != nil || o.plot == "" {
		return err
	}
	return o.draw(ctx, results)
}

// closeInto closes c and joins its error.
func closeInto(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }

// folder opens what is to be measured, and returns what removes it if it is
// temporary.
func (o *options) folder(stderr io.Writer) (*generate.Folder, func(), error) {
	nothing := func() {}
	switch {
	case o.model != "":
		f, err := generate.Open(o.model)
		return f, nothing, err
	case o.shape == "demo":
		f, err := generate.OpenFS(models.Mote(), models.MoteName)
		return f, nothing, err
	}
	s, err := findShape(o.shape)
	if err != nil {
		return nil, nil, err
	}
	dir, remove := o.out, nothing
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench-"+s.name+"-"); err != nil {
			return nil, nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
	}
	if err := makeFolder(dir, s, o.seed, stderr); err != nil {
		remove()
		return nil, nil, err
	}
	f, err := generate.Open(dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return f, remove, nil
}

// tests lists what to measure. A prompt goes the same way in both modes.
func (o *options) tests() []test {
	var list []test
	add := func(kind, mode string, n, depth int) {
		if n == 0 {
			return
		}
		name := kind + strconv.Itoa(n)
		if depth > 0 {
			name += " @ d" + strconv.Itoa(depth)
		}
		list = append(list, test{Name: name, Mode: mode, Tokens: n, Depth: depth})
	}
	for _, d := range o.depths {
		for _, n := range o.prompts {
			add("pp", modePrompt, n, d)
		}
		for _, n := range o.gens {
			if !o.eager {
				add("tg", modeRegion, n, d)
			}
			if !o.region {
				add("tg", modeEager, n, d)
			}
		}
	}
	return list
}
