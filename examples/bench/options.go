package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// options are those of the command line.
type options struct {
	model, shape, packing, out, device, plot string
	seed                                     uint64
	prompts, gens, depths, threads           []int
	batch                                    []int // clients at once; empty: one session
	draft, chunk, context                    int
	textFile                                 string
	reps, profile, window                    int
	overlap, batchVariant, batchInvariant    bool
	eager, region, json                      bool
	ops                                      string // "all", or names of ops; empty: measure a model
	opNames                                  []string
	sizes, rows                              []int
	sampling                                 sample.Params
	repetition, presence, frequency          float64 // penalties
	logprobs                                 bool
	schemaFile                               string
	special                                  int
	loading                                  model.Options
}

// parse reads the command line. It returns flag.ErrHelp after it has printed the
// help or the version to stdout.
func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{}
	fs := cli.NewFlags("bench", "Measures how fast a language model reads and writes tokens on a device, and where\n"+
		"their time goes: on random weights of a known shape, or on a checkpoint.")
	l := o.addFlags(fs)
	if err := fs.Parse(args, stdout); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := errors.Join(o.readLists(l, given), fs.NoArguments("")); err != nil {
		return nil, err // what could not be read cannot be checked either
	}
	if err := o.checkIgnored(given); err != nil {
		return nil, err
	}
	o.sampling.TopP = cli.TopP(o.sampling.TopP)
	return o, o.check()
}

// lists are flags with several values.
type lists struct{ prompts, gens, depths, batch, threads, sizes, rows *string }

func (o *options) addFlags(fs *cli.Flags) (l lists) {
	fs.StringVar(&o.model, "model", "", "checkpoint `folder` to measure (default: one of --shape with random weights)")
	fs.StringVar(&o.shape, "shape", "qwen3-0.6b", "`shape` to make: tiny, qwen3-0.6b, qwen3-1.7b, qwen3-4b, qwen3-8b; or demo, the embedded model")
	fs.StringVar(&o.packing, "packing", defaultPacking, "`form` of the random weights: BITSgGROUP for affine codes, or mxfp4, nvfp4, mxfp8")
	fs.StringVar(&o.out, "out", "", "`folder` to make the checkpoint with random weights in, and to keep (default: a temporary one)")
	fs.StringVar(&o.device, "device", "auto", "`device`: auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID; with --batch also several, separated by commas, which share the clients")
	fs.Uint64Var(&o.seed, "seed", 0, "seed of the random weights and prompts")
	l.prompts = fs.String("n-prompt", "512", "prompt `lengths` to measure, with commas; 0: none")
	l.gens = fs.String("n-gen", "128", "numbers of `tokens` to make, with commas; 0: none")
	l.depths = fs.String("n-depth", "0", "`tokens` in the cache before, with commas")
	l.batch = fs.String("batch", "", "`numbers` of clients, with commas: how fast an engine answers that many requests at once")
	fs.IntVar(&o.draft, "draft", 0, "with --batch: maximum number of tokens guessed ahead in text that repeats itself")
	fs.IntVar(&o.context, "context", 0, "with --batch: maximum number of `tokens` of a request that the engine is made for; 0: just as many as are needed (default 0)")
	fs.IntVar(&o.chunk, "chunk", 0, "with --batch: maximum number of prompt `tokens` in a step; 0: the engine's default (default 0)")
	fs.StringVar(&o.textFile, "text", "", "with --batch: `file` whose text prompts are made of (default: random tokens)")
	o.loading.AddFlags(fs.FlagSet)
	l.threads = fs.String("threads", "", "`numbers` of threads of the CPU backend, with commas: how fast it is with each, instead of with all")
	fs.IntVar(&o.reps, "repetitions", 5, "repetitions of each test; their median is printed, of an even number the mean of the middle two")
	for letter, name := range map[string]string{"p": "n-prompt", "n": "n-gen", "d": "n-depth", "r": "repetitions"} {
		fs.Letter(letter, name)
	}
	fs.IntVar(&o.profile, "profile", 5, "tokens (with --batch: steps) to measure each kernel over, at each depth; 0: none")
	fs.BoolVar(&o.overlap, "overlap", false, "on a GPU, begin the dispatches of a token before those that they wait for have ended")
	fs.BoolVar(&o.batchVariant, "no-batch-invariance", false, "on a GPU, let the last bits of products depend on how many requests are in a step, where that is faster")
	fs.BoolVar(&o.batchInvariant, "batch-invariance", false, "with --batch: only steps of so few rows that each has the same bits as alone")
	fs.IntVar(&o.window, "window", 0, "submit work after this many `ops`; 0: after 100 (default 0)")
	fs.BoolVar(&o.eager, "eager", false, "generate tokens only op by op, instead of both ways; prompts, too")
	fs.BoolVar(&o.region, "region", false, "generate tokens only by replaying a region, instead of both ways")
	fs.Float64Var(&o.sampling.Temperature, "temp", 0, "sampling temperature; 0 is greedy")
	fs.Float64Var(&o.sampling.TopP, "top-p", 1, "as in decode, with --temp")
	fs.IntVar(&o.sampling.TopK, "top-k", 0, "as in decode, with --temp")
	fs.Float64Var(&o.sampling.MinP, "min-p", 0, "as in decode, with --temp")
	fs.Float64Var(&o.repetition, "repetition-penalty", 1, "with --batch: divides positive logits of tokens that were there before, and multiplies others")
	fs.Float64Var(&o.presence, "presence-penalty", 0, "with --batch: is subtracted from logits of tokens of the answer")
	fs.Float64Var(&o.frequency, "frequency-penalty", 0, "with --batch: is subtracted from logits of tokens of the answer for each time they appear")
	fs.BoolVar(&o.logprobs, "logprobs", false, "with --batch: ask for log-probabilities")
	fs.StringVar(&o.schemaFile, "schema", "", "with --batch: `file` with the JSON schema that answers follow")
	fs.IntVar(&o.special, "special-clients", 0, "with --batch: how many `clients` ask for penalties, --logprobs and --schema; 0: all (default 0)")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	fs.StringVar(&o.ops, "ops", "", "measure `ops` instead of a model: all, or basenames separated by commas")
	l.sizes = fs.String("sizes", "", "with --ops: `elements` of the large operand, with commas (default: three sizes)")
	l.rows = fs.String("rows", "", "with --ops: `rows` of x in quantized products, with commas (default: 512)")
	fs.StringVar(&o.plot, "plot", "",
		"draw the results to `file`, .svg or .png, by the program benchplot beside this one; not with --threads")
	return l
}

