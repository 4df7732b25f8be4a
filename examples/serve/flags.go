package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/api"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/model"
)

// options are the options of the command line.
type options struct {
	api               api.Options
	listen            string
	tlsCert, tlsKey   string
	logJSON           bool
	origins           []string // whose pages may use the server
	drainDelay, drain time.Duration
	// The model:
	dir                             string
	devices                         []string
	overlap, batchVariant, noWarmUp bool
	hosting                         model.HostOptions
	loading                         model.Options
	engine                          engine.Config
}

// parseFlags reads the command line. It returns flag.ErrHelp after it has printed
// the help or the version to stdout.
func parseFlags(args []string, stdout io.Writer) (*options, error) {
	o := &options{api: api.Options{Key: os.Getenv("SERVE_API_KEY")}}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	version := fs.Bool("version", false, "print the version and exit")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	fs.Func("api-key", "`key` that requests to the API must carry (default: $SERVE_API_KEY, which other users cannot see; without one, no key is required)", o.setKey)
	fs.StringVar(&o.tlsCert, "tls-cert", "", "`file` of the certificate, for HTTPS")
	fs.StringVar(&o.tlsKey, "tls-key", "", "`file` of the certificate's key")
	fs.Func("allow-origin", "`origin`, such as https://example.com, whose pages may use the server in a browser, or * for all; give one flag for each (default: only the server's own page)", o.addOrigin)
	fs.BoolVar(&o.logJSON, "log-json", false, "log in JSON")
	fs.StringVar(&o.dir, "model", "", "`folder` of a checkpoint in MLX's format (default: the embedded demo model)")
	fs.StringVar(&o.api.Name, "name", "", "`name` of the model in the API (default: the folder's)")
	fs.Func("device", "`device`: auto, cpu, vulkan, vulkan:INDEX, vulkan:NAME or vulkan:UUID; several, with commas between or one flag each, share the requests, and each holds the whole model (default auto)", o.addDevices)
	fs.BoolVar(&o.overlap, "overlap", false, "on a GPU, begin the dispatches of a token before those that they wait for have ended")
	fs.BoolVar(&o.batchVariant, "no-batch-invariance", false, "on a GPU, let the last bits of products depend on how many requests are in a step, where that is faster")
	fs.BoolVar(&o.engine.BatchInvariant, "batch-invariance", false, "give a request the same tokens whatever else runs, by steps of so few rows that each has the same bits as alone")
	fs.IntVar(&o.hosting.Most, "replace-device", model.DefaultReplacements, "how often a lost device is opened again, so that its requests continue")
	fs.BoolVar(&o.hosting.OnCPU, "cpu-if-lost", false, "continue on the CPU if a lost device cannot be opened again")
	fs.BoolVar(&o.api.NoThink, "no-think", false, "answer without thinking, unless a request says otherwise")
	fs.BoolVar(&o.noWarmUp, "no-warm-up", false, "accept requests at once, and compile kernels when a step first needs them, while requests wait")
	fs.Func("pooling", "how embeddings are made from the tokens' states, unless a request says: last or mean (default last)", o.setPooling)
	fs.IntVar(&o.engine.Draft, "draft", 0, "maximum number of tokens guessed ahead in text that repeats itself")
	fs.IntVar(&o.engine.ChunkTokens, "chunk", 0, "maximum number of prompt tokens in a step (default: 512, or 1,024 on a discrete GPU)")
	fs.IntVar(&o.engine.Sequences, "sequences", 32, "maximum number of requests that run at once on each device")
	fs.IntVar(&o.engine.Queue, "queue", 256, "maximum number of waiting requests, beyond those that can run at once; more are refused")
	fs.IntVar(&o.engine.Context, "context", 0, "maximum number of tokens of a request, prompt and answer (default: the model's context)")
	fs.IntVar(&o.engine.CacheTokens, "cache-tokens", 0, "tokens that all requests can hold together (default: 1,024 for each that runs, or one context)")
	o.loading.AddFlags(fs)
	fs.Int64Var(&o.api.MaxBody, "max-body", 4<<20, "maximum number of bytes of a request")
	fs.Int64Var(&o.api.MaxPrompt, "max-prompt", 0, "maximum number of bytes of a prompt (default: 16 for each token of the context)")
	fs.IntVar(&o.api.MaxTokens, "max-tokens", 0, "maximum number of tokens of an answer (default: as many as the context has room for)")
	fs.DurationVar(&o.api.Timeout, "timeout", 10*time.Minute, "maximum time for a request, until its answer is sent")
	fs.DurationVar(&o.api.Stall, "stall", 30*time.Second, "maximum time for a client to send a request, or to accept the next part of an answer")
	fs.DurationVar(&o.drainDelay, "drain-delay", 0, "time after SIGTERM or Ctrl-C in which the server still listens, but answers new requests and /readyz with 503, so that a load balancer stops sending any")
	fs.DurationVar(&o.drain, "drain", 30*time.Second, "maximum time to finish requests after SIGTERM or Ctrl-C, and after --drain-delay")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, cmp.Or(printHelp(fs, stdout), flag.ErrHelp)
	case err != nil:
		return nil, flagError(err)
	case *version:
		_, err := fmt.Fprintf(stdout, "serve (kompute-go) %s, %s %s/%s\n", kompute.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil, cmp.Or(err, flag.ErrHelp)
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, o.check()
}

// setKey sets the key of --api-key. An empty one, as of a variable that is not set, would require none.
func (o *options) setKey(key string) error {
	if key == "" {
		return errors.New("an empty key")
	}
	o.api.Key = key
	return nil
}

// setPooling sets the default of embeddings.
func (o *options) setPooling(name string) error {
	p, known := map[string]engine.Pooling{"last": engine.PoolLast, "mean": engine.PoolMean}[name]
	if !known {
		return errors.New("neither last nor mean")
	}
	o.api.Pooling = p
	return nil
}

// addDevices adds the devices of one --device.
func (o *options) addDevices(list string) error {
	names := strings.Split(list, ",")
	if len(names) > 1 && slices.Contains(names, "") { // which would be auto
		return errors.New("a device without a name")
	}
	o.devices = append(o.devices, names...)
	return nil
}

// check rejects invalid values, and fills in defaults that depend on others.
func (o *options) check() error {
	switch {
	case o.listen == "":
		return errors.New("--listen has no address") // any port of every interface would be taken
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return errors.New("--tls-cert and --tls-key need each other")
	case o.api.MaxBody < 1 || o.api.MaxPrompt < 0 || o.api.MaxTokens < 0:
		return errors.New("--max-body must be positive, --max-prompt and --max-tokens not negative")
	case o.api.Timeout <= 0 || o.api.Stall <= 0 || o.drain < 0 || o.drainDelay < 0:
		return errors.New("--timeout and --stall must be positive, --drain and --drain-delay not negative")
	case o.engine.Draft < 0 || o.engine.ChunkTokens < 0:
		return errors.New("--draft and --chunk must not be negative")
	case o.engine.BatchInvariant && o.batchVariant:
		return errors.New("--batch-invariance and --no-batch-invariance exclude each other")
	case o.hosting.Most < 0:
		return errors.New("--replace-device must not be negative")
	case o.engine.Sequences < 1 || o.engine.Queue < 1:
		return errors.New("--sequences and --queue must be positive")
	case o.engine.Sequences > math.MaxInt32 || o.engine.Queue > math.MaxInt32:
		return fmt.Errorf("--sequences and --queue must not exceed %d", math.MaxInt32)
	}
	if len(o.devices) == 0 {
		o.devices = []string{"auto"}
	}
	if o.hosting.Most == 0 {
		o.hosting.Most = -1 // for which 0 is the default
	}
	return nil
}

// flagError writes a flag in an error as the help does, with two dashes.
func flagError(err error) error {
	return errors.New(oneDash.ReplaceAllString(err.Error(), "$1--$2"))
}

var oneDash = regexp.MustCompile(`((?:flag|for|defined:|argument:) )-([a-z][a-z0-9-]+)`)

func printHelp(fs *flag.FlagSet, out io.Writer) error {
	var b strings.Builder
	b.WriteString("usage: serve [flags]\n\nAnswers the APIs of OpenAI and Anthropic with a language model, for many clients at once. A chat page is at /.\n\n")
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  %s\n        %s", strings.TrimSpace("--"+f.Name+" "+value), usage)
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "default") {
			fmt.Fprintf(&b, " (default %s)", f.DefValue)
		}
		b.WriteByte('\n')
	})
	b.WriteString("  --help\n        print this help and exit\n")
	_, err := io.WriteString(out, b.String())
	return err
}
