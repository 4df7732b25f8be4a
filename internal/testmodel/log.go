package testmodel

import (
	"context"
	"log/slog"
)

// onLine is a log that calls a function for each line.
type onLine struct {
	slog.Handler
	call func()
}

func (onLine) Enabled(context.Context, slog.Level) bool { return true }

func (l onLine) Handle(context.Context, slog.Record) error {
	l.call()
	return nil
}

// OnLine returns a log that calls the function for each line, of any level, and writes nothing.
func OnLine(call func()) *slog.Logger { return slog.New(onLine{slog.DiscardHandler, call}) }
