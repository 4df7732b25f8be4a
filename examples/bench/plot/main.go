// Command benchplot draws the output of `bench --json`, which it reads from its
// standard input, to the file named by its only argument: .svg or .png. It is a
// module of its own, so that other programs need no plotting library.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// results is the part of bench's JSON that the picture shows.
type results struct {
	Model, Device, Driver string
	Tests                 []struct {
		Name, Mode string
		Rate       float64 `json:"tokens_per_second"`
		Low, High  float64
	}
	Profiles []profile
	Ops      []opRate // of --ops, instead of Tests
	Batches  []batch  // of --batch, instead of Tests
}

// profile breaks down the device time of a token at one depth, or of an engine's step.
type profile struct {
	Depth   int
	Clients int // with Rows: it is a step of an engine with that many clients
	Rows    int
	Replay  float64 `json:"replay_ns"`
	Kernels []struct {
		Kernel, Op string
		FusedFrom  []string `json:"fused_from"`
		Calls      int
		Nanos      float64 `json:"total_ns"`
	}
	BarrierGaps gaps `json:"barrier_gaps"`
	OtherGaps   gaps `json:"other_gaps"`
}

type gaps struct {
	Calls int
	Nanos float64 `json:"total_ns"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchplot:", err)
		os.Exit(1)
	}
}

const help = `usage: bench --json ... | benchplot FILE.svg|FILE.png

Draws what bench --json prints. bench --plot FILE calls it.

  --version
        print the version and exit
  --help
        print this help and exit
`

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) != 1:
		return errors.New("exactly one argument is required, the file to draw to; see --help")
	case args[0] == "--help" || args[0] == "-h" || args[0] == "-help":
		_, err := io.WriteString(out, help)
		return err
	case args[0] == "--version":
		_, err := fmt.Fprintln(out, version())
		return err
	case strings.HasPrefix(args[0], "-"):
		return fmt.Errorf("flag provided but not defined: %s; see --help", args[0])
	}
	var r results
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("standard input is not what bench --json prints: %w", err)
	}
	if len(r.Tests)+len(r.Ops)+len(r.Batches) == 0 {
		return errors.New("standard input holds no tests")
	}
	return r.write(args[0])
}

// version is in the form of the other programs' --version.
func version() string {
	name := "development build"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		name = info.Main.Version
	}
	return fmt.Sprintf("benchplot (kompute-go) %s, %s %s/%s", name, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
