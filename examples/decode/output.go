package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/llm/generate"
)

// report is what --json prints.
type report struct {
	Model            string                    `json:"model"`
	Device           string                    `json:"device"`
	Backend          string                    `json:"backend"`
	Prompt           string                    `json:"prompt"`
	PromptIDs        []int                     `json:"prompt_ids"`
	GeneratedIDs     []int                     `json:"generated_ids"`
	Text             string                    `json:"text"`
	FinishReason     string                    `json:"finish_reason"`
	LoadSeconds      float64                   `json:"load_seconds"`
	TimeToFirstToken float64                   `json:"time_to_first_token_seconds"`
	PromptRate       float64                   `json:"prompt_tokens_per_second"`
	GenerationRate   float64                   `json:"generation_tokens_per_second"`
	PeakMemoryBytes  int64                     `json:"peak_memory_bytes"`
	Fallbacks        map[string]map[string]int `json:"fallbacks"` // op, reason, count
	Stats            generate.Work             `json:"stats"`     // of the tokens after the first
	PerToken         generate.PerToken         `json:"per_token"` // stats for one token
	// Replaced is how often the device was lost and replaced.
	Replaced int `json:"replaced,omitempty"`
	// Uncaptured is why tokens were not replayed although they should have been.
	Uncaptured string `json:"uncaptured,omitempty"`
}

func (a *app) writeJSON(prompt string, ids []int, r *generate.Result) error {
	stats := a.session.Stats()
	rep := report{
		Model: a.folder.Name(), Device: a.device.Info().Name, Backend: a.device.Backend(),
		Prompt: prompt, PromptIDs: ids, GeneratedIDs: r.IDs, Text: r.Text, FinishReason: r.Finish,
		LoadSeconds: a.loadTime.Seconds(), TimeToFirstToken: stats.FirstToken.Seconds(),
		PromptRate: stats.PromptRate(), GenerationRate: stats.DecodeRate(),
		PeakMemoryBytes: a.device.Stats().PeakBytes,
		Fallbacks:       stats.Fallbacks,
		Stats:           stats.Work,
		PerToken:        stats.Work.PerToken(),
		Replaced:        stats.Replaced,
		Uncaptured:      stats.Uncaptured,
	}
	if rep.GeneratedIDs == nil {
		rep.GeneratedIDs = []int{}
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

// summary is the line after an answer.
func (a *app) summary(prompt int, r *generate.Result) string {
	stats := a.session.Stats()
	parts := []string{
		fmt.Sprintf("%s (%s)", a.device.Info().Name, a.device.Backend()),
		fmt.Sprintf("%d + %d tokens", prompt, len(r.IDs)),
		a.speed(),
	}
	if r.Finish != generate.FinishStop {
		parts = append(parts, "ended: "+r.Finish)
	}
	if stats.Replaced > 0 {
		parts = append(parts, fmt.Sprintf("a lost device was replaced %d times", stats.Replaced))
	}
	if stats.Uncaptured != "" {
		parts = append(parts, "op by op, not replayed: "+oneLine(errors.New(stats.Uncaptured)))
	}
	for op, reasons := range stats.Fallbacks {
		for reason, n := range reasons {
			parts = append(parts, fmt.Sprintf("%s ran %d times on the CPU: %s", op, n, reason))
		}
	}
	return strings.Join(parts, ", ")
}

// speed is how fast the last answer was.
func (a *app) speed() string {
	stats := a.session.Stats()
	return fmt.Sprintf("first token after %s, %.1f tokens/s", stats.FirstToken.Round(time.Millisecond/10), stats.DecodeRate())
}

// oneLine joins the lines of an error that holds several.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
