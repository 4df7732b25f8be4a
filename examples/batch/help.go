package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
)

// summary is the help's first paragraph.
const summary = "Answers a file of prompts with a language model, offline, as an Apache Beam pipeline."

// readFlags reads the command line, which may have Beam's flags, too. For --help and
// --version it prints that to stdout and returns flag.ErrHelp, and the program should
// end with success.
func readFlags(own, beams *flag.FlagSet, args []string, stdout io.Writer) error {
	version := own.Bool("version", false, "print the version and exit")
	own.VisitAll(func(f *flag.Flag) { beams.Var(f.Value, f.Name, f.Usage) })
	beams.Init("batch", flag.ContinueOnError)
	beams.SetOutput(io.Discard)
	beams.Usage = func() {}
	switch err := beams.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return cmp.Or(printHelp(stdout, own, beams), flag.ErrHelp)
	case err != nil:
		return errors.New(named.ReplaceAllString(err.Error(), "$1--$2"))
	case *version:
		_, err := fmt.Fprintf(stdout, "batch (kompute-go) %s, %s %s/%s\n", kompute.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return cmp.Or(err, flag.ErrHelp)
	case beams.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", beams.Arg(0))
	}
	return nil
}

// named matches flags in the messages of package flag, which have one dash.
var named = regexp.MustCompile(`((?:flag|for|defined:|argument:) )-(\w[\w-]+)`)

func printHelp(out io.Writer, own, beams *flag.FlagSet) error {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: batch [flags]\n\n%s\n\n", summary)
	own.VisitAll(func(f *flag.Flag) { printFlag(&b, f) })
	b.WriteString("  --help\n        print this help and exit\n\nBeam's flags:\n\n")
	beams.VisitAll(func(f *flag.Flag) {
		if own.Lookup(f.Name) == nil {
			printFlag(&b, f)
		}
	})
	_, err := io.WriteString(out, b.String())
	return err
}

func printFlag(b *strings.Builder, f *flag.Flag) {
	value, usage := flag.UnquoteUsage(f)
	usage = strings.ReplaceAll(usage, "\n", "\n        ")
	fmt.Fprintf(b, "  %s\n        %s", strings.TrimSpace("--"+f.Name+" "+value), usage)
	if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "default") {
		fmt.Fprintf(b, " (default %s)", f.DefValue)
	}
	b.WriteByte('\n')
}
