//go:build cgo && !nogpu

package faulttest

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// logged opens a device whose log is kept.
func logged(t *testing.T, spec string) (*kompute.Device, *lockedBuffer) {
	log := &lockedBuffer{}
	d, err := kompute.Open(spec, kompute.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() }) // a device that was lost reports that
	return d, log
}

// requests are greedy, sampled, chosen on the host, and with stop strings.
func requests() []engine.Request {
	hook := func([]int32, []float32) error { return nil }
	return []engine.Request{
		{Prompt: demo.cases[0].PromptIDs, MaxTokens: 12},
		{Prompt: demo.cases[1].PromptIDs, MaxTokens: 9, Sampling: sample.Params{Temperature: 0.9, TopP: 0.95, Seed: 5}},
		{Prompt: demo.cases[0].PromptIDs, MaxTokens: 10, Sampling: sample.Params{Temperature: 0.7, Seed: 9}, Logits: hook, RepetitionPenalty: 1.2, Logprobs: true},
	}
}

// answer runs all requests at once and collects their tokens as a reader receives them.
func answer(t *testing.T, e *engine.Engine, all []engine.Request) (out [][]generate.Token) {
	var streams []*engine.Stream
	for _, r := range all {
		s, err := e.Submit(bg, r)
		require.NoError(t, err)
		streams = append(streams, s)
	}
	for _, s := range streams {
		var tokens []generate.Token
		for token, err := range s.Tokens() {
			require.NoError(t, err)
			tokens = append(tokens, token)
		}
		out = append(out, tokens)
	}
	return out
}

// requireSameTokens compares answers. The last bits of log probabilities may
// depend on the sizes of steps.
func requireSameTokens(t *testing.T, want, got [][]generate.Token) {
	for i := range want {
		require.Len(t, got[i], len(want[i]))
		for j, w := range want[i] {
			g := got[i][j]
			if w.Logprob != nil {
				require.InDelta(t, w.Logprob.Value, g.Logprob.Value, 1e-4)
			}
			w.Logprob, g.Logprob = nil, nil
			require.Equal(t, w, g, "request %d, token %d", i, j)
		}
	}
}

// An engine whose device is lost continues its requests on the reopened device, with
// the tokens that they would have had.
func TestAnEngineReplacesALostDevice(t *testing.T) {
	openDemo(t)
	d, log := logged(t, "vulkan")
	h, err := model.NewHost(bg, d, demo.folder.Checkpoint, model.Options{}, model.HostOptions{Most: 3})
	require.NoError(t, err)
	defer func() { _ = h.Close() }()
	config := engine.Config{Sequences: 4, Context: 128, PageTokens: 4, ChunkTokens: 16}
	e, err := engine.NewHosted([]*model.Host{h}, demo.folder.Tokenizer, config)
	require.NoError(t, err)
	all := requests()
	want := answer(t, e, all)
	for i, at := range []struct {
		function string
		call     uint64
	}{{"vkQueueSubmit", 1}, {"vkQueueSubmit", 9}, {"vkWaitSemaphores", 7}} {
		control.Fail(at.function, at.call, 1, deviceLost)
		got := answer(t, e, all)
		require.EqualValues(t, 1, control.Failed(), at)
		control.Disarm()
		requireSameTokens(t, want, got)
		require.EqualValues(t, i+1, e.Stats().Replaced)
		require.Equal(t, e.Stats().Pages, e.Stats().FreePages)
	}
	require.Equal(t, 3, strings.Count(log.String(), "a lost device is replaced"))
	require.Equal(t, 3, strings.Count(log.String(), "requests are computed again"))
	control.Fail("vkQueueSubmit", 3, 1, deviceLost)
	s, err := e.Submit(bg, all[0])
	require.NoError(t, err)
	got, err := s.Result(bg)
	control.Disarm()
	require.ErrorIs(t, err, kompute.ErrDeviceLost, "often enough")
	require.Equal(t, generate.FinishError, got.Finish)
	require.ErrorIs(t, e.Err(), kompute.ErrDeviceLost)
	require.ErrorIs(t, e.Close(bg), kompute.ErrDeviceLost)
}

// A device that is not lost, but fails until it is opened again, is replaced too, a
// bounded number of times.
func TestAnEngineReplacesADeviceThatKeepsFailing(t *testing.T) {
	openDemo(t)
	d, log := logged(t, "vulkan")
	h, err := model.NewHost(bg, d, demo.folder.Checkpoint, model.Options{}, model.HostOptions{Most: 3})
	require.NoError(t, err)
	defer func() { _ = h.Close() }()
	e, err := engine.NewHosted([]*model.Host{h}, demo.folder.Tokenizer, engine.Config{Sequences: 4, Context: 128, PageTokens: 4, ChunkTokens: 16})
	require.NoError(t, err)
	all := requests()
	want := answer(t, e, all)
	control.Fail("vkQueueSubmit", 3, 5, outOfDeviceMemory)
	got := answer(t, e, all)
	require.EqualValues(t, 5, control.Failed())
	control.Disarm()
	requireSameTokens(t, want, got)
	require.EqualValues(t, 1, e.Stats().Replaced)
	require.Contains(t, log.String(), "steps failed too often")
	control.Fail("vkQueueSubmit", 1, always, outOfDeviceMemory)
	s, err := e.Submit(bg, all[0])
	require.NoError(t, err)
	_, err = s.Result(bg)
	control.Disarm()
	require.ErrorIs(t, err, kompute.ErrOutOfMemory, "often enough")
	require.ErrorIs(t, e.Close(bg), kompute.ErrOutOfMemory)
	require.Equal(t, 3, h.Replaced())
}

