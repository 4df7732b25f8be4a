// Command vector_add adds two vectors on the best available device, and prints the
// sum. It is the shortest complete program that uses this module.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func main() {
	cli.Main(cli.NewFlags("vector_add", "Adds two vectors on the best device there is."),
		func(ctx context.Context) error { return run(ctx, os.Stdout) })
}

func run(ctx context.Context, out io.Writer) error {
	device, err := kompute.Open("auto")
	if err != nil {
		return err
	}
	defer device.Close()
	stream, err := device.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()

	a, err := kompute.New(device, []float32{2, 4, 6}, 3)
	if err != nil {
		return err
	}
	b, err := kompute.New(device, []float32{1, 2, 3}, 3)
	if err != nil {
		return err
	}
	sum, err := ops.Add(stream, a, b).Read(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, device.Info().Name, sum)
	return err
}
