package testmodel

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Fixture is a loaded model with a stream and a state.
type Fixture struct {
	T      *testing.T
	Model  model.Model
	Stream *kompute.Stream
	State  model.DecodeState
}

// NewFixture loads a checkpoint, with a state for capacity tokens.
func NewFixture(t *testing.T, d *kompute.Device, c *checkpoint.Checkpoint, o model.Options, capacity int) *Fixture {
	t.Helper()
	m, err := model.Load(t.Context(), d, c, o)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	state, err := m.NewState(capacity)
	require.NoError(t, err)
	return &Fixture{T: t, Model: m, Stream: s, State: state}
}

// Close frees all of it.
func (f *Fixture) Close() {
	require.NoError(f.T, f.State.Close())
	require.NoError(f.T, f.Stream.Close())
	require.NoError(f.T, f.Model.Close())
}

// RequireGolden compares the logits of a golden case to those in the file: of its prompt, or of as many of its last tokens
// as the file has, and, if the file has them, of each step of its greedy continuation.
func (f *Fixture) RequireGolden(file *checkpoint.File, number int, prompt, generated []int) {
	f.T.Helper()
	require.NoError(f.T, f.State.Truncate(0))
	what := fmt.Sprintf("case%d.prompt_logits", number)
	want, got := Golden(f.T, file, what), f.Logits(model.AllRows, Unsigned(prompt)...)
	RequireClose(f.T, want, got[len(got)-len(want):], 1e-3, what)
	what = fmt.Sprintf("case%d.step_logits", number)
	if _, ok := file.Tensor(what); !ok {
		return
	}
	want, vocabulary := Golden(f.T, file, what), f.Model.Limits().Vocabulary
	// The first row is the prompt's last one; each further row follows a token.
	for step, id := range generated[:len(generated)-1] {
		row := want[(step+1)*vocabulary:][:vocabulary]
		RequireClose(f.T, row, f.Logits(model.LastRow, uint32(id)), 1e-3, fmt.Sprintf("%s, step %d", what, step+1))
	}
}

// Logits runs one pass and returns rows x V numbers.
func (f *Fixture) Logits(rows model.Rows, ids ...uint32) []float32 {
	f.T.Helper()
	sc := f.Stream.Scope()
	defer sc.Close()
	tokens, err := kompute.New(f.Model.Device(), ids, 1, len(ids))
	require.NoError(f.T, err)
	defer tokens.Close()
	out, err := f.Model.Forward(f.Stream, model.Pass{Tokens: tokens, State: f.State, Rows: rows}).Read(f.T.Context())
	require.NoError(f.T, err)
	return out
}

// OpenMote opens the demo model's checkpoint.
func OpenMote(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Open writes a checkpoint to a temporary folder and opens it.
func (s Spec) Open(t *testing.T) (*checkpoint.Checkpoint, Weights) {
	t.Helper()
	dir := t.TempDir()
	w := s.Write(t, dir)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, w
}

// Unsigned returns token ids as the device takes them.
func Unsigned(ids []int) []uint32 {
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out
}

// RequireClose bounds the largest difference by tolerance times the largest
// magnitude that is expected.
func RequireClose(t *testing.T, want, got []float32, tolerance float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	largest, worst, at := 0.0, 0.0, 0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		if d := math.Abs(float64(want[i]) - float64(got[i])); !(d <= worst) {
			worst, at = d, i
		}
	}
	require.LessOrEqual(t, worst, tolerance*largest, "%s: element %d is %v, want %v", what, at, got[at], want[at])
}

// RequireReference compares the logits of a model of this shape to the formulas
// in float64: a prompt in two parts, then token by token.
func (s Spec) RequireReference(t *testing.T, ids []uint32) {
	t.Helper()
	c, weights := s.Open(t)
	var want []float32
	for _, row := range s.Logits(weights, ids) {
		for _, v := range row {
			want = append(want, float32(v))
		}
	}
	EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := NewFixture(t, d, c, model.Options{DType: array.Float32}, len(ids))
		defer f.Close()
		got := f.Logits(model.AllRows, ids[:4]...)
		for _, id := range ids[4:] {
			got = append(got, f.Logits(model.LastRow, id)...)
		}
		RequireClose(t, want, got, 1e-4, "logits")
	})
}
