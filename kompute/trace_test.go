package kompute

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// readTrace writes a trace and reads it back.
func readTrace(t *testing.T, trace *Trace) (host, device []traceEvent) {
	var text bytes.Buffer
	n, err := trace.WriteTo(&text)
	require.NoError(t, err)
	require.EqualValues(t, text.Len(), n)
	var file struct {
		Events []traceEvent `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &file))
	for _, e := range file.Events {
		switch {
		case e.Phase == "M":
			require.NotEmpty(t, e.Args["name"])
		case e.Process == traceHost:
			host = append(host, e)
		default:
			device = append(device, e)
		}
	}
	return host, device
}

func countEvents(events []traceEvent, category, name string) (n int) {
	for _, e := range events {
		if e.Category == category && (name == "" || e.Name == name) {
			n++
		}
	}
	return n
}

// A trace has the host's events and each dispatch, in order and at plausible times.
func TestTraceHasHostAndDevice(t *testing.T) {
	trace := NewTrace()
	onDevices(t, func(t *testing.T, d *Device) {
		from := len(trace.events) // of the devices before
		s := newStream(t, d)
		x, state := tensor(t, d, upTo(3)), tensor(t, d, make([]float32, 3))
		began := time.Since(trace.began)
		for range 3 {
			runInto(s, "copy", state, x)
		}
		if d.Backend() == "cpu" { // so that Synchronize finds something to wait for
			s.Enqueue(Op{Name: "sleep", CPU: func([]array.Array, []byte) error { time.Sleep(20 * time.Millisecond); return nil }})
		}
		require.NoError(t, s.Synchronize(bg))
		r := captureTest(t, s, func(s *Stream) { closing(t, step(s, x, state)) })
		replay(t, r)
		require.NoError(t, r.ReplayN(bg, 2))
		require.Equal(t, []float32{0, 4, 8}, read(t, state))
		ended := time.Since(trace.began)

		host, device := readTrace(t, &Trace{began: trace.began, events: trace.events[from:]})
		copies := makeOp("copy").Name
		require.GreaterOrEqual(t, countEvents(host, "enqueue", copies), 3)
		require.Equal(t, 1, countEvents(host, "capture", ""))
		require.Equal(t, 2, countEvents(host, "replay", ""))
		require.Positive(t, countEvents(host, "submit", ""))
		require.Positive(t, countEvents(host, "wait", ""))
		dispatches := int(r.Stats().Dispatches)
		require.Equal(t, 3+3*countCopies(t, r), countEvents(device, copies, ""))
		last := map[int]float64{}
		for _, e := range device {
			if e.Category == "transfer" {
				continue
			}
			require.Positive(t, e.Duration)
			require.GreaterOrEqual(t, e.Start, float64(began.Microseconds())-1)
			require.LessOrEqual(t, e.Start+e.Duration, float64(ended.Microseconds())+1)
			require.GreaterOrEqual(t, e.Start+0.01, last[e.Thread], "a stream is in order")
			last[e.Thread] = e.Start + e.Duration
		}
		require.GreaterOrEqual(t, len(device), 3+3*dispatches)
	}, WithTrace(trace))
}

func countCopies(t *testing.T, r *Region) (n int) {
	described, err := r.Describe()
	require.NoError(t, err)
	for _, d := range described.Dispatches {
		if described.Ops[d.OpIndex].Name == "copy" {
			n++
		}
	}
	return n
}

// Times that streams measured stay in the device's sums after they are closed.
func TestDeviceAddsUpOpTimes(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x, y := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		name := makeOp("copy").Name
		for i := range 2 {
			s := newStream(t, d)
			runInto(s, "copy", y, x)
			runInto(s, "copy", y, x)
			require.NoError(t, s.Synchronize(bg))
			require.Positive(t, s.Stats().OpTimes[name].Host)
			if i == 0 {
				require.NoError(t, s.Close())
			}
		}
		sum := d.Stats().OpTimes[name]
		require.Positive(t, sum.Host)
		require.EqualValues(t, 4, sum.Calls)
		require.Positive(t, sum.Time)
	}, WithOpTimes())
}

// So do waits and fallbacks.
func TestDeviceAddsUpWhatStreamsDid(t *testing.T) {
	d := vulkanOrSkip(t)
	x, y := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
	for i := range 2 {
		s := newStream(t, d)
		s.Enqueue(Op{Name: "only_on_the_cpu", Args: []Arg{In(x.View()), InOut(y.View())}, CPU: testOps["neg"]})
		require.NoError(t, s.Synchronize(bg))
		require.EqualValues(t, 1, s.Stats().Waits)
		if i == 0 {
			require.NoError(t, s.Close())
		}
	}
	sum := d.Stats()
	require.EqualValues(t, 2, sum.Waits)
	require.Equal(t, map[string]map[string]int{"only_on_the_cpu": {"no native kernel": 2}}, sum.Fallbacks)
	require.Equal(t, sum, d.Stats(), "asking changes nothing")
}

// Content that is already where it is needed is a hit; content that must be copied is a miss.
func TestCacheHitsAndMisses(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	x, y := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
	runInto(s, "copy", y, x) // both are uploaded
	require.EqualValues(t, 2, d.Stats().CacheMisses)
	require.Zero(t, d.Stats().CacheHits)
	runInto(s, "copy", y, x)
	require.EqualValues(t, 2, d.Stats().CacheHits)
	read(t, y)
	require.EqualValues(t, 3, d.Stats().CacheMisses)
	read(t, y)
	require.EqualValues(t, 3, d.Stats().CacheHits)
	require.EqualValues(t, 3, d.Stats().CacheMisses)
}
