package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// overdue is a context that ends with its deadline instead of being cancelled.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// cancelsAt cancels when that text is written.
type cancelsAt struct {
	text   string
	cancel func()
}

func (c cancelsAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return len(p), nil
}

// requirePartial checks that JSON says what ended the measurement, and has one result of all lists.
func requirePartial(t *testing.T, text []byte, want error) {
	t.Helper()
	var got struct {
		ending
		Tests, Ops, Batches, Scaling []any
	}
	require.NoError(t, json.Unmarshal(text, &got))
	if errors.Is(want, context.Canceled) {
		require.Equal(t, ending{Interrupted: true}, got.ending)
	} else {
		require.False(t, got.Interrupted)
		require.Contains(t, got.Error, want.Error())
	}
	require.Equal(t, 1, len(got.Tests)+len(got.Ops)+len(got.Batches)+len(got.Scaling))
}

// What was measured before an interruption or an error is printed, with what it was, and said to be a part.
func TestWhatEndsEarlyKeepsResults(t *testing.T) {
	for _, c := range []struct {
		at   string
		args []string
	}{
		{"test 2 of 3", []string{"--shape", "tiny", "--device", "cpu", "-p", "2", "-n", "2", "-r", "1"}},
		{"bench: 2 clients", []string{"--shape", "tiny", "--device", "cpu", "--batch", "1,2", "-p", "2", "-n", "2", "-r", "1"}},
		{"1 thread: tg2, region", []string{"--shape", "tiny", "--device", "cpu", "--threads", "1", "-p", "2", "-n", "2", "-r", "1"}},
		{"bench: copy", []string{"--ops", "copy", "--device", "cpu", "--sizes", "4096"}},
	} {
		for want, says := range map[error]string{context.Canceled: interrupted, context.DeadlineExceeded: failed} {
			end := func(asJSON ...string) []byte {
				ctx, cancel := context.WithCancel(t.Context())
				watched := cancelsAt{c.at, cancel}
				if want == context.DeadlineExceeded {
					ctx = overdue{ctx}
				}
				var out bytes.Buffer
				require.ErrorIs(t, run(ctx, append(slices.Clone(c.args), asJSON...), &out, watched), want)
				return out.Bytes()
			}
			requirePartial(t, end("--json"), want)
			require.Contains(t, string(end()), says)
		}
	}
}

// A profile that cannot be made does not lose the rates.
func TestProfileErrorsKeepResults(t *testing.T) {
	for _, more := range [][]string{{"-p", "2", "-n", "0"}, {"-p", "2", "-n", "2", "--batch", "1"}} {
		o, err := parse(append([]string{"--shape", "demo", "--device", "cpu", "-r", "1", "--json"}, more...), io.Discard)
		require.NoError(t, err)
		o.profile = -1
		var out bytes.Buffer
		err = o.measureModel(t.Context(), &out, io.Discard)
		require.Error(t, err)
		requirePartial(t, out.Bytes(), err)
	}
}
