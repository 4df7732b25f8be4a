package kompute_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/kompute"
)

func ExampleNew() {
	dev, err := kompute.Open("auto")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	x, err := kompute.New(dev, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	columns := x.Transpose() // a view: nothing is copied
	defer columns.Close()

	data, err := columns.Read(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(columns.Shape(), data)
	// Output: [3 2] [1 4 2 5 3 6]
}

func ExampleOpen() {
	// A device requested by name is never replaced by another.
	_, err := kompute.Open("vulkan:a device that nobody has")
	fmt.Println(errors.Is(err, kompute.ErrNoDevice) || errors.Is(err, kompute.ErrNoVulkan))
	// Output: true
}

// A decode loop frees the intermediate tensors of each step at once.
func ExampleStream_Scope() {
	dev, err := kompute.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		scope := s.Scope()
		kompute.Constant(s, []float32{1, 2, 3}, 3)
		fmt.Print(dev.Stats().LiveTensors, " ")
		scope.Close()
	}
	fmt.Println(dev.Stats().LiveTensors)
	// Output: 1 1 1 0
}

// A custom op runs on the CPU, in order with all others.
func ExampleStream_Enqueue() {
	dev, err := kompute.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	x := kompute.Constant(s, []float32{1, 2, 3}, 3)
	halves := kompute.Output[kompute.BFloat16](s, 3)
	s.Enqueue(kompute.Op{
		Name: "halve",
		Args: []kompute.Arg{kompute.In(x.View()), kompute.Out(halves.View())},
		CPU: func(args []kompute.Array, _ []byte) error {
			from, to := kompute.StorageOf[float32](args[0]), kompute.StorageOf[kompute.BFloat16](args[1])
			for i := range args[0].Size() { // both are contiguous, at offset 0
				to[i] = kompute.BFloat16FromFloat32(from[i] / 2)
			}
			return nil
		},
	})
	data, err := halves.Read(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range data {
		fmt.Print(h.Float32(), " ")
	}
	fmt.Println(halves.DType() == kompute.DTypeBFloat16)
	// Output: 0.5 1 1.5 true
}
