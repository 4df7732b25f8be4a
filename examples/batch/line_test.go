package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// A line is read as it stands: what it does not say exactly makes it fail, with its ID where
// that is certain.
func TestWrongLines(t *testing.T) {
	for line, want := range map[string]struct{ id, reason string }{
		`{"id": "\ud800", "prompt": "x"}`:                                             {"", "surrogate"},
		`{"id": "1", "prompt": "\ud800"}`:                                             {"", "surrogate"},
		`{"ID": "1", "prompt": "x"}`:                                                  {"", `unknown object member name "ID"`},
		`{"Prompt": "x", "id": "1"}`:                                                  {"1", `unknown object member name "Prompt"`},
		`{"id": "1", "messages": [{"role": "user", "Content": "x"}]}`:                 {"1", `unknown object member name "Content"`},
		`{"id": "1", "prompt": "x", "id": "2"}`:                                       {"", `duplicate object member name "id"`},
		`{"id": "1", "messages": [{"role": "user"}], "messages": [{"content": "x"}]}`: {"", `duplicate object member name "messages"`},
		`{"max_tokens": "many", "prompt": "x", "id": "1"}`:                            {"1", "max_tokens"},
		`{"id": 1, "prompt": "x"}`:                                                    {"", "/id"},
		`{"id": "1", "prompt": "x"} {"id": "2", "prompt": "x"}`:                       {"", "after top-level value"},
		`{"id": "1"`:  {"", "EOF"},
		` `:           {"", "an empty line"},
		byteOrderMark: {"", "an empty line"},
		`null`:        {"", `no "id"`},
		`{"id": "1", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}`: {"1", "is needed"},
	} {
		q, err := parse(line)
		require.ErrorContains(t, err, want.reason, line)
		assert.Equal(t, want.id, q.ID, line)
	}
	q, err := parse(` {"id": "\ud83e\udd8a", "prompt": "x", "stop": null, "seed": 18446744073709551615} `)
	require.NoError(t, err)
	assert.Equal(t, "🦊", q.ID)
	assert.Equal(t, ^uint64(0), *q.Seed)
}

// A model that is to be sampled is, also if it recommends no temperature.
func TestTemperature(t *testing.T) {
	asked, recommended := 0.5, 0.7
	for _, c := range []struct {
		asked *float64
		model checkpoint.Generation
		want  float64
	}{
		{nil, checkpoint.Generation{}, 0},
		{nil, checkpoint.Generation{Temperature: &recommended}, 0},
		{nil, checkpoint.Generation{DoSample: true}, 1},
		{nil, checkpoint.Generation{DoSample: true, Temperature: &recommended}, 0.7},
		{&asked, checkpoint.Generation{DoSample: true}, 0.5},
		{&asked, checkpoint.Generation{}, 0.5},
	} {
		q := &question{Temperature: c.asked}
		assert.InDelta(t, c.want, q.sampling(&c.model).Temperature, 0)
	}
}
