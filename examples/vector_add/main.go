// Command vector_add adds two vectors on the best device there is, and prints
// the sum. It is the shortest whole program on this module.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vector_add:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
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
	sum, err := ops.Add(stream, a, b).Read(context.Background())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, device.Info().Name, sum)
	return err
}
