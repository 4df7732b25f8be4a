package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// run is the program. It returns the exit code: 0, or 1 after one line on stderr.
// Cancelling ctx ends it cleanly, with the output so far and cli.ExitInterrupted.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseFlags(ctx, args, stdin, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
	case o.listDevices:
		err = listDevices(stdout, o.json)
	default:
		err = decode(ctx, o, stdin, stdout, stderr)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = errors.New(oneLine(err))
	}
	return cli.ExitCode(stderr, "decode", err)
}

// decode checks everything that it can before it needs the device, then opens the
// device, loads the model and answers, until ctx is cancelled or a signal arrives: it
// then still writes the other requested outputs, and the error is context.Canceled.
// In a chat, Ctrl-C ends answers instead. A second signal ends the program at once.
func decode(ctx context.Context, o *options, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if !o.chat {
		var stop func()
		ctx, stop = cli.Interruptible(ctx)
		defer stop()
	}
	folder, err := openFolder(o.model)
	if err != nil {
		return err
	}
	defer closeInto(&err, folder)
	if o.chat && folder.Template == nil {
		return &usageError{"chat", folder.Name() + " has no chat template"}
	}
	prompts, err := encodePrompts(ctx, folder, o)
	if err != nil {
		return err
	}
	device, err := kompute.Open(o.device, o.deviceOptions()...)
	if err != nil {
		return fmt.Errorf("--device %s: %w", o.device, err)
	}
	a := &app{options: o, folder: folder, device: device, stdout: stdout, stderr: stderr, style: styleOf(stdout)}
	defer func() {
		if e := device.Close(); err == nil && a.device == device { // one that was replaced repeats why
			err = e
		}
	}()
	if why := device.NoGPUReason(); why != "" && !o.quiet {
		fmt.Fprintf(stderr, "decode: running on the CPU: %s\n", oneLine(errors.New(why)))
	}
	if err := a.load(ctx, prompts); err != nil {
		return errors.Join(err, o.writeTrace())
	}
	defer closeInto(&err, a)
	if o.chat {
		err = a.chat(ctx, stdin)
	} else {
		err = a.answerAll(ctx, prompts)
	}
	if err == nil && o.compare && ctx.Err() == nil {
		err = a.compareDevices(ctx, prompts[0])
	}
	return a.writeOutputs(ctx, err)
}

// writeOutputs writes what --dump-region, --stats and --trace ask for, also after err, an error of
// answering: it may just be that nobody reads stdout any more.
func (a *app) writeOutputs(ctx context.Context, err error) error {
	// A run that failed or was cancelled before it replayed anything has that as its error, not the missing region.
	if a.dump != "" && (err == nil && ctx.Err() == nil || a.session.Region() != nil) {
		err = errors.Join(err, a.dumpRegion(a.dump))
	}
	if a.stats {
		if e := a.printStats(ctx); err == nil { // otherwise the same may be wrong with stdout or the device again
			err = e
		}
	}
	if err = errors.Join(err, a.writeTrace()); err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// answerAll answers one prompt after the other, until ctx is cancelled.
func (a *app) answerAll(ctx context.Context, prompts [][]int) error {
	for i, p := range prompts {
		if err := a.answer(ctx, a.prompts[i], p); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

func openFolder(dir string) (*generate.Folder, error) {
	if dir == "" {
		return generate.OpenFS(demomodel.FS(), demomodel.Name)
	}
	return generate.Open(dir)
}

// encodePrompts turns the prompts into tokens that the model can take.
func encodePrompts(ctx context.Context, f *generate.Folder, o *options) ([][]int, error) {
	out := make([][]int, len(o.prompts))
	for i, p := range o.prompts {
		var err error
		if o.raw {
			out[i], err = f.EncodeText(ctx, p)
		} else {
			out[i], err = f.EncodeChatWith(ctx, generate.Turn(o.system, p), o.template())
		}
		if err == nil {
			err = f.CheckPrompt(out[i])
		}
		if err != nil {
			return nil, fmt.Errorf("--prompt: %w", err)
		}
	}
	return out, nil
}

// app is a loaded model and where its answers go.
type app struct {
	*options
	folder         *generate.Folder
	device         *kompute.Device // that the host has its model on
	host           *model.Host
	session        *generate.Session
	loadTime       time.Duration
	stdout, stderr io.Writer
	style          style // of stdout
}

// bar is a progress bar, where one is wanted.
func (a *app) bar(what string) *cli.Bar {
	if a.quiet || a.json {
		return nil
	}
	return cli.NewBar(a.stderr, what)
}

// load puts the model on the device, with a cache for the longest of prompts.
// Ctrl-C ends that, with context.Canceled.
func (a *app) load(ctx context.Context, prompts [][]int) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p))
	}
	most := a.folder.Limits().Context
	capacity := min(longest+min(a.maxTokens, most), most) // any --max-tokens is valid: the sum must not overflow
	bar := a.bar("loading")
	defer bar.Close()
	start := time.Now()
	o := a.loading
	o.Capacity, o.Progress = capacity, bar.Set
	var err error
	a.host, err = model.NewHost(ctx, a.device, a.folder.Checkpoint, o, a.replacements())
	if err != nil {
		return err
	}
	a.session, err = generate.NewHostedSession(a.host, a.folder.Tokenizer, capacity)
	a.loadTime = time.Since(start)
	if err != nil {
		return errors.Join(err, a.host.Close())
	}
	return nil
}

