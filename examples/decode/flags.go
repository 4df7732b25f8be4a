package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// demoPrompts are answered, one after the other, if no --prompt is given.
var demoPrompts = []string{"Hi what is your name", "你好啊"}

// maxPrompt is the longest prompt that is read from stdin, in bytes.
const maxPrompt = 64 << 20

// options holds the flags of the command line.
type options struct {
	model       string // folder, or empty for the embedded model
	prompts     []string
	system      string
	maxTokens   int
	sampling    sample.Params
	penalties   sample.Penalties
	device      string
	replace     int  // how often a lost device is replaced
	cpuIfLost   bool // by the CPU, if it cannot be opened again
	loading     model.Options
	raw         bool
	noThink     bool
	prefillStep int
	overlap     bool
	window      int // ops; 0: the device's default
	eager       bool
	dump        string // where to describe the decode step, or empty
	stats       bool
	trace       string         // where to write a trace, or empty
	tracing     *kompute.Trace // nil without one
	chat        bool
	listDevices bool
	compare     bool
	json        bool
	quiet       bool
}

// usageError reports an invalid command line.
type usageError struct{ flag, reason string }

// Error names the flag.
func (e *usageError) Error() string { return fmt.Sprintf("--%s: %s", e.flag, e.reason) }

// parseFlags reads the command line; "-" as the prompt is all of stdin, unless ctx ends first. It
// returns flag.ErrHelp after it has printed the help or the version to stdout.
func parseFlags(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (*options, error) {
	o := &options{}
	var prompt string
	fs := cli.NewFlags("decode", "Answers prompts with a language model, on a GPU through Vulkan or on the CPU.")
	fs.StringVar(&o.model, "model", "", "`folder` of a checkpoint in MLX's format (default: the embedded demo model)")
	fs.StringVar(&prompt, "prompt", "", "`text` to answer; - reads stdin (default: two demo prompts)")
	fs.StringVar(&o.system, "system", "", "`text` of the system message")
	fs.IntVar(&o.maxTokens, "max-tokens", 256, "maximum number of tokens to generate")
	fs.Float64Var(&o.sampling.Temperature, "temp", 0, "sampling temperature; 0 is greedy")
	fs.Float64Var(&o.sampling.TopP, "top-p", 1, "with --temp: keep the likeliest tokens up to this probability; 0 keeps only the likeliest, 1 all")
	fs.IntVar(&o.sampling.TopK, "top-k", 0, "with --temp: keep this many of the likeliest tokens; 0 keeps all")
	fs.Float64Var(&o.sampling.MinP, "min-p", 0, "with --temp: keep tokens at least this likely, relative to the likeliest")
	fs.Uint64Var(&o.sampling.Seed, "seed", 0, "with --temp: seed of the random numbers")
	fs.Float64Var(&o.penalties.Repetition, "repetition-penalty", 1, "divides positive logits of tokens that the conversation contains already, and multiplies others; 1 changes nothing")
	fs.Float64Var(&o.penalties.Presence, "presence-penalty", 0, "is subtracted from logits of tokens that the answer contains already")
	fs.Float64Var(&o.penalties.Frequency, "frequency-penalty", 0, "is subtracted from logits of tokens once for each time that the answer contains them")
	fs.StringVar(&o.device, "device", "auto", "`device`: auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID")
	fs.IntVar(&o.replace, "replace-device", model.DefaultReplacements, "how often a lost device is opened again, so that the answer continues")
	fs.BoolVar(&o.cpuIfLost, "cpu-if-lost", false, "continue on the CPU if a lost device cannot be opened again")
	o.loading.AddFlags(fs.FlagSet)
	fs.BoolVar(&o.raw, "raw", false, "use the prompt as it is, without the chat template")
	fs.BoolVar(&o.noThink, "no-think", false, "answer without thinking, if the chat template supports that")
	fs.IntVar(&o.prefillStep, "prefill-step", 0, "process the prompt in pieces of at most this many `tokens`; 0: 2048 on a discrete GPU, otherwise 512 (default 0)")
	fs.BoolVar(&o.eager, "eager", false, "enqueue each token's ops, and wait for each token, instead of replaying a region; those of the prompt, too")
	fs.BoolVar(&o.overlap, "overlap", false, "on a GPU, begin the dispatches of a token before those that they wait for have ended")
	fs.IntVar(&o.window, "window", 0, "submit work after this many `ops`; 0: after 100 (default 0)")
	fs.StringVar(&o.dump, "dump-region", "", "describe the replayed decode step in a `file`: .json, .txt, or otherwise an SVG drawing")
	fs.BoolVar(&o.stats, "stats", false, "print what the device did, by op; measuring slows it down")
	fs.StringVar(&o.trace, "trace", "", "write a timeline of host and device to a `file` for Chrome's trace viewer or Perfetto; slows down")
	fs.BoolVar(&o.chat, "chat", false, "chat: answer one message per line and remember the conversation; /help lists the commands")
	fs.BoolVar(&o.listDevices, "list-devices", false, "list the devices and exit; only --json goes with it")
	fs.BoolVar(&o.compare, "compare-devices", false, "then also answer the first prompt on every other device, and print how fast that was")
	fs.BoolVar(&o.json, "json", false, "print one JSON object and nothing else")
	fs.BoolVar(&o.quiet, "quiet", false, "print the text and nothing else")
	if err := fs.Parse(args, stdout); err != nil {
		return nil, err
	}
	if err := fs.NoArguments("a prompt goes after --prompt"); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := o.check(given); err != nil {
		return nil, err
	}
	o.sampling.TopP = cli.TopP(o.sampling.TopP)
	if o.trace != "" {
		o.tracing = kompute.NewTrace()
	}
	return o, o.readPrompt(ctx, prompt, given["prompt"], stdin)
}

// check rejects values out of range and flags that exclude each other.
func (o *options) check(given map[string]bool) error {
	switch {
	case o.maxTokens < 1:
		return &usageError{"max-tokens", fmt.Sprintf("%d is less than 1", o.maxTokens)}
	case o.window < 0:
		return &usageError{"window", fmt.Sprintf("%d is less than 0", o.window)}
	case o.prefillStep < 0:
		return &usageError{"prefill-step", fmt.Sprintf("%d is less than 0", o.prefillStep)}
	case o.replace < 0:
		return &usageError{"replace-device", fmt.Sprintf("%d is negative", o.replace)}
	case o.json && o.quiet:
		return &usageError{"json", "excludes --quiet"}
	case o.dump != "" && (o.eager || o.maxTokens == 1):
		return &usageError{"dump-region", "excludes --eager and --max-tokens 1, which replay nothing"}
	case o.stats && (o.json || o.quiet):
		return &usageError{"stats", "excludes --json and --quiet"}
	case o.chat && o.json:
		return &usageError{"chat", "excludes --json"}
	case o.chat && o.raw:
		return &usageError{"chat", "excludes --raw"}
	case o.chat && given["prompt"]:
		return &usageError{"chat", "excludes --prompt; messages come from stdin"}
	case o.compare && (o.json || o.quiet || o.chat):
		return &usageError{"compare-devices", "excludes --json, --quiet and --chat"}
	case o.raw && o.noThink:
		return &usageError{"raw", "excludes --no-think, which only a chat template can do"}
	case o.raw && given["system"]:
		return &usageError{"raw", "excludes --system, which only a chat template can place"}
	case !utf8.ValidString(o.system):
		return &usageError{"system", "invalid UTF-8"}
	case samePath(o.trace, o.dump):
		return &usageError{"trace", "names the same file as --dump-region"}
	}
	if err := o.checkIgnored(given); err != nil {
		return err
	}
	return errors.Join(o.sampling.Validate(), o.penalties.Validate(), cli.CheckOutput("trace", o.trace), cli.CheckOutput("dump-region", o.dump))
}

// checkIgnored rejects flags that would have no effect.
func (o *options) checkIgnored(given map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if o.listDevices && name != "list-devices" && name != "json" {
			return &usageError{"list-devices", "excludes --" + name}
		}
	}
	for _, name := range []string{"top-p", "top-k", "min-p", "seed"} {
		if given[name] && o.sampling.Temperature == 0 {
			return &usageError{name, "requires a --temp above 0; without it, the likeliest token is taken"}
		}
	}
	return nil
}

