//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// demo is the demo model and its expected answer.
var demo struct {
	folder *generate.Folder
	cases  []testmodel.Case
}

// tokens is how many are generated.
const tokens = 5

func openDemo(t *testing.T) {
	var err error
	demo.folder, err = generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, demo.folder.Close()) })
	demo.cases, _ = testmodel.Goldens(t)
}

// checkTokens compares an answer with the golden one; after an error, it may be
// only a beginning of it.
func checkTokens(r *generate.Result, err error, c testmodel.Case) error {
	var got []int
	if r != nil {
		got = r.IDs
	}
	if len(got) > tokens || !slices.Equal(got, c.GeneratedIDs[:len(got)]) || err == nil && len(got) < tokens {
		return errors.Join(fmt.Errorf("%w: tokens %v, not %v", errWrong, got, c.GeneratedIDs[:tokens]), err)
	}
	return err
}

// decode loads the model and generates tokens.
func decode(j *job) (err error) {
	m, err := demo.folder.Load(j.ctx, j.d, model.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	s, err := generate.NewSession(m, demo.folder.Tokenizer, 64)
	if err != nil {
		return err
	}
	r, err := s.Generate(j.ctx, demo.cases[0].PromptIDs, generate.Options{MaxTokens: tokens})
	return errors.Join(checkTokens(r, err, demo.cases[0]), s.Close())
}

// serve runs requests concurrently.
func serve(j *job) (err error) {
	m, err := demo.folder.Load(j.ctx, j.d, model.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	e, err := engine.New(m, demo.folder.Tokenizer, engine.Config{Sequences: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.Background())) }()
	var streams []*engine.Stream
	for _, c := range demo.cases[:2] {
		s, err := e.Submit(j.ctx, engine.Request{Prompt: c.PromptIDs, MaxTokens: tokens})
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	for i, s := range streams {
		r, answered := s.Result(j.ctx)
		err = errors.Join(err, checkTokens(r, answered, demo.cases[i]))
	}
	return err
}