// readLists reads the lists, without a default only those that were given.
func (o *options) readLists(l lists, given map[string]bool) error {
	var errs []error
	read := func(into *[]int, name, list string, least, most int) {
		out, err := numbers(name, list, least, most)
		*into, errs = out, append(errs, err)
	}
	read(&o.prompts, "n-prompt", *l.prompts, 0, math.MaxInt32)
	read(&o.gens, "n-gen", *l.gens, 0, math.MaxInt32)
	read(&o.depths, "n-depth", *l.depths, 0, math.MaxInt32)
	if given["threads"] {
		read(&o.threads, "threads", *l.threads, 0, math.MaxInt32)
	}
	if given["sizes"] {
		read(&o.sizes, "sizes", *l.sizes, 1, mostElements)
	}
	if given["rows"] {
		read(&o.rows, "rows", *l.rows, 1, mostRows)
	}
	if given["ops"] {
		out, err := opList(o.ops)
		o.opNames, errs = out, append(errs, err)
	}
	if given["batch"] {
		read(&o.batch, "batch", *l.batch, 1, math.MaxInt32)
	}
	return errors.Join(errs...)
}

// The largest operands of --ops: most GPUs cannot bind more than 4 GiB of float32 at once.
const (
	mostElements = 1 << 30
	mostRows     = 1 << 20 // of 1,024 elements
)

// numbers reads numbers from least to most, with commas. They fit 32 bits, so that sums and products of two of them fit
// an int.
func numbers(flagName, list string, least, most int) ([]int, error) {
	var out []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("--%s: %q is not a number from %d to %d", flagName, word, least, most)
		}
		out = append(out, n)
	}
	return out, nil
}

// tests lists the tests. Prompts are processed in the same way in both modes.
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

// profiled lists the depths at which the parts of a token are measured.
func (o *options) profiled() []int {
	if o.profile == 0 || slices.Max(o.gens) == 0 {
		return nil
	}
	return o.depths
}
