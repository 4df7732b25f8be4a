package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// profile breaks down the device's time of a token at one depth, or of a step of
// an engine with a number of clients.
type profile struct {
	Depth   int `json:"depth"`
	Clients int `json:"clients,omitempty"`
	Rows    int `json:"rows,omitempty"` // of the engine's step, or of a prompt's last piece
	Tokens  int `json:"tokens"`         // number of tokens that the medians and means are of
	// Device time of a token: of a replay as it is, and with timestamps around
	// each dispatch, which is what the kernels and gaps add up to.
	ReplayNanos int64    `json:"replay_ns"`
	TimedNanos  int64    `json:"timed_ns"`
	Kernels     []kernel `json:"kernels"`
	// Workers and Waiting are those of kompute.RegionProfile: of the CPU backend.
	Workers int     `json:"workers,omitempty"`
	Waiting float64 `json:"waiting,omitempty"`
	// Gaps before dispatches: with a barrier, or without.
	BarrierGaps gaps `json:"barrier_gaps"`
	OtherGaps   gaps `json:"other_gaps"`
	// EagerOps is the time by op of tokens made op by op.
	EagerOps []eagerOp `json:"eager_ops,omitempty"`
}

// kernel is all dispatches of one kernel for one purpose and grid.
type kernel struct {
	Kernel    string    `json:"kernel"`
	Op        string    `json:"op"`
	FusedFrom []string  `json:"fused_from"` // ops
	Grid      [3]uint32 `json:"grid"`
	Calls     int       `json:"calls"`
	Nanos     int64     `json:"total_ns"`
	// WorkNanos is the total time of the CPU backend's workers on it.
	WorkNanos int64 `json:"work_ns,omitempty"`
}

type gaps struct {
	Calls int   `json:"calls"`
	Nanos int64 `json:"total_ns"`
}

// eagerOp is an op of eager tokens, with numbers of one token.
type eagerOp struct {
	Op         string  `json:"op"`
	Calls      float64 `json:"calls"`
	Dispatches float64 `json:"dispatches"`
	Nanos      float64 `json:"total_ns"`
}

// look profiles a token at a depth. A device without timestamps has no profile.
func (b *bench) look(ctx context.Context, depth int) error {
	p := b.profileAt(depth)
	err := b.lookAtRegion(ctx, p)
	if err == nil {
		err = b.lookAtEager(ctx, p)
	}
	if errors.Is(err, kompute.ErrUnsupported) {
		b.results.NoProfile = err.Error()
		return nil
	}
	if err == nil {
		b.results.Profiles = append(b.results.Profiles, p)
	}
	return err
}

// profileAt returns an empty profile, of fewer tokens than were asked for where the context ends before.
func (b *bench) profileAt(depth int) *profile {
	return &profile{Depth: depth, Tokens: min(b.profile, b.model.Limits().Context-max(depth, 1))}
}

func (b *bench) lookAtRegion(ctx context.Context, p *profile) (err error) {
	if b.eager {
		return nil
	}
	s, err := b.session(p.Depth + 3 + 2*p.Tokens) // each token is computed twice
	if err != nil {
		return err
	}
	defer closeInto(&err, s)
	if _, err := s.Generate(ctx, b.tokens(max(p.Depth, 1)), generate.Options{MaxTokens: 2, Sampling: b.sampling}); err != nil {
		return err
	}
	region := s.Region()
	if region == nil {
		return errors.New("this device cannot capture the decode step; see --eager")
	}
	st := region.Stats()
	m := &b.results.Memory
	m.Transient = max(m.Transient, st.TransientBytes)
	m.TransientUnplanned = max(m.TransientUnplanned, st.TransientBytesUnplanned)
	times, err := region.Profile(ctx, p.Tokens)
	if err != nil {
		return err
	}
	p.add(times)
	return nil
}

// add sums up the dispatches of a region by kernel.
func (p *profile) add(r *kompute.RegionProfile) {
	before, own := float64(p.TimedNanos), float64(r.Timed.Nanoseconds())
	p.Workers, p.Waiting = r.Workers, (p.Waiting*before+r.Waiting*own)/max(before+own, 1)
	p.ReplayNanos += r.Replay.Nanoseconds()
	p.TimedNanos += r.Timed.Nanoseconds()
	for _, d := range r.Dispatches {
		i := slices.IndexFunc(p.Kernels, func(k kernel) bool {
			return k.Kernel == d.Kernel && k.Op == d.Op.Name && k.Grid == d.Grid && slices.Equal(k.FusedFrom, d.Op.FusedFrom)
		})
		if i < 0 {
			i = len(p.Kernels)
			p.Kernels = append(p.Kernels, kernel{Kernel: d.Kernel, Op: d.Op.Name, FusedFrom: d.Op.FusedFrom, Grid: d.Grid})
		}
		p.Kernels[i].Calls++
		p.Kernels[i].Nanos += d.Time.Nanoseconds()
		p.Kernels[i].WorkNanos += d.Work.Nanoseconds()
		gap := &p.OtherGaps
		if d.Barrier {
			gap = &p.BarrierGaps
		}
		gap.Calls++
		gap.Nanos += d.Gap.Nanoseconds()
	}
	slices.SortStableFunc(p.Kernels, func(a, b kernel) int { return cmp.Compare(b.Nanos, a.Nanos) })
}

