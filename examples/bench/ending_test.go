package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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

// partial is what is looked at in the JSON of results.
type partial struct {
	Interrupted                  bool
	Error                        string
	Tests, Ops, Batches, Scaling []any
}

// requirePartial checks that JSON has one result of each list that is not empty, and the error.
func requirePartial(t *testing.T, text []byte, want string) {
	t.Helper()
	var got partial
	require.NoError(t, json.Unmarshal(text, &got))
	require.False(t, got.Interrupted)
	require.Contains(t, got.Error, want)
	require.Equal(t, 1, len(got.Tests)+len(got.Ops)+len(got.Batches)+len(got.Scaling))
}

// What was measured before an error is printed, with the error.
func TestErrorsKeepResults(t *testing.T) {
	for _, c := range []struct {
		at   string
		args []string
	}{
		{"test 2 of 3", []string{"--shape", "demo", "--device", "cpu", "-p", "2", "-n", "2", "-r", "1"}},
		{"bench: 2 clients", []string{"--shape", "demo", "--device", "cpu", "--batch", "1,2", "-p", "2", "-n", "2", "-r", "1"}},
		{"1 threads: tg2, region", []string{"--shape", "demo", "--device", "cpu", "--threads", "1", "-p", "2", "-n", "2", "-r", "1"}},
		{"bench: copy", []string{"--ops", "copy", "--device", "cpu", "--sizes", "4096"}},
	} {
		for _, asJSON := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			args := c.args
			if asJSON {
				args = append(args, "--json")
			}
			var out bytes.Buffer
			require.ErrorIs(t, run(overdue{ctx}, args, &out, cancelsAt{c.at, cancel}), context.DeadlineExceeded)
			if asJSON {
				requirePartial(t, out.Bytes(), context.DeadlineExceeded.Error())
			} else {
				require.Contains(t, out.String(), failed)
			}
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
		requirePartial(t, out.Bytes(), err.Error())
	}
}
