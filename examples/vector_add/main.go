// Command vector_add adds two vectors on the best available device, and prints the
// sum. It is the shortest complete program that uses this module, for copying into
// another one.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func main() {
	device, err := kompute.Open("auto")
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	stream, err := device.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	a, err := kompute.New(device, []float32{2, 4, 6}, 3)
	if err != nil {
		log.Fatal(err)
	}
	b, err := kompute.New(device, []float32{1, 2, 3}, 3)
	if err != nil {
		log.Fatal(err)
	}
	sum, err := ops.Add(stream, a, b).Read(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := fmt.Println(device.Info().Name, sum); err != nil {
		log.Fatal(err)
	}
}
