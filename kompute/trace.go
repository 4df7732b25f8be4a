package kompute

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Trace collects events of host and device for the trace viewers of Chrome
// (about:tracing) and Perfetto. See WithTrace. Its methods may be called from
// any goroutine.
type Trace struct {
	began time.Time

	mu     sync.Mutex
	events []traceEvent
}

// NewTrace returns an empty trace, whose time starts now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// WithTrace makes t collect the events of the device and its streams from Open
// on: on the host each op as it is enqueued, submissions, waits, transfers,
// replays, captures and fallbacks; on the device each dispatch, with its op.
//
// Tracing slows work down: dispatches usually no longer overlap, and replays run one by one while
// the caller waits. All events stay in memory. On a device without timestamps the trace covers only
// the host.
func WithTrace(t *Trace) Option {
	return func(o *options) { o.trace = t }
}

// traceEvent is a complete event of the Trace Event Format; times are in
// microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// The processes of a trace.
const (
	traceHost   = 1
	traceDevice = 2
)

// WriteTo writes the trace as JSON in Chrome's Trace Event Format. Collecting
// may continue.
func (t *Trace) WriteTo(w io.Writer) (int64, error) {
	if t == nil || w == nil {
		return 0, fmt.Errorf("Trace.WriteTo: the trace and the writer must not be nil: %w", ErrInvalid)
	}
	t.mu.Lock()
	text, err := json.Marshal(struct {
		Events []traceEvent `json:"traceEvents"`
		Unit   string       `json:"displayTimeUnit"`
	}{append(t.names(), t.events...), "ns"})
	t.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("%w: a trace: %v", ErrInternal, err)
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}

// names returns the events that name processes and tracks. t.mu is held.
func (t *Trace) names() []traceEvent {
	out := []traceEvent{
		{Name: "process_name", Phase: "M", Process: traceHost, Args: map[string]any{"name": "host"}},
		{Name: "process_name", Phase: "M", Process: traceDevice, Args: map[string]any{"name": "device"}},
	}
	seen := map[[2]int]bool{}
	for _, e := range t.events {
		track := [2]int{e.Process, e.Thread}
		if seen[track] {
			continue
		}
		seen[track] = true
		name := fmt.Sprintf("stream %d", e.Thread)
		if e.Thread == 0 {
			name = "downloads"
		}
		out = append(out, traceEvent{Name: "thread_name", Phase: "M", Process: e.Process, Thread: e.Thread, Args: map[string]any{"name": name}})
	}
	return out
}

// add adds an event.
func (t *Trace) add(e traceEvent, start, end time.Time) {
	e.Phase = "X"
	e.Start = float64(start.Sub(t.began)) / 1e3
	e.Duration = float64(end.Sub(start)) / 1e3
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// onHost starts an event on the stream's host track; the returned function ends
// it. Without a trace both do nothing.
func (s *Stream) onHost(category, name string, args ...any) func() {
	t := s.dev.opts.trace
	if t == nil {
		return func() {}
	}
	start := time.Now()
	return func() {
		t.add(traceEvent{Name: name, Category: category, Process: traceHost, Thread: s.number, Args: traceArgs(args)}, start, time.Now())
	}
}

// traceArgs makes a map of alternating keys and values.
func traceArgs(args []any) map[string]any {
	if len(args) == 0 {
		return nil
	}
	out := make(map[string]any, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		out[fmt.Sprint(args[i])] = args[i+1]
	}
	return out
}

// onDevice adds a dispatch.
func (s *Stream) onDevice(op, kernel string, at span) {
	t, clock := s.dev.opts.trace, s.dev.clock
	t.add(traceEvent{
		Name: kernel, Category: op, Process: traceDevice, Thread: s.number, Args: map[string]any{"op": op},
	}, clock.time(at.start), clock.time(at.end))
}

// clock converts times of a clock that counts nanoseconds to Go's.
type clock struct {
	at time.Time
	ns uint64 // at that time
}

func (c clock) time(ns uint64) time.Time { return c.at.Add(time.Duration(int64(ns - c.ns))) }

var processStart = time.Now()

// processClock is the clock of the CPU backend: nanoseconds since the program started.
func processClock() uint64 { return uint64(time.Since(processStart)) }