// samePath reports whether two paths name the same file; an empty path names none.
func samePath(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

// template is what the chat template gets beside the messages.
func (o *options) template() chat.Options {
	if !o.noThink {
		return chat.Options{}
	}
	return chat.Options{Variables: map[string]any{"enable_thinking": false}}
}

// replacements says what happens if the device is lost.
func (o *options) replacements() model.HostOptions {
	h := model.HostOptions{Most: o.replace, OnCPU: o.cpuIfLost}
	if h.Most == 0 {
		h.Most = -1 // for which 0 is the default
	}
	return h
}

// readAll reads everything, unless ctx ends first.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(r)
		done <- result{text, err}
	}()
	select {
	case all := <-done:
		return all.text, all.err
	case <-ctx.Done(): // the goroutine ends with the program
		return nil, ctx.Err()
	}
}

// readPrompt determines which prompts to answer.
func (o *options) readPrompt(ctx context.Context, prompt string, given bool, stdin io.Reader) error {
	switch {
	case o.chat || o.listDevices:
	case !given && o.json:
		o.prompts = demoPrompts[:1]
	case !given:
		o.prompts = demoPrompts
	case prompt == "-":
		text, err := readAll(ctx, io.LimitReader(stdin, maxPrompt+1))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return &usageError{"prompt", "reading stdin: " + err.Error()}
		}
		if len(text) > maxPrompt {
			return &usageError{"prompt", fmt.Sprintf("stdin has more than %d bytes", maxPrompt)}
		}
		o.prompts = []string{strings.TrimSuffix(string(text), "\n")}
	default:
		o.prompts = []string{prompt}
	}
	return nil
}
