// Package cli has the common parts of this module's command lines: help, version,
// flags in one style, checks of output files, progress.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
)

// Flags are the flags of a program. A flag has one name, which the help shows
// with two dashes, and may have a single letter with one dash as well.
type Flags struct {
	*flag.FlagSet
	summary string
	letters map[string]string // by name
	version *bool
}

// NewFlags returns the flags of a program, without any but --help and --version.
// The summary is the help's first paragraph.
func NewFlags(program, summary string) *Flags {
	f := &Flags{
		FlagSet: flag.NewFlagSet(program, flag.ContinueOnError), summary: summary, letters: make(map[string]string),
	}
	f.SetOutput(io.Discard)
	f.version = f.Bool("version", false, "print the version and exit")
	return f
}

// TopP returns what a flag --top-p means for sample.Params: 0 there would keep all tokens, but
// the flag means the likeliest one.
func TopP(given float64) float64 {
	if given == 0 {
		return math.SmallestNonzeroFloat64
	}
	return given
}

// Letter makes a letter a second name of a flag. It panics if there is no such
// flag, as flag.Var does for a name that is taken.
func (f *Flags) Letter(letter, name string) {
	known := f.Lookup(name)
	if known == nil {
		panic(fmt.Sprintf("cli: no flag %s", name))
	}
	f.Var(known.Value, letter, "")
	f.letters[name] = letter
}

// Parse reads the command line. For --help and --version it prints that to stdout
// and returns flag.ErrHelp, and the program should end with success.
func (f *Flags) Parse(args []string, stdout io.Writer) error {
	switch err := f.FlagSet.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		if err := f.printHelp(stdout); err != nil {
			return err
		}
		return flag.ErrHelp
	case err != nil:
		return errors.New(hinted(dashes(err.Error())))
	case *f.version:
		if _, err := fmt.Fprintln(stdout, Version(f.Name())); err != nil {
			return err
		}
		return flag.ErrHelp
	}
	return nil
}

// NoArguments returns an error if arguments follow the flags; hint may say where
// they belong.
func (f *Flags) NoArguments(hint string) error {
	if f.NArg() == 0 {
		return nil
	}
	if hint != "" {
		hint = " (" + hint + ")"
	}
	return fmt.Errorf("unexpected argument %q%s", f.Arg(0), hint)
}

// named matches flags in the messages of package flag, which have one dash.
var named = regexp.MustCompile(`((?:flag|for|defined:|argument:) )-([a-z][a-z0-9-]+)`)

// dashes writes the flags of a message as the help does.
func dashes(message string) string { return named.ReplaceAllString(message, "$1--$2") }

// hinted says where the flags are listed if a message is about an unknown one.
func hinted(message string) string {
	if strings.HasPrefix(message, "flag provided but not defined") {
		message += "; see --help"
	}
	return message
}

// printHelp prints the flags in the order of their names.
func (f *Flags) printHelp(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s [flags]\n\n%s\n\n", f.Name(), f.summary)
	f.VisitAll(func(one *flag.Flag) {
		if len(one.Name) == 1 {
			return // a letter, shown with the name
		}
		value, usage := flag.UnquoteUsage(one)
		name := "--" + one.Name
		if letter := f.letters[one.Name]; letter != "" {
			name = "-" + letter + ", " + name
		}
		fmt.Fprintf(&b, "  %s\n        %s", strings.TrimSpace(name+" "+value), usage)
		if one.DefValue != "" && one.DefValue != "false" && !strings.Contains(usage, "default") {
			fmt.Fprintf(&b, " (default %s)", one.DefValue)
		}
		b.WriteByte('\n')
	})
	b.WriteString("  --help\n        print this help and exit\n")
	_, err := io.WriteString(out, b.String())
	return err
}
