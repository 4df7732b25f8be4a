package testmodel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// Case is one golden run of the demo model, greedy, in float32.
type Case struct {
	Prompt       string  `json:"prompt"`
	Rendered     string  `json:"rendered"`
	PromptIDs    []int   `json:"prompt_ids"`
	GeneratedIDs []int   `json:"generated_ids"`
	Text         string  `json:"text"`
	Margin       float64 `json:"smallest_top2_margin"`
}

// Goldens returns the golden cases of the demo model, and the file with their
// hidden states and logits.
func Goldens(t testing.TB) ([]Case, *checkpoint.File) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "../../llm/demomodel/mote-4bit/goldens")
	data, err := os.ReadFile(filepath.Join(dir, "goldens.json"))
	require.NoError(t, err)
	var all struct {
		Cases []Case `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(data, &all))
	require.NotEmpty(t, all.Cases)
	f, err := checkpoint.OpenFile(filepath.Join(dir, "goldens.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return all.Cases, f
}

// Golden returns the values of one golden tensor.
func Golden(t testing.TB, f *checkpoint.File, name string) []float32 {
	t.Helper()
	g, ok := f.Tensor(name)
	require.True(t, ok, name)
	v, err := g.Floats()
	require.NoError(t, err)
	return v
}
