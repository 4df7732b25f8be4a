package generate

import (
	"time"

	"github.com/kompute-go/kompute-go/kompute"
)

// Stats are the costs of a generation, for programs that measure.
type Stats struct {
	// Fed is how many tokens of the prompt the state did not hold yet.
	Fed int
	// FirstToken is the time from the start to the first token, which includes
	// processing the prompt. Decode is the time from then to the last token. If the
	// device was replaced, or there was no memory for the prompt at once, Decode and Work
	// begin with the first token after that.
	FirstToken, Decode time.Duration
	// Work counts what the stream did for the tokens after the first.
	Work Work
	// Replaced is how often the device was lost and replaced.
	Replaced int
	// Fallbacks counts ops that ran on the CPU instead of the device, by op and
	// reason.
	Fallbacks map[string]map[string]int
	// Uncaptured is why tokens were enqueued op by op instead of replaying a
	// region; "" if they were not.
	Uncaptured string
}

// Stats returns what the last generation cost; zero before the first.
func (s *Session) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	return s.stats
}

// PromptRate returns tokens of the prompt per second.
func (s Stats) PromptRate() float64 { return rate(s.Fed, s.FirstToken) }

// DecodeRate returns tokens per second after the first.
func (s Stats) DecodeRate() float64 { return rate(s.Work.Tokens, s.Decode) }

func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Work counts what the stream did for the tokens after the first.
type Work struct {
	Tokens           int    `json:"tokens"`
	Replays          uint64 `json:"replays"` // of the region: including those past the end of the turn; 0 if eager
	Ops              uint64 `json:"ops"`
	Dispatches       uint64 `json:"dispatches"`
	Barriers         uint64 `json:"barriers"`
	Submits          uint64 `json:"submits"`
	DescriptorWrites uint64 `json:"descriptor_writes"`
	RecordedCommands uint64 `json:"recorded_commands"`
	Allocations      uint64 `json:"allocations"` // of device memory and pools
	// IdleWaits counts how often the host waited for a token while the device had
	// no further work: once per token if eager, never with replays.
	IdleWaits    uint64 `json:"idle_waits"`
	HostNanos    int64  `json:"host_ns"`    // time the host took to record and submit
	EnqueueNanos int64  `json:"enqueue_ns"` // time the host took to enqueue, with what HostNanos counts
}

// PerToken is [Work] divided by the number of tokens that the device computed,
// including those past the end of the turn, which the host noticed too late.
type PerToken struct {
	Submits          float64 `json:"submits"`
	Dispatches       float64 `json:"dispatches"`
	Barriers         float64 `json:"barriers"`
	DescriptorWrites float64 `json:"descriptor_writes"`
	RecordedCommands float64 `json:"recorded_commands"`
	Allocations      float64 `json:"allocations"`
	HostEnqueueNanos float64 `json:"host_enqueue_ns"`
}

// PerToken returns the work for one token; zeros if there was none.
func (w Work) PerToken() PerToken {
	n := max(float64(w.Replays), float64(w.Tokens), 1)
	return PerToken{
		Submits:          float64(w.Submits) / n,
		Dispatches:       float64(w.Dispatches) / n,
		Barriers:         float64(w.Barriers) / n,
		DescriptorWrites: float64(w.DescriptorWrites) / n,
		RecordedCommands: float64(w.RecordedCommands) / n,
		Allocations:      float64(w.Allocations) / n,
		HostEnqueueNanos: float64(w.EnqueueNanos) / n,
	}
}

// meter takes the readings of one generation.
type meter struct {
	session   *Session
	start     time.Time
	before    kompute.StreamStats       // when this stream's fallbacks were last counted
	fallbacks map[string]map[string]int // on all streams, until before
	first     time.Time                 // when the first token was there; zero: not yet
	from      time.Time                 // when this stream's first token was there
	after     counters                  // then
	earlier   int                       // number of tokens up to then
	fed       int
	enqueue   time.Duration // host time to enqueue tokens
	idle      uint64        // waits for a token while the device had no other work
	// why tokens are not replayed although they should be; nil: they are
	uncaptured error
	replaced   int
}

// counters is a reading of everything that Work counts.
type counters struct {
	kompute.StreamStats
	allocations uint64
	enqueue     time.Duration
	idle        uint64
}

func (s *Session) newMeter() *meter {
	return &meter{session: s, start: time.Now(), before: s.stream.Stats(), fallbacks: map[string]map[string]int{}}
}

// firstToken notes that the first token of this stream is there, the one with this
// number.
func (m *meter) firstToken(number int) {
	m.from, m.after, m.earlier = time.Now(), m.counters(), number
	if m.first.IsZero() {
		m.first = m.from
	}
}

// leave counts the fallbacks on this stream, since the session may get another one.
func (m *meter) leave() {
	now := m.session.stream.Stats()
	countFallbacks(m.fallbacks, m.before, now)
	m.before = now
}

// moved starts again with another device's stream.
func (m *meter) moved() {
	m.replaced++
	m.restarted()
}

// restarted starts again with another stream.
func (m *meter) restarted() { m.before, m.from = m.session.stream.Stats(), time.Time{} }

func (m *meter) counters() counters {
	return counters{m.session.stream.Stats(), m.session.model.Device().Stats().Allocations, m.enqueue, m.idle}
}

// stats returns the costs of a generation of that many tokens.
func (m *meter) stats(tokens int) Stats {
	now := m.counters()
	m.leave()
	out := Stats{Fed: m.fed, Replaced: m.replaced, Fallbacks: m.fallbacks}
	if m.uncaptured != nil {
		out.Uncaptured = m.uncaptured.Error()
	}
	if !m.first.IsZero() {
		out.FirstToken = m.first.Sub(m.start)
	}
	if !m.from.IsZero() {
		out.Decode = time.Since(m.from)
		out.Work = work(m.after, now, tokens-m.earlier)
	}
	return out
}

// work returns what happened between two readings.
func work(before, after counters, tokens int) Work {
	return Work{
		Tokens:           max(tokens, 0),
		Replays:          after.Replays - before.Replays,
		Allocations:      after.allocations - before.allocations,
		IdleWaits:        after.idle - before.idle,
		EnqueueNanos:     (after.enqueue - before.enqueue).Nanoseconds(),
		Ops:              after.Ops - before.Ops,
		Dispatches:       after.Dispatches - before.Dispatches,
		Barriers:         after.Barriers - before.Barriers,
		Submits:          after.Submits - before.Submits,
		DescriptorWrites: after.DescriptorWrites - before.DescriptorWrites,
		RecordedCommands: after.RecordedCommands - before.RecordedCommands,
		HostNanos:        (after.RecordTime - before.RecordTime + after.SubmitTime - before.SubmitTime).Nanoseconds(),
	}
}

// countFallbacks adds by how much counts grew between two readings.
func countFallbacks(sum map[string]map[string]int, before, after kompute.StreamStats) {
	for op, reasons := range after.Fallbacks {
		for reason, n := range reasons {
			if n -= before.Fallbacks[op][reason]; n == 0 {
				continue
			}
			if sum[op] == nil {
				sum[op] = map[string]int{}
			}
			sum[op][reason] += n
		}
	}
}