// Close frees session and model, and a device that has replaced another.
func (a *app) Close() error {
	return errors.Join(a.session.Close(), a.host.Close())
}

// generate continues a prompt, and passes its text to onText. If it is cancelled, the
// text so far is the answer.
func (a *app) generate(ctx context.Context, prompt []int, onText func(string) error) (*generate.Result, error) {
	bar := a.bar("prompt")
	defer bar.Close()
	r, err := a.session.Generate(ctx, prompt, generate.Options{
		MaxTokens: a.maxTokens, Sampling: a.sampling, Penalties: a.penalties, PrefillStep: a.prefillStep, EOS: a.folder.EOS(), Eager: a.eager,
		OnText: func(text string) error {
			bar.Close()
			return onText(text)
		},
		OnPrefill: func(done, total int) { bar.Set(int64(done), int64(total)) },
	})
	if now := a.host.Model().Device(); now != a.device {
		a.device = now
		if !a.quiet {
			fmt.Fprintf(a.stderr, "decode: the device was lost; %s continued\n", now.Info().Name)
		}
	}
	if r != nil && r.Finish == generate.FinishCancelled {
		err = nil
	}
	return r, err
}

// answer answers one prompt in the form that the flags ask for.
func (a *app) answer(ctx context.Context, prompt string, ids []int) error {
	if a.json {
		r, err := a.generate(ctx, ids, func(string) error { return nil })
		if err != nil {
			return err
		}
		return a.writeJSON(prompt, ids, r)
	}
	if !a.quiet {
		if err := a.print(a.style.bold("> "+prompt) + "\n"); err != nil {
			return err
		}
	}
	r, err := a.generateText(ctx, ids)
	if err != nil {
		return err
	}
	return a.finish(len(ids), r)
}

// generateText continues a prompt and prints the answer as it comes.
func (a *app) generateText(ctx context.Context, ids []int) (*generate.Result, error) {
	text := a.thoughtsAfter(ids)
	r, err := a.generate(ctx, ids, text.add)
	return r, errors.Join(err, text.end())
}

// print writes text as it comes.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}

// finish ends the text and prints the summary.
func (a *app) finish(prompt int, r *generate.Result) error {
	if a.quiet {
		return a.print("\n")
	}
	return a.print("\n\n" + a.style.dim("["+a.summary(prompt, r)+"]") + "\n\n")
}

// closeInto closes c and keeps its error where there is none yet.
func closeInto(err *error, c io.Closer) {
	if e := c.Close(); *err == nil {
		*err = e
	}
}
