// Command inject makes Vulkan calls of a running program fail at random times, and
// prints which ones. The program runs with the fault loader (csrc/tests/faults), whose
// control file is its one argument. `./build.sh soak` runs it beside a service.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kompute-go/kompute-go/internal/faulttest"
)

func main() {
	every := flag.Duration("every", time.Second, "mean time between two faults")
	seed := flag.Uint64("seed", 1, "of the random choice")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: inject [flags] CONTROL\n\nMakes calls fail until SIGINT or SIGTERM.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *every <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *every, rand.New(rand.NewPCG(*seed, 1))); err != nil {
		fmt.Fprintln(os.Stderr, "inject:", err)
		os.Exit(1)
	}
}

// patience is how long a fault stays set up if its function is not called.
const patience = 2 * time.Second

func run(ctx context.Context, file string, every time.Duration, r *rand.Rand) error {
	control, err := faulttest.OpenControl(file)
	if err != nil {
		return err
	}
	failed := make(map[string]map[int32]uint64)
	called := make(map[string]bool)
	for sleep(ctx, time.Duration(r.ExpFloat64()*float64(every))) {
		recent := control.Calls() // since the last fault
		for function := range recent {
			called[function] = true
		}
		if len(called) == 0 {
			continue
		}
		functions := slices.Sorted(maps.Keys(called))
		if len(recent) > 0 && r.IntN(4) > 0 { // others would mostly not be called in time
			functions = slices.Sorted(maps.Keys(recent))
		}
		function := functions[r.IntN(len(functions))]
		results := faulttest.Results(function)
		result := results[r.IntN(len(results))]
		control.Fail(function, 1+r.Uint64N(8), 1, result)
		for end := time.Now().Add(patience); control.Failed() == 0 && time.Now().Before(end) && sleep(ctx, 5*time.Millisecond); {
		}
		if n := control.Failed(); n > 0 {
			if failed[function] == nil {
				failed[function] = make(map[int32]uint64)
			}
			failed[function][result] += n
		}
		control.Disarm()
	}
	control.Disarm()
	report(failed)
	return control.Close()
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func report(failed map[string]map[int32]uint64) {
	all := uint64(0)
	for _, function := range slices.Sorted(maps.Keys(failed)) {
		fmt.Printf("%s:", function)
		for _, result := range slices.Backward(slices.Sorted(maps.Keys(failed[function]))) {
			fmt.Printf(" %d times %d", failed[function][result], result)
			all += failed[function][result]
		}
		fmt.Println()
	}
	fmt.Printf("%d calls failed\n", all)
}
