package kompute_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// A counter on the device: each replay adds to it, and writes its square to memory
// that the host can read while later replays run.
func ExampleStream_Capture() {
	if err := squares(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: 16 49
}

func squares(ctx context.Context) error {
	dev, err := kompute.Open("auto")
	if err != nil {
		return err
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	count, err := kompute.Zeros[int32](dev, 1)
	if err != nil {
		return err
	}
	square, err := kompute.NewMapped[int32](dev, 1)
	if err != nil {
		return err
	}
	region, err := s.Capture(func(s *kompute.Stream) {
		ops.SliceUpdate(s, count, ops.Add(s, count, kompute.Constant(s, []int32{1}, 1)))
		ops.SliceUpdate(s, square.Tensor(), ops.Mul(s, count, count))
	})
	if err != nil {
		return err
	}
	for _, times := range []int{4, 3} {
		if err := region.ReplayN(ctx, times); err != nil { // does not wait for the device
			return err
		}
		if err := s.Record().Wait(ctx); err != nil {
			return err
		}
		var now [1]int32
		if err := square.Peek(now[:], 0); err != nil {
			return err
		}
		fmt.Print(now[0], " ")
	}
	fmt.Println()
	return nil
}
