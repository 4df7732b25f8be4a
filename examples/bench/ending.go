package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ending says what has ended a measurement before everything was measured, so that nobody takes its results for all.
type ending struct {
	Interrupted bool   `json:"interrupted,omitempty"`
	Error       string `json:"error,omitempty"` // anything else
}

const (
	interrupted = "interrupted before everything was measured"
	failed      = "failed before everything was measured"
)

func endingOf(err error) ending {
	switch {
	case err == nil:
		return ending{}
	case errors.Is(err, context.Canceled):
		return ending{Interrupted: true}
	}
	return ending{Error: err.Error()}
}

// print prints a line for tables of such results.
func (e ending) print(w io.Writer) {
	if e.Interrupted {
		fmt.Fprintln(w, interrupted)
	}
	if e.Error != "" {
		fmt.Fprintf(w, "%s: %s\n", failed, e.Error)
	}
}
