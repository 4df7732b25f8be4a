package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
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

// check rejects options that cannot be measured, before any work.
func (o *options) check() error {
	switch {
	case o.reps < 1:
		return fmt.Errorf("--repetitions: %d is less than 1", o.reps)
	case o.window < 0:
		return fmt.Errorf("--window: %d is less than 0", o.window)
	case o.profile < 0:
		return fmt.Errorf("--profile: %d is less than 0", o.profile)
	case len(o.threads) > 0 && o.device != "cpu":
		return errors.New("--threads requires --device cpu")
	case len(o.threads) > 0 && (slices.Min(o.threads) < 1 || slices.Max(o.threads) > runtime.NumCPU()):
		return fmt.Errorf("--threads: want 1 to %d on this machine", runtime.NumCPU())
	case len(o.batch) > 0 && (len(o.prompts) != 1 || len(o.gens) != 1 || o.prompts[0] < 1 || o.gens[0] < 2):
		return errors.New("--batch: one length of prompts, and one number of at least 2 tokens")
	case len(o.batch) > 0 && (len(o.threads) > 0 || o.eager || slices.Max(o.depths) > 0):
		return errors.New("--batch excludes --threads, --eager and --n-depth")
	case len(o.batch) == 0 && (o.draft != 0 || o.chunk != 0 || o.context != 0 || o.textFile != "" || strings.Contains(o.device, ",")):
		return errors.New("--draft, --chunk, --context, --text and several devices need --batch")
	case o.draft < 0 || o.chunk < 0 || o.context < 0:
		return fmt.Errorf("--draft %d, --chunk %d or --context %d is negative", o.draft, o.chunk, o.context)
	case max(o.draft, o.chunk, o.context) > math.MaxInt32:
		return fmt.Errorf("--draft %d, --chunk %d or --context %d is more than %d",
			o.draft, o.chunk, o.context, math.MaxInt32)
	case o.eager && o.region:
		return errors.New("--eager and --region: leave both out to measure both")
	}
	return errors.Join(o.sampling.Validate(), o.checkPlot())
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
	return nil
}