// If a device cannot be opened again, its requests continue on the CPU if that is
// allowed, and a request that is cancelled meanwhile ends.
func TestAnEngineGoesOnOnTheCPU(t *testing.T) {
	openDemo(t)
	d, log := logged(t, "vulkan")
	h, err := model.NewHost(bg, d, demo.folder.Checkpoint, model.Options{}, model.HostOptions{Most: 2, OnCPU: true})
	require.NoError(t, err)
	e, err := engine.NewHosted([]*model.Host{h}, demo.folder.Tokenizer, engine.Config{Sequences: 2, Context: 128})
	require.NoError(t, err)
	control.Fail("vkQueueSubmit", 3, always, deviceLost) // also once the device is open again
	s, err := e.Submit(bg, engine.Request{Prompt: demo.cases[0].PromptIDs, MaxTokens: tokens})
	require.NoError(t, err)
	got, err := s.Result(bg)
	control.Disarm()
	require.NoError(t, err)
	require.Equal(t, demo.cases[0].GeneratedIDs[:tokens], got.IDs)
	require.Equal(t, "cpu", h.Model().Device().Backend())
	require.Equal(t, 2, strings.Count(log.String(), "a lost device is replaced"))
	require.Contains(t, log.String(), "the CPU replaces a lost device")
	require.EqualValues(t, 1, e.Stats().Replaced)
	require.NoError(t, e.Close(bg))
	require.NoError(t, h.Close())
}

// A step that the driver refuses is started again if the device is not lost, unless
// it keeps failing.
func TestAnEngineBeginsStepsAgain(t *testing.T) {
	openDemo(t)
	d, log := logged(t, "vulkan")
	m, err := demo.folder.Load(bg, d, model.Options{})
	require.NoError(t, err)
	defer func() { _ = m.Close() }()
	e, err := engine.New(m, demo.folder.Tokenizer, engine.Config{Sequences: 4, Context: 128, PageTokens: 4, ChunkTokens: 16})
	require.NoError(t, err)
	all := requests()
	want := answer(t, e, all)
	for _, at := range []struct {
		call   uint64
		result int32
		again  uint64 // times so far
	}{{3, unknownError, 1}, {4, outOfDeviceMemory, 1}, {6, unknownError, 2}, {9, unknownError, 3}} { // lack of memory may be temporary
		control.Fail("vkQueueSubmit", at.call, 1, at.result)
		got := answer(t, e, all)
		require.EqualValues(t, 1, control.Failed(), at)
		control.Disarm()
		requireSameTokens(t, want, got)
		require.Equal(t, at.again, e.Stats().Restarted, at)
		require.Equal(t, e.Stats().Pages, e.Stats().FreePages)
	}
	require.Zero(t, e.Stats().Replaced)
	require.Equal(t, 3, strings.Count(log.String(), "requests are computed again"))
	control.Fail("vkQueueSubmit", 1, always, outOfDeviceMemory)
	s, err := e.Submit(bg, all[0])
	require.NoError(t, err)
	_, err = s.Result(bg)
	control.Disarm()
	require.ErrorIs(t, err, kompute.ErrOutOfMemory)
	require.ErrorIs(t, e.Err(), kompute.ErrOutOfMemory)
	require.ErrorIs(t, e.Close(bg), kompute.ErrOutOfMemory)
}

// Whatever the driver refuses while an engine warms up, requests get their tokens.
func TestAnEngineWhoseWarmUpFails(t *testing.T) {
	openDemo(t)
	d, _ := logged(t, "vulkan")
	m, err := demo.folder.Load(bg, d, model.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	config := engine.Config{Sequences: 2, Context: 64, PageTokens: 16, ChunkTokens: 16}
	e, err := engine.New(m, demo.folder.Tokenizer, config)
	require.NoError(t, err)
	all := requests()[:2]
	want := answer(t, e, all)
	require.NoError(t, e.Close(bg))
	for _, at := range []struct {
		function string
		result   int32
		want     error
	}{
		{"vkAllocateDescriptorSets", unknownError, kompute.ErrDriver},
		{"vkCreateBuffer", outOfDeviceMemory, nil}, // requests can do without that step
		{"vkBeginCommandBuffer", deviceLost, kompute.ErrDeviceLost},
	} {
		e, err := engine.New(m, demo.folder.Tokenizer, config)
		require.NoError(t, err)
		control.Fail(at.function, 1, 1, at.result)
		err = e.WarmUp(bg)
		require.EqualValues(t, 1, control.Failed(), at)
		control.Disarm()
		if at.want == nil {
			require.NoError(t, err, at)
		} else {
			require.ErrorIs(t, err, at.want, at)
		}
		requireSameTokens(t, want, answer(t, e, all))
		require.NoError(t, e.Close(bg))
	}
}
