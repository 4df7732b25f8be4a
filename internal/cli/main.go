package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a program without arguments: it reads the command
// line, runs the program and exits, with 1 and a line on stderr if it fails. The
// first signal of Interruptible cancels the context, so that the program can clean up;
// a second one ends it at once.
func Main(flags *Flags, run func(ctx context.Context) error) {
	err := flags.Parse(os.Args[1:], os.Stdout)
	if err == nil {
		err = flags.NoArguments("")
	}
	if err == nil {
		ctx, stop := Interruptible(context.Background())
		err = run(ctx)
		stop()
	}
	os.Exit(ExitCode(os.Stderr, flags.Name(), err))
}

// Interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP cancels; a
// second one ends the program at once. stop restores the signals' default. A SIGHUP that
// is ignored, as nohup arranges, remains so.
func Interruptible(ctx context.Context) (interruptible context.Context, stop func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	interruptible, stop = signal.NotifyContext(ctx, signals...)
	context.AfterFunc(interruptible, stop)
	return interruptible, stop
}

// ExitInterrupted is the exit code of a program that a signal has ended early: the
// one that shells report for a program killed by SIGINT.
const ExitInterrupted = 130

// ExitCode is the exit status of a program after err: 0 for none and for
// flag.ErrHelp, ExitInterrupted for context.Canceled, else 1, with the error in a
// line on stderr.
func ExitCode(stderr io.Writer, program string, err error) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", program)
		return ExitInterrupted
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, err)
	return 1
}
