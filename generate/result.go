package generate

import (
	"time"

	"github.com/kompute-go/kompute-go/kompute"
)

// The reasons why a generation ends.
const (
	FinishStop      = "stop"      // the model ended its turn
	FinishLength    = "length"    // the limit of tokens, or the end of the context
	FinishCancelled = "cancelled" // the context was cancelled
)

// Result is what a generation gave.
type Result struct {
	IDs    []int  // generated tokens, with the one that ended the turn
	Text   string // their text, without special tokens
	Finish string // FinishStop, FinishLength or FinishCancelled
	// Fed is how many tokens of the prompt were not in the cache yet.
	Fed int
	// FirstToken is the time from the start to the first token; the whole prompt
	// is read in it. Decode is the time from there to the last token.
	FirstToken, Decode time.Duration
	// Work is what the stream did for the tokens after the first.
	Work Work
	// Fallbacks counts ops that ran on the CPU though the device is another, by
	// op and reason.
	Fallbacks map[string]map[string]int
}

// Work counts what the stream did for the tokens after the first.
type Work struct {
	Tokens           int    `json:"tokens"`
	Ops              uint64 `json:"ops"`
	Dispatches       uint64 `json:"dispatches"`
	Barriers         uint64 `json:"barriers"`
	Submits          uint64 `json:"submits"`
	DescriptorWrites uint64 `json:"descriptor_writes"`
	RecordedCommands uint64 `json:"recorded_commands"`
	HostNanos        int64  `json:"host_ns"` // time the host took to record and submit
}

// work returns what happened between two readings of a stream's counters.
func work(before, after kompute.StreamStats, tokens int) Work {
	return Work{
		Tokens:           max(tokens, 0),
		Ops:              after.Ops - before.Ops,
		Dispatches:       after.Dispatches - before.Dispatches,
		Barriers:         after.Barriers - before.Barriers,
		Submits:          after.Submits - before.Submits,
		DescriptorWrites: after.DescriptorWrites - before.DescriptorWrites,
		RecordedCommands: after.RecordedCommands - before.RecordedCommands,
		HostNanos:        (after.RecordTime - before.RecordTime + after.SubmitTime - before.SubmitTime).Nanoseconds(),
	}
}

// fallbacks returns the counts that grew between two readings, and by how much.
func fallbacks(before, after kompute.StreamStats) map[string]map[string]int {
	grown := map[string]map[string]int{}
	for op, reasons := range after.Fallbacks {
		for reason, n := range reasons {
			if n -= before.Fallbacks[op][reason]; n == 0 {
				continue
			}
			if grown[op] == nil {
				grown[op] = map[string]int{}
			}
			grown[op][reason] = n
		}
	}
	return grown
}

// PromptRate returns tokens of the prompt per second.
func (r *Result) PromptRate() float64 { return rate(r.Fed, r.FirstToken) }

// DecodeRate returns tokens per second after the first.
func (r *Result) DecodeRate() float64 { return rate(len(r.IDs)-1, r.Decode) }

func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
