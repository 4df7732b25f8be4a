//go:build cgo && !nogpu

package faulttest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
)

// known maps errors to the name of an outcome. ErrInternal is deliberately missing.
var known = []struct {
	err  error
	name string
}{
	{kompute.ErrOutOfMemory, "out of memory"},
	{kompute.ErrDeviceLost, "device lost"},
	{kompute.ErrNoVulkan, "no Vulkan"},
	{kompute.ErrNoDevice, "no device"},
	{kompute.ErrUnsupported, "not supported"},
	{kompute.ErrDriver, "driver error"},
}

// outcome names the error of a fault.
func outcome(err error) (string, error) {
	if err == nil {
		return "right", nil
	}
	if errors.Is(err, kompute.ErrInternal) || errors.Is(err, errWrong) {
		return "", err
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return k.name, nil
		}
	}
	return "", fmt.Errorf("an error of no kind: %w", err)
}

// A table of the outcomes of faults.
type table map[string]map[string]int

func (t table) add(function, outcome string) {
	if t[function] == nil {
		t[function] = make(map[string]int)
	}
	t[function][outcome]++
}

func (t table) String() string {
	seen := make(map[string]bool)
	for _, row := range t {
		for outcome := range row {
			seen[outcome] = true
		}
	}
	columns := slices.Sorted(maps.Keys(seen))
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "function\t%s\t\n", strings.Join(columns, "\t"))
	for _, function := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(w, "%s\t", function)
		for _, column := range columns {
			fmt.Fprintf(w, "%d\t", t[function][column])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return b.String()
}

// report logs the table, and writes it to the file that the environment names.
func report(t *testing.T) {
	t.Logf("faults by function and outcome:\n%v", seen)
	if path := os.Getenv("KOMPUTE_GO_FAULTS_TABLE"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(seen.String()), 0o644))
	}
}
