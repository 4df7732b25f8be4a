// Command bench measures how fast a language model reads and writes tokens on a
// device, in llama-bench's terms: ppN is a prompt of N tokens, tgN are N tokens made
// one by one, from a region that is replayed and op by op (eager). It also shows
// which kernels take the time of a token, and what is in memory. Without --model it
// makes a checkpoint of a given shape with random weights. With --batch it measures
// an engine with a number of clients instead, and with --ops each op, as a share of
// the device's peak rates.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // writing then fails instead, and the temporary folder is removed
	ctx, stop := cli.Interruptible(context.Background())
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(cli.ExitCode(os.Stderr, "bench", err))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if o.ops != "" {
		return o.measureOps(ctx, stdout, stderr)
	}
	return o.measureModel(ctx, stdout, stderr)
}

// measureModel measures everything but --ops.
func (o *options) measureModel(ctx context.Context, stdout, stderr io.Writer) (err error) {
	var devices []*kompute.Device
	opening := []kompute.Option{kompute.WithWindow(o.window, 0)}
	if o.overlap {
		opening = append(opening, kompute.WithOverlap())
	}
	if o.batchVariant {
		opening = append(opening, kompute.WithoutBatchInvariance())
	}
	for _, spec := range strings.Split(o.device, ",") {
		d, err := kompute.Open(spec, opening...)
		if err != nil {
			return err
		}
		defer closeInto(&err, d)
		devices = append(devices, d)
	}
	folder, remove, err := o.folder(ctx, stderr)
	if err != nil {
		return err
	}
	defer remove()
	defer closeInto(&err, folder)
	if err := o.checkContext(folder.Limits().Context); err != nil {
		return err
	}
	var hosts []*model.Host
	for _, d := range devices {
		h, err := o.load(ctx, folder, d, stderr)
		if err != nil {
			return err
		}
		defer closeInto(&err, h)
		hosts = append(hosts, h)
	}
	b := newBench(o, folder, hosts, stderr)
	if err := errors.Join(b.readText(ctx), b.readSchema()); err != nil {
		return err
	}
	results, err := b.runAll(ctx)
	if results == nil {
		return err
	}
	if err := errors.Join(o.print(stdout, results), err); err != nil || o.plot == "" {
		return err
	}
	return draw(ctx, o.plot, results)
}

// load puts the model on the device.
func (o *options) load(ctx context.Context, folder *generate.Folder, device *kompute.Device, stderr io.Writer) (*model.Host, error) {
	bar := cli.NewBar(stderr, "loading")
	defer bar.Close()
	load := o.loading
	load.Progress = bar.Set
	return model.NewHost(ctx, device, folder.Checkpoint, load, model.HostOptions{Most: -1})
}

// closeInto closes c and joins its error.
func closeInto(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }

// folder opens the folder to be measured, and returns a function that removes
// it if it is temporary.
func (o *options) folder(ctx context.Context, stderr io.Writer) (*generate.Folder, func(), error) {
	nothing := func() {}
	switch {
	case o.model != "":
		f, err := generate.Open(o.model)
		return f, nothing, err
	case o.shape == "demo":
		f, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
		return f, nothing, err
	}
	s, err := findShape(o.shape, o.packing)
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
	if err := makeFolder(ctx, dir, s, o.seed, stderr); err != nil {
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
