package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// small returns the small model on the CPU backend, and the demo model's folder.
func small(t *testing.T, opts ...kompute.Option) (model.Model, *generate.Folder) {
	t.Helper()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	d, err := kompute.Open("cpu", opts...)
	require.NoError(t, err)
	c, _ := testmodel.Small().Open(t)
	m, err := model.Load(t.Context(), d, c, model.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(m.Close(), d.Close(), folder.Close())) })
	return m, folder
}

// A request with which steps fail again and again ends, and others go on, though steps
// without it succeed in between.
func TestRequestThatKeepsFailing(t *testing.T) {
	const prompt, tokens = 90, 100
	m, folder := small(t)
	e, err := New(m, folder.Tokenizer, Config{Sequences: 4, Context: 128, PageTokens: 8, ChunkTokens: 16})
	require.NoError(t, err)
	submitted := make(chan struct{})
	// Called between two steps, it breaks the next one if the long prompt is half read.
	sabotage := func([]int32, []float32) error {
		<-submitted
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, q := range e.replicas[0].scheduler.running {
			if q.prompt == prompt && q.fed > prompt/2 {
				return e.replicas[0].steps.stream.Close()
			}
		}
		return nil
	}
	whole, err := e.Submit(t.Context(), Request{Prompt: []int{1, 2, 3}, MaxTokens: tokens, Logits: sabotage})
	require.NoError(t, err)
	failing, err := e.Submit(t.Context(), Request{Prompt: make([]int, prompt), MaxTokens: 4})
	require.NoError(t, err)
	close(submitted)
	got, err := failing.Result(t.Context())
	require.ErrorIs(t, err, kompute.ErrClosed)
	require.ErrorContains(t, err, "failed too often")
	require.Equal(t, generate.FinishError, got.Finish)
	got, err = whole.Result(t.Context())
	require.NoError(t, err)
	require.Len(t, got.IDs, tokens)
	require.NoError(t, e.Close(t.Context()))
	stats := e.Stats()
	require.EqualValues(t, mostRestarts+1, stats.Restarted)
	require.Equal(t, stats.Pages, stats.FreePages)
}

// lastLine is a log that remembers when its last line was written.
type lastLine struct {
	slog.Handler
	at *time.Time
}

func (lastLine) Enabled(context.Context, slog.Level) bool { return true }

func (l lastLine) Handle(context.Context, slog.Record) error {
	*l.at = time.Now()
	return nil
}

// The time to begin again is not the host's time on steps, but the time before it is.
func TestHostTimeWithoutRestarts(t *testing.T) {
	var during time.Time
	m, folder := small(t, kompute.WithLogger(slog.New(lastLine{slog.DiscardHandler, &during})))
	e := &Engine{limits: m.Limits(), tokenizer: folder.Tokenizer, config: Config{Sequences: 2}, outbox: newOutbox()}
	require.NoError(t, e.config.fill(m))
	e.wake = sync.NewCond(&e.mu)
	r, err := newReplica(e, nil, m)
	require.NoError(t, err)
	r.working = time.Now().Add(-time.Hour)
	require.True(t, r.restart(errors.New("made up")))
	require.False(t, r.working.Before(during))
	require.GreaterOrEqual(t, e.stats.HostTime, time.Hour)
	require.NoError(t, r.steps.close())
}

// A replica that continues on another device has that one's limits.
func TestLimitsFollowTheDevice(t *testing.T) {
	m, folder := small(t)
	e := &Engine{limits: m.Limits(), tokenizer: folder.Tokenizer, config: Config{Sequences: 4, BatchInvariant: true}, outbox: newOutbox()}
	require.NoError(t, e.config.fill(m))
	e.wake = sync.NewCond(&e.mu)
	r, err := newReplica(e, nil, m)
	require.NoError(t, err)
	want := e.config.on(m.Device())
	require.Equal(t, want, *r.scheduler.config)
	r.scheduler.config.limitRows(1) // as on a device that keeps the bits of one row
	require.Equal(t, []Config{*r.scheduler.config}, (&Engine{replicas: []*replica{r, r}}).configs())
	require.True(t, r.restart(errors.New("made up")))
	require.Equal(t, want, *r.scheduler.config)
	require.Same(t, r.scheduler.config, r.steps.config)
	require.NoError(t, r.steps.close())
}

// A failed request that meanwhile runs on another replica is not ended under its feet.
func TestOnlyOwnRequestsAreBlamed(t *testing.T) {
	e := &Engine{}
	a, b := &replica{engine: e, scheduler: &scheduler{}}, &replica{engine: e, scheduler: &scheduler{}}
	q := &sequence{request: &Request{}, failures: mostRestarts, on: b.scheduler}
	f := a.inFlight.next()
	f.pieces = append(f.pieces, piece{sequence: q})
	a.inFlight.started()
	a.blame(errors.New("out of memory"))
	require.False(t, q.ended.Load())
	require.Same(t, b.scheduler, q.on)
	require.Equal(t, mostRestarts, q.failures)
}
