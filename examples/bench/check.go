package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/ops/optest"
)

// checkIgnored rejects flags that would have no effect beside others.
func (o *options) checkIgnored(given map[string]bool) error {
	beside := func(what string, names ...string) error {
		for _, name := range names {
			if given[name] {
				return fmt.Errorf("%s excludes --%s", what, name)
			}
		}
		return nil
	}
	if o.ops == "" && o.sampling.Temperature == 0 {
		for _, name := range []string{"top-p", "top-k", "min-p"} {
			if given[name] {
				return fmt.Errorf("--%s requires a --temp above 0; without it, the likeliest token is taken", name)
			}
		}
	}
	switch {
	case o.ops != "":
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if !slices.Contains([]string{"ops", "sizes", "rows", "device", "json", "plot"}, name) {
				if len(name) > 1 {
					name = "-" + name
				}
				return fmt.Errorf("--ops excludes -%s", name)
			}
		}
		if given["rows"] && o.opNames != nil && !slices.ContainsFunc(o.opNames, optest.TakesRows) {
			return fmt.Errorf("--rows has no effect on %s, only on quantized products", o.ops)
		}
		return nil
	case given["sizes"] || given["rows"]:
		return errors.New("--sizes and --rows require --ops")
	case len(o.batch) == 0 && len(o.tests()) == 0:
		return errors.New("--n-prompt and --n-gen: nothing to measure, as both are 0")
	case o.model != "":
		return beside("--model", "shape", "packing", "out")
	case o.shape == "demo":
		return beside("--shape demo", "packing", "out")
	}
	return nil
}

// The largest values of flags.
const (
	mostRepetitions = 1 << 16
	mostProfiled    = 1 << 16 // kompute.Region.Profile's
	mostSequences   = 1 << 14 // an engine's
)

// checkRange rejects a value of a flag.
func checkRange(flagName string, value, least, most int) error {
	switch {
	case value < least:
		return fmt.Errorf("--%s: %d is less than %d", flagName, value, least)
	case value > most:
		return fmt.Errorf("--%s: %d is more than %d", flagName, value, most)
	}
	return nil
}

// check rejects options that cannot be measured, before any work.
func (o *options) check() error {
	if err := errors.Join(
		checkRange("repetitions", o.reps, 1, mostRepetitions), checkRange("profile", o.profile, 0, mostProfiled),
		checkRange("window", o.window, 0, math.MaxInt32), checkRange("draft", o.draft, 0, math.MaxInt32),
		checkRange("chunk", o.chunk, 0, math.MaxInt32), checkRange("context", o.context, 0, math.MaxInt32),
		checkRange("special-clients", o.special, 0, math.MaxInt32),
	); err != nil {
		return err
	}
	switch {
	case strings.Contains(o.device, ",") && slices.Contains(strings.Split(o.device, ","), ""): // which would be auto
		return errors.New("--device: a device without a name")
	case len(o.threads) > 0 && o.device != "cpu":
		return errors.New("--threads requires --device cpu")
	case len(o.threads) > 0 && (slices.Min(o.threads) < 1 || slices.Max(o.threads) > runtime.NumCPU()):
		return fmt.Errorf("--threads: want 1 to %d on this machine", runtime.NumCPU())
	case len(o.batch) > 0 && (len(o.prompts) != 1 || len(o.gens) != 1 || o.prompts[0] < 1 || o.gens[0] < 2):
		return errors.New("--batch: one length of prompts, and one number of at least 2 tokens")
	case len(o.batch) > 0 && (len(o.threads) > 0 || o.eager || o.region || slices.Max(o.depths) > 0):
		return errors.New("--batch excludes --threads, --eager, --region and --n-depth")
	case len(o.batch) == 0 && (o.draft != 0 || o.chunk != 0 || o.context != 0 || o.textFile != "" || o.batchInvariant || o.chooses() || strings.Contains(o.device, ",")):
		return errors.New("--draft, --chunk, --context, --text, penalties, --logprobs, --schema, --batch-invariance and several devices need --batch")
	case o.batchInvariant && o.batchVariant:
		return errors.New("--batch-invariance and --no-batch-invariance exclude each other")
	case len(o.batch) > 0 && slices.Max(o.batch) > mostSequences/(1+o.draft):
		return fmt.Errorf("--batch: %d clients with --draft %d are more than %d rows of a step", slices.Max(o.batch), o.draft, mostSequences)
	case !(o.repetition >= 1e-30 && o.repetition <= math.MaxFloat32):
		return fmt.Errorf("--repetition-penalty: want a number of at least 1e-30 that a float32 can hold, not %v", o.repetition)
	case !(math.Abs(o.presence) <= math.MaxFloat32 && math.Abs(o.frequency) <= math.MaxFloat32):
		return errors.New("--presence-penalty and --frequency-penalty: want numbers that a float32 can hold")
	case o.special > 0 && !o.chooses():
		return errors.New("--special-clients needs penalties, --logprobs or --schema")
	case o.eager && o.region:
		return errors.New("--eager and --region: leave both out to measure both")
	}
	return errors.Join(o.sampling.Validate(), o.checkPlot())
}

// chooses reports whether tokens are chosen by more than --temp and filters.
func (o *options) chooses() bool {
	return o.repetition != 1 || o.presence != 0 || o.frequency != 0 || o.logprobs || o.schemaFile != ""
}

// checkContext rejects tests that the model has no room for: they would fail only when their turn comes, or measure
// fewer tokens than they are named for.
func (o *options) checkContext(limit int) error {
	for _, t := range o.tests() {
		need := t.Depth + t.Tokens
		if t.Mode != modePrompt {
			need = max(t.Depth, 1) + t.Tokens // something is read before the first token is made
		}
		if need > limit {
			return fmt.Errorf("%s: %d tokens exceed the model's context of %d", t.Name, need, limit)
		}
	}
	if len(o.batch) > 0 && o.prompts[0]+o.gens[0] > limit {
		return fmt.Errorf("--batch: prompts of %d and answers of %d tokens exceed the model's context of %d", o.prompts[0], o.gens[0], limit)
	}
	if o.context > limit {
		return fmt.Errorf("--context: %d tokens exceed the model's context of %d", o.context, limit)
	}
	return nil
}
