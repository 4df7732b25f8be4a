package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function1x2(countAnswer)
	register.Function1x1(countFailure)
	register.Function2x1(add)
	register.Function2x0(report)
}

// counts is what became of lines.
type counts struct{ Answered, Failed, PromptTokens, GeneratedTokens int64 }

func countAnswer(line string) (counts, error) {
	var a answer
	err := json.Unmarshal([]byte(line), &a)
	return counts{Answered: 1, PromptTokens: int64(a.PromptTokens), GeneratedTokens: int64(a.GeneratedTokens)}, err
}

func countFailure(string) counts { return counts{Failed: 1} }

func add(a, b counts) counts {
	return counts{a.Answered + b.Answered, a.Failed + b.Failed, a.PromptTokens + b.PromptTokens, a.GeneratedTokens + b.GeneratedTokens}
}

// totals is the namespace of the metrics of all lines.
const totals = namespace + "_total"

// report makes counters of the counts of all lines. The runner has them from one bundle, and so has them whole: Prism may
// lose counters to which several bundles add before it knows their names.
func report(ctx context.Context, c counts) {
	for name, n := range map[string]int64{
		"answered": c.Answered, "failed": c.Failed, "prompt_tokens": c.PromptTokens, "generated_tokens": c.GeneratedTokens,
	} {
		beam.NewCounter(totals, name).Inc(ctx, n)
	}
}

// count counts the lines.
func count(s beam.Scope, answers, failures beam.PCollection) {
	all := beam.Flatten(s, beam.ParDo(s, countAnswer, answers), beam.ParDo(s, countFailure, failures))
	beam.ParDo0(s, report, beam.Combine(s, add, all))
}

// printCounts prints the counts of all lines. Not every runner gives them back.
func printCounts(w io.Writer, result beam.PipelineResult) error {
	if result == nil {
		return nil
	}
	var lines []string
	for _, c := range result.Metrics().AllMetrics().Counters() {
		if c.Namespace() == totals {
			lines = append(lines, fmt.Sprintf("%s %d", c.Name(), c.Result()))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, ", "))
	return err
}
