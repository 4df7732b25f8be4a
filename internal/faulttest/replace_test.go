//go:build cgo && !nogpu

package faulttest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// A device that is lost during a generation is replaced, and the generation
// continues with the tokens that it would have had: greedy or sampled, wherever it
// was.
func TestALostDeviceIsReplaced(t *testing.T) {
	openDemo(t)
	var log lockedBuffer
	d, err := kompute.Open("vulkan", kompute.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	h, err := model.NewHost(bg, d, demo.folder.Checkpoint, model.Options{}, model.HostOptions{Most: 4})
	require.NoError(t, err)
	s, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
	require.NoError(t, err)
	prompt := demo.cases[0].PromptIDs
	const n = 12
	for i, params := range []sample.Params{{}, {Temperature: 0.8, Seed: 7}} {
		text := ""
		o := generate.Options{MaxTokens: n, Sampling: params, OnText: func(more string) error { text += more; return nil }}
		want, err := s.Generate(bg, prompt, o)
		require.NoError(t, err)
		if i == 0 {
			require.Equal(t, demo.cases[0].GeneratedIDs[:n], want.IDs)
		}
		for _, at := range []struct {
			function string
			call     uint64
		}{{"vkQueueSubmit", 1}, {"vkQueueSubmit", 6}} {
			before := h.Replaced()
			text = ""
			control.Fail(at.function, at.call, 1, deviceLost)
			got, err := s.Generate(bg, prompt, o)
			require.NoError(t, err, at)
			require.EqualValues(t, 1, control.Failed(), at)
			require.Equal(t, before+1, h.Replaced())
			require.Equal(t, want.IDs, got.IDs, at)
			require.Equal(t, want.Text, got.Text)
			require.Equal(t, want.Text, text, "nothing is said twice")
		}
	}
	require.Equal(t, 4, bytes.Count([]byte(log.String()), []byte("a lost device is replaced")))
	control.Fail("vkQueueSubmit", 3, 1, deviceLost)
	_, err = s.Generate(bg, prompt, generate.Options{MaxTokens: n})
	require.ErrorIs(t, err, kompute.ErrDeviceLost, "often enough")
	control.Disarm()
	_ = s.Close()
	_ = h.Close()
}

// If the device cannot be opened again, the CPU replaces it if that is allowed.
func TestTheCPUTakesALostDevicesPlace(t *testing.T) {
	openDemo(t)
	d, err := kompute.Open("vulkan")
	require.NoError(t, err)
	defer func() { _ = d.Close() }()
	h, err := model.NewHost(bg, d, demo.folder.Checkpoint, model.Options{}, model.HostOptions{OnCPU: true})
	require.NoError(t, err)
	s, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
	require.NoError(t, err)
	lost := h.Model()
	control.Fail("vkCreateDevice", 1, always, initializationFailed)
	m, err := h.Replace(bg, lost, kompute.ErrDeviceLost)
	control.Disarm()
	require.NoError(t, err)
	require.Equal(t, "cpu", m.Device().Backend())
	again, err := h.Replace(bg, lost, kompute.ErrDeviceLost)
	require.NoError(t, err)
	require.Same(t, m, again, "once is enough")
	_ = s.Close()
	s, err = generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
	require.NoError(t, err)
	got, err := s.Generate(bg, demo.cases[0].PromptIDs, generate.Options{MaxTokens: tokens})
	require.NoError(t, err)
	require.Equal(t, demo.cases[0].GeneratedIDs[:tokens], got.IDs)
	require.NoError(t, s.Close())
	require.NoError(t, h.Close())
}

// A generation that is cancelled while it replaces the device leaves that to the next one that
// needs the device: a session, new or old, or an engine.
func TestACancelledReplacementIsDoneByTheNext(t *testing.T) {
	openDemo(t)
	prompt, o := demo.cases[0].PromptIDs, generate.Options{MaxTokens: tokens}
	for name, next := range map[string]func(h *model.Host, other *generate.Session) error{
		"other session": func(_ *model.Host, s *generate.Session) error { return generates(s, prompt, o) },
		"new session": func(h *model.Host, _ *generate.Session) error {
			s, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
			if err != nil {
				return err
			}
			return errors.Join(generates(s, prompt, o), s.Close())
		},
		"engine": func(h *model.Host, _ *generate.Session) error {
			e, err := engine.NewHosted([]*model.Host{h}, demo.folder.Tokenizer, engine.Config{Sequences: 2, Context: 128})
			if err != nil {
				return err
			}
			s, err := e.Submit(bg, engine.Request{Prompt: prompt, MaxTokens: tokens})
			if err != nil {
				return err
			}
			r, err := s.Result(bg)
			return errors.Join(checkTokens(r, err, demo.cases[0]), e.Close(bg))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			loads := 0
			loading := model.Options{Progress: func(done, total int64) {
				if done == total {
					if loads++; loads == 2 {
						cancel()
					}
				}
			}}
			d, err := kompute.Open("vulkan")
			require.NoError(t, err)
			defer func() { _ = d.Close() }()
			h, err := model.NewHost(bg, d, demo.folder.Checkpoint, loading, model.HostOptions{Most: 1})
			require.NoError(t, err)
			defer func() { _ = h.Close() }()
			a, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
			require.NoError(t, err)
			b, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
			require.NoError(t, err)
			require.NoError(t, generates(b, prompt, o))
			control.Fail("vkQueueSubmit", 3, 1, deviceLost)
			_, err = a.Generate(ctx, prompt, o)
			control.Disarm()
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, h.Replaced())
			require.NoError(t, next(h, b))
			require.Equal(t, 1, h.Replaced())
			for _, s := range []*generate.Session{a, b} {
				require.NoError(t, generates(s, prompt, o))
				require.NoError(t, s.Close())
			}
			require.Equal(t, 1, h.Replaced())
		})
	}
}

// generates checks that the session has the golden answer to the first prompt.
func generates(s *generate.Session, prompt []int, o generate.Options) error {
	r, err := s.Generate(bg, prompt, o)
	return checkTokens(r, err, demo.cases[0])
}

// A replacement that is lost before the session has moved onto it (by its second submission),
// or while it reads the prompt again, is replaced as well.
func TestAReplacementIsLostAtOnce(t *testing.T) {
	openDemo(t)
	for call := uint64(2); call <= 3; call++ {
		loads := 0
		o := model.Options{Progress: func(done, total int64) {
			if done == total {
				if loads++; loads == 2 {
					control.Fail("vkQueueSubmit", call, 1, deviceLost)
				}
			}
		}}
		d, err := kompute.Open("vulkan")
		require.NoError(t, err)
		h, err := model.NewHost(bg, d, demo.folder.Checkpoint, o, model.HostOptions{Most: 4})
		require.NoError(t, err)
		s, err := generate.NewHostedSession(h, demo.folder.Tokenizer, 32)
		require.NoError(t, err)
		control.Fail("vkQueueSubmit", 3, 1, deviceLost)
		r, err := s.Generate(bg, demo.cases[0].PromptIDs, generate.Options{MaxTokens: tokens})
		require.NoError(t, checkTokens(r, err, demo.cases[0]), call)
		require.EqualValues(t, 1, control.Failed(), call)
		control.Disarm()
		require.Equal(t, 2, h.Replaced(), call)
		require.NoError(t, s.Close())
		require.NoError(t, h.Close())
		_ = d.Close()
	}
}