// name distinguishes kernels that run for different ops.
func (k kernel) name() string {
	what := k.Op
	if len(k.FusedFrom) > 0 {
		what = joined(k.FusedFrom)
	}
	if what == k.Kernel {
		return what
	}
	return k.Kernel + " (" + what + ")"
}

// joined counts ops that come several times: "rms_norm + 3 quantized_matmul".
func joined(ops []string) string {
	var parts []string
	for len(ops) > 0 {
		n := 1
		for n < len(ops) && ops[n] == ops[0] {
			n++
		}
		part := ops[0]
		if n > 1 {
			part = itoa(n) + " " + part
		}
		parts = append(parts, part)
		ops = ops[n:]
	}
	return strings.Join(parts, " + ")
}

func (b *bench) lookAtEager(ctx context.Context, p *profile) (err error) {
	if b.region {
		return nil
	}
	s, err := b.session(p.Depth + 3 + p.Tokens)
	if err != nil {
		return err
	}
	defer closeInto(&err, s)
	o := generate.Options{Eager: true, MaxTokens: 1, Sampling: b.sampling}
	prompt := b.tokens(max(p.Depth, 1))
	r, err := s.Generate(ctx, prompt, o)
	if err != nil {
		return err
	}
	stream := s.Stream()
	if err := stream.StartTiming(); err != nil {
		return err
	}
	o.MaxTokens = p.Tokens // the first of them reads the token before: each is one pass
	if r, err = s.Generate(ctx, append(prompt, r.IDs...), o); err != nil {
		return err
	}
	if s.Stream() != stream {
		return errRestarted
	}
	p.Tokens = len(r.IDs)
	p.EagerOps = eagerOps(stream.Stats(), p.Tokens)
	return nil
}

// eagerOps returns what was measured of ops, for one of n tokens, the longest first.
func eagerOps(st kompute.StreamStats, n int) (list []eagerOp) {
	for op, t := range st.OpTimes {
		list = append(list, eagerOp{
			Op: op, Calls: float64(t.Calls) / float64(n), Dispatches: float64(t.Dispatches) / float64(n), Nanos: float64(t.Time.Nanoseconds()) / float64(n),
		})
	}
	slices.SortFunc(list, func(a, b eagerOp) int {
		return cmp.Or(cmp.Compare(b.Nanos, a.Nanos), cmp.Compare(a.Op, b.Op))
	})
	return list
}

// promptProfile breaks down the device's time of a prompt.
type promptProfile struct {
	Name  string    `json:"name"`
	Ops   []eagerOp `json:"ops"`             // op by op
	Piece *profile  `json:"piece,omitempty"` // of the region of its last piece
}

// lookAtPrompt profiles a prompt: its ops one by one, and the region of its last piece.
func (b *bench) lookAtPrompt(ctx context.Context, t test) error {
	p := promptProfile{Name: t.Name}
	err := b.lookAtPromptOps(ctx, t, &p)
	if err == nil && !b.eager {
		err = b.lookAtPiece(ctx, t, &p)
	}
	if errors.Is(err, kompute.ErrUnsupported) {
		b.results.NoProfile = err.Error()
		return nil
	}
	if err == nil {
		b.results.Prompts = append(b.results.Prompts, p)
	}
	return err
}

func (b *bench) lookAtPiece(ctx context.Context, t test, p *promptProfile) (err error) {
	s, err := b.session(t.Depth + t.Tokens + 1)
	if err != nil {
		return err
	}
	defer closeInto(&err, s)
	for range 2 { // the second time, it is captured
		prompt := b.tokens(t.Depth)
		for _, more := range []int{0, t.Tokens} {
			if prompt = append(prompt, b.tokens(more)...); len(prompt) == 0 {
				continue
			}
			if _, err := s.Generate(ctx, prompt, generate.Options{MaxTokens: 1}); err != nil {
				return err
			}
		}
	}
	region, rows, last := s.PromptRegion()
	if region == nil {
		return nil // this device cannot capture it
	}
	times, err := region.Profile(ctx, b.profile)
	if err != nil {
		return err
	}
	p.Piece = &profile{Depth: t.Depth + t.Tokens - last, Rows: rows, Tokens: b.profile}
	p.Piece.add(times)
	return nil
}

func (b *bench) lookAtPromptOps(ctx context.Context, t test, p *promptProfile) (err error) {
	s, err := b.session(t.Depth + t.Tokens + 1)
	if err != nil {
		return err
	}
	defer closeInto(&err, s)
	prompt, o := b.tokens(t.Depth), generate.Options{MaxTokens: 1, Eager: true}
	if t.Depth > 0 {
		if _, err := s.Generate(ctx, prompt, o); err != nil {
			return err
		}
	}
	stream := s.Stream()
	err = stream.StartTiming()
	if err == nil {
		_, err = s.Generate(ctx, append(prompt, b.tokens(t.Tokens)...), o)
	}
	if err == nil && s.Stream() != stream {
		err = errRestarted
	}
	if err == nil {
		p.Ops = eagerOps(stream.Stats(), 1)
	}
	return err
}
