// Command batch answers a file of prompts with a language model, offline, as an
// Apache Beam pipeline: on this machine with the Prism runner, and on Flink or Spark
// clusters by flags. JSON lines go in, JSON lines come out, and lines that cannot be
// answered go to a file of their own with the reason. It is a module of its own that
// uses kompute-go as any other program would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
)

func main() {
	own := flag.NewFlagSet("batch", flag.ContinueOnError)
	o := defineFlags(own)
	err := readFlags(own, flag.CommandLine, os.Args[1:], os.Stdout) // Beam's packages define theirs there
	if err == nil {
		beam.Init() // does not return in a worker
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // a second signal ends the program at once
		err = run(ctx, o, os.Stdout)
		stop()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}

// options is what the command line asks for.
type options struct {
	runner, input, output, failed string
	shards                        int
	overwrite                     bool
	work                          settings
}

func defineFlags(fs *flag.FlagSet) *options {
	o := &options{}
	fs.StringVar(&o.runner, "runner", "prism", "Beam `runner`: prism (this machine), flink, spark or universal; with --endpoint of the job server")
	fs.StringVar(&o.input, "input", "", "`files` of JSON lines to answer; a pattern such as in/*.jsonl, seen by every worker")
	fs.StringVar(&o.output, "output", "", "`file` for the answers, seen by every worker")
	fs.StringVar(&o.failed, "failed", "", "`file` for lines that cannot be answered, written if there are any (default: the output with .failed before its extension)")
	fs.IntVar(&o.shards, "shards", 1, "`number` of files that the output is divided into")
	fs.BoolVar(&o.overwrite, "overwrite", false, "replace existing output files, once the job has succeeded")
	w := &o.work
	fs.StringVar(&w.Model, "model", "", "`folder` of a checkpoint in MLX's format, on every worker (default: the embedded demo model)")
	fs.StringVar(&w.Device, "device", "auto", "`device` of each worker: auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID")
	fs.IntVar(&w.Sequences, "sequences", 32, "`number` of lines that a worker answers at once")
	fs.IntVar(&w.Context, "context", 0, "maximum number of `tokens` of a prompt with its answer (default: the model's context)")
	fs.IntVar(&w.MaxTokens, "max-tokens", 256, "maximum number of `tokens` of an answer, unless a line says")
	fs.BoolVar(&w.NoThink, "no-think", false, "answer without thinking, if the chat template supports that")
	fs.DurationVar(&w.Timeout, "timeout", 0, "maximum `time` for a line, from when a worker begins it; 0: no limit")
	return o
}

// check refuses values that cannot be, and fills in the default that depends on
// another one.
func (o *options) check() error {
	switch {
	case o.input == "" || o.output == "":
		return errors.New("--input and --output are needed")
	case o.shards < 1 || o.shards > 1<<16:
		return fmt.Errorf("--shards %d is not in 1 … %d", o.shards, 1<<16)
	case o.work.Sequences < 1 || o.work.MaxTokens < 1 || o.work.Context < 0 || o.work.Timeout < 0:
		return errors.New("--sequences and --max-tokens must be positive, --context and --timeout not negative")
	}
	if o.failed == "" {
		o.failed = besideName(o.output, ".failed")
	}
	for _, name := range []string{o.output, o.failed} {
		if strings.ContainsAny(name, patternCharacters) {
			return fmt.Errorf("%s: the name of an output cannot have any of %s, which would make it a pattern", name,
				patternCharacters)
		}
	}
	if o.outputs()[0].includes(o.failed) {
		return errors.New("--failed and --output are the same file")
	}
	return nil
}

// outputs are the files for the answers, and those for the failures.
func (o *options) outputs() []output {
	return []output{{Path: o.output, Shards: o.shards, Empty: true}, {Path: o.failed, Shards: 1}}
}

// run submits the pipeline, waits for its end, and prints what became of the lines.
func run(ctx context.Context, o *options, stdout io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	inputs, err := o.findInput(ctx)
	if err != nil {
		return err
	}
	for _, u := range o.outputs() {
		if err := u.check(ctx, inputs, o.overwrite); err != nil {
			return err
		}
	}
	if err := workThis(); err != nil {
		return err
	}
	result, err := beam.Run(ctx, o.runner, o.pipeline())
	if err != nil {
		return err
	}
	return printCounts(stdout, result)
}

// findInput lists the files to read. It is an error if there are none: with --overwrite, a
// wrong pattern would replace the answers of an earlier run by nothing.
func (o *options) findInput(ctx context.Context) ([]string, error) {
	filesystem.ValidateScheme(o.input)
	fs, err := filesystem.New(ctx, o.input)
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	found, err := fs.List(ctx, o.input)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("--input: there is no file %s", o.input)
	}
	return found, err
}

// workThis makes workers run this program, unless --worker_binary names another: Beam
// would compile one without cgo, and so without Vulkan.
func workThis() (err error) {
	if *jobopts.WorkerBinary == "" {
		*jobopts.WorkerBinary, err = os.Executable()
	}
	return err
}
