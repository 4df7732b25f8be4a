package engine_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// eachPair gives a test two hosts of the small model, each on a device of its own of the
// same kind.
func eachPair(t *testing.T, fn func(d demo, hosts []*model.Host)) {
	t.Helper()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	c, _ := testmodel.Small().Open(t)
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		spec := dev.Backend()
		if uuid := dev.Info().UUID; uuid != "" {
			spec += ":" + uuid
		}
		second, err := kompute.Open(spec)
		require.NoError(t, err)
		defer func() { require.NoError(t, second.Close()) }()
		var hosts []*model.Host
		for _, d := range []*kompute.Device{dev, second} {
			h, err := model.NewHost(t.Context(), d, c, model.Options{}, model.HostOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, h.Close()) }()
			hosts = append(hosts, h)
		}
		fn(demo{t, folder, hosts[0].Model()}, hosts)
	})
}

// Two devices behind one queue share the requests, and give the same tokens as one.
func TestReplicas(t *testing.T) {
	const requests = 30
	eachPair(t, func(d demo, hosts []*model.Host) {
		r := rand.New(rand.NewPCG(11, 1))
		prefix := make([]int, 33)
		for i := range prefix {
			prefix[i] = r.IntN(smallVocabulary)
		}
		c := engine.Config{Sequences: 3, Context: 128, PageTokens: 8, CacheTokens: 136, ChunkTokens: 16}
		alone := d.engine(c)
		defer d.close(alone)
		all := make([]engine.Request, requests)
		want := make([]*generate.Result, requests)
		for i := range all {
			all[i] = randomRequest(d, r, [][]int{nil, prefix})
			s, err := alone.Submit(d.Context(), onHost(all[i]))
			require.NoError(d, err)
			want[i], err = s.Result(d.Context())
			require.NoError(d, err)
		}
		e, err := engine.NewHosted(hosts, d.folder.Tokenizer, c)
		require.NoError(d, err)
		require.Equal(d, 2, e.Stats().Devices)
		require.Equal(d, 2*alone.Stats().Pages, e.Stats().Pages)
		var wg sync.WaitGroup
		for i := range all {
			ctx, cancel := context.WithCancel(d.Context())
			defer cancel()
			s, err := e.Submit(ctx, all[i])
			require.NoError(d, err)
			if i%7 == 6 {
				cancel()
				wg.Go(func() {
					_, err := s.Result(d.Context())
					require.ErrorIs(d, err, context.Canceled)
				})
				continue
			}
			wg.Go(func() { requireAnswer(d, want[i], s) })
		}
		wg.Wait()
		stats := idleStats(d, e)
		require.Positive(d, stats.SharedTokens)
		require.Equal(d, stats.Steps, stats.DeviceSteps[0]+stats.DeviceSteps[1])
		for _, steps := range stats.DeviceSteps {
			require.Positive(d, steps, "both have worked") // the shares depend on which one was ready first
		}
		d.close(e)
	})
}

// A request goes to the device with its prompt's beginning, unless that is far busier.
func TestReplicasShareByPrefix(t *testing.T) {
	eachPair(t, func(d demo, hosts []*model.Host) {
		e, err := engine.NewHosted(hosts, d.folder.Tokenizer, engine.Config{Sequences: 4, Context: 128, PageTokens: 8})
		require.NoError(d, err)
		defer d.close(e)
		prompts := [2][]int{make([]int, 41), make([]int, 41)}
		for i := range prompts[1] {
			prompts[1][i] = 1 + i
		}
		ask := func(i int) *engine.Stream {
			s, err := e.Submit(d.Context(), engine.Request{Prompt: prompts[i], MaxTokens: 4})
			require.NoError(d, err)
			return s
		}
		for range 3 { // both at once, so that each has one
			streams := []*engine.Stream{ask(0), ask(1)}
			for _, s := range streams {
				_, err := s.Result(d.Context())
				require.NoError(d, err)
			}
		}
		require.EqualValues(d, 2*2*40, e.Stats().SharedTokens, "each was computed once")
	})
}

func TestHostedRefusals(t *testing.T) {
	d := cpuDemo(t)
	_, err := engine.NewHosted(nil, d.folder.Tokenizer, engine.Config{})
	require.ErrorIs(d, err, kompute.ErrInvalid)
	_, err = engine.NewHosted([]*model.Host{nil}, d.folder.Tokenizer, engine.Config{})
	require.ErrorIs(d, err, kompute.ErrInvalid)
	hosts := make([]*model.Host, 2)
	small, _ := testmodel.Small().Open(t)
	for i, c := range []*checkpoint.Checkpoint{d.folder.Checkpoint, small} {
		hosts[i], err = model.NewHost(d.Context(), d.model.Device(), c, model.Options{}, model.HostOptions{})
		require.NoError(d, err)
		defer func() { require.NoError(d, hosts[i].Close()) }()
	}
	_, err = engine.NewHosted(hosts, d.folder.Tokenizer, engine.Config{})
	require.ErrorIs(d, err, kompute.ErrInvalid, "models that differ")
}
