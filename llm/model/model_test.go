package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	_ "github.com/kompute-go/kompute-go/llm/llama"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	_ "github.com/kompute-go/kompute-go/llm/qwen3"
)

// With 16-bit activations the logits are those of float32 except for rounding.
func TestNarrowActivations(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := testmodel.OpenMote(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for dtype, tolerance := range map[array.DType]float64{array.BFloat16: 0.06, array.Float16: 0.01} {
			f := testmodel.NewFixture(t, d, c, model.Options{DType: dtype}, 64)
			require.Equal(t, dtype, f.Model.DType())
			got := f.Logits(model.AllRows, testmodel.Unsigned(cases[0].PromptIDs)...)
			testmodel.RequireClose(t, testmodel.Golden(t, file, "case0.prompt_logits"), got, tolerance, dtype.String())
			f.Close()
		}
	})
}

func TestDTypeAuto(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	dense := testmodel.Small()
	dense.Packing = checkpoint.Packing{}
	for want, spec := range map[array.DType]testmodel.Spec{array.Float32: testmodel.Small(), array.BFloat16: dense} {
		c, _ := spec.Open(t)
		m, err := model.Load(t.Context(), d, c, model.Options{})
		require.NoError(t, err)
		require.Equal(t, want, m.DType())
		require.Positive(t, m.Bytes())
		require.NoError(t, m.Close())
	}
}

// The same pass serves every position when the device knows the position.
func TestPositionOnDevice(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	ids := []uint32{5, 17, 94, 0, 3}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, 64)
		defer f.Close()
		var want [][]float32
		for _, id := range ids {
			want = append(want, f.Logits(model.LastRow, id))
		}
		cursor, err := nn.NewCursor(d)
		require.NoError(t, err)
		defer cursor.Close()
		step := func(id uint32, position int32) []float32 {
			sc := f.Stream.Scope()
			defer sc.Close()
			tokens, err := kompute.New(d, []uint32{id}, 1, 1)
			require.NoError(t, err)
			defer tokens.Close()
			cursor.Load(f.Stream)
			logits := f.Model.Forward(f.Stream, model.Pass{Tokens: tokens, State: f.State, At: cursor})
			cursor.Advance(f.Stream)
			got, err := logits.Read(t.Context())
			require.NoError(t, err)
			view := cursor.Position()
			defer view.Close()
			at, err := view.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int32{position}, at)
			return got
		}
		for i, id := range ids {
			testmodel.RequireClose(t, want[i], step(id, int32(i)), 1e-5, fmt.Sprintf("step %d", i))
		}
		require.Len(t, ids, f.State.Len(), "passes at a cursor count nothing")
		cursor.Set(f.Stream, 2)
		testmodel.RequireClose(t, want[2], step(ids[2], 2), 1e-5, "step 2 again")
		testmodel.RequireClose(t, want[3], step(ids[3], 3), 1e-5, "step 3 again")
	})
}

func TestState(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, 1)
		defer f.Close()
		require.Equal(t, 256, f.State.Capacity())
		whole := f.Logits(model.AllRows, 1, 2, 3, 4)
		require.Equal(t, 4, f.State.Len())
		require.NoError(t, f.State.Truncate(2))
		require.NoError(t, f.State.Reserve(f.Stream, 300))
		require.Equal(t, 512, f.State.Capacity())
		got := f.Logits(model.AllRows, 3, 4)
		testmodel.RequireClose(t, whole[len(whole)/2:], got, 1e-5, "after truncating and growing")

		require.ErrorIs(t, f.State.Truncate(5), nn.ErrCache)
		require.ErrorIs(t, f.State.Truncate(-1), nn.ErrCache)
		require.ErrorIs(t, f.State.Reserve(f.Stream, 513), nn.ErrCache)
		for _, n := range []int{0, -1, 513} {
			_, err := f.Model.NewState(n)
			require.ErrorIs(t, err, nn.ErrCache)
		}
	})
}

// A pass that cannot be made poisons the stream with a typed error.
func TestBadPasses(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	m, err := model.Load(t.Context(), d, c, model.Options{})
	require.NoError(t, err)
	defer m.Close()
	half, err := model.Load(t.Context(), d, c, model.Options{DType: array.Float16})
	require.NoError(t, err)
	defer half.Close()
	tokens, err := kompute.New(d, make([]uint32, 300), 1, 300)
	require.NoError(t, err)
	defer tokens.Close()
	cursor, err := nn.NewCursor(d)
	require.NoError(t, err)
	defer cursor.Close()
	state := func(m model.Model) model.DecodeState {
		s, err := m.NewState(1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	closed, small, other := state(m), state(m), state(half)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		pass model.Pass
		want error
	}{
		"nil state":        {model.Pass{Tokens: tokens}, nn.ErrCache},
		"closed state":     {model.Pass{Tokens: tokens, State: closed}, nn.ErrCache},
		"full state":       {model.Pass{Tokens: tokens, State: small}, nn.ErrCache},
		"other model":      {model.Pass{Tokens: tokens, State: other}, nn.ErrCache},
		"unknown rows":     {model.Pass{Tokens: tokens, State: small, Rows: 9}, kompute.ErrInvalid},
		"no tokens":        {model.Pass{State: small}, kompute.ErrShape},
		"one axis":         {model.Pass{Tokens: tokens.Reshape(300), State: small}, kompute.ErrShape},
		"batch of three":   {model.Pass{Tokens: tokens.Reshape(3, 100), State: small}, kompute.ErrShape},
		"empty":            {model.Pass{Tokens: tokens.Slice(1, 0, 0), State: small}, kompute.ErrShape},
		"many at a cursor": {model.Pass{Tokens: tokens, State: small, At: cursor}, kompute.ErrShape},
		"closed, cursor":   {model.Pass{Tokens: tokens.Slice(1, 0, 1), State: closed, At: cursor}, nn.ErrCache},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := d.NewStream()
			require.NoError(t, err)
			defer s.Close()
			require.ErrorIs(t, m.Forward(s, c.pass).Err(), c.want)
			require.ErrorIs(t, s.Err(), c.want)
			require.Zero(t, small.Len())
		})
	}
}

func TestLoadErrors(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()

	good, _ := testmodel.Small().Open(t)
	_, err = model.Load(t.Context(), d, good, model.Options{DType: array.Int32})
	require.ErrorIs(t, err, kompute.ErrDType)
	_, err = model.Load(t.Context(), nil, good, model.Options{})
	require.ErrorIs(t, err, kompute.ErrInvalid)
	_, err = model.Load(t.Context(), d, nil, model.Options{})
	require.ErrorIs(t, err, kompute.ErrInvalid)
	closed, _ := testmodel.Small().Open(t)
	require.NoError(t, closed.Close())
	_, err = model.Load(t.Context(), d, closed, model.Options{})
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorContains(t, err, "the checkpoint is closed")

	for name, c := range map[string]struct {
		changes object
		err     error
		names   string
	}{
		"bias":           {object{"attention_bias": true}, checkpoint.ErrMissing, "model.layers.0.self_attn.q_proj.bias"},
		"width":          {object{"intermediate_size": 256}, checkpoint.ErrMismatch, "mlp.gate_proj"},
		"layers":         {object{"num_hidden_layers": 3}, checkpoint.ErrMissing, "model.layers.2."},
		"further layers": {object{"num_hidden_layers": 1}, checkpoint.ErrMismatch, "is of layer 1, the configuration asks for layers 0 to 0"},
	} {
		_, err := model.Load(t.Context(), d, changed(t, c.changes), model.Options{})
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, c.names, name)
	}
	require.Zero(t, d.Stats().LiveTensors)
}

type object = map[string]any

// changed opens a small checkpoint with some fields of config.json replaced; a
// nil value removes the field.
func changed(t *testing.T, changes object) *checkpoint.Checkpoint {
	t.Helper()
	dir := t.TempDir()
	testmodel.Small().Write(t, dir)
	return changedIn(t, dir, changes)
}

// changedIn does the same with the checkpoint in a folder.
func changedIn(t *testing.T, dir string, changes object) *checkpoint.Checkpoint {
	t.Helper()
	file := filepath.Join(dir, checkpoint.ConfigFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	fields := object{}
	require.NoError(t, json.Unmarshal(data, &fields))
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A cancelled load returns the context's error and leaves nothing allocated.
func TestLoadCancelled(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		m, err := model.Load(ctx, d, c, model.Options{Progress: func(done, total int64) {
			require.LessOrEqual(t, done, total)
			if calls++; calls == 3 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, m)
		require.Equal(t, 3, calls, "nothing is loaded after that")
	})
}

// Nil values can be closed, and their methods called.
func TestNil(t *testing.T) {
	var cache *nn.KVCache[float32]
	require.NoError(t, cache.Close())
	require.ErrorIs(t, cache.Room(1), nn.ErrCache)
	var cursor *nn.Cursor
	require.NoError(t, cursor.Close())
	require.Nil(t, model.NetworkOf[float32](nil))
}

// A model that does not fit is refused before anything is loaded.
func TestFit(t *testing.T) {
	c := changed(t, object{"max_position_embeddings": 1 << 30})
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		_, err := model.Load(t.Context(), d, c, model.Options{Capacity: 1 << 30})
		var fit *model.FitError
		require.ErrorAs(t, err, &fit)
		require.ErrorIs(t, err, model.ErrFit)
		require.Greater(t, fit.Needed, fit.Available)
		require.ErrorContains(t, err, fmt.Sprint(fit.Needed))
		require.ErrorContains(t, err, fmt.Sprint(fit.Available))
		require.Zero(t, d.Stats().LiveTensors)
		m, err := model.Load(t.Context(), d, c, model.Options{Capacity: 256})
		require.NoError(t, err)
		require.NoError(t, m.Close())
	})
}

// A device's budget counts like its memory.
func TestFitBudget(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	const budget = 10_000
	d, err := kompute.Open("cpu", kompute.WithMemoryBudget(budget))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	_, err = model.Load(t.Context(), d, c, model.Options{Capacity: 16})
	var fit *model.FitError
	require.ErrorAs(t, err, &fit)
	require.EqualValues(t, budget, fit.Available)
	require.Zero(t, d.Stats().LiveTensors)
}

// A load that finds a file shorter than it was fails, and leaves nothing behind.
func TestLoadOfAShrinkingFile(t *testing.T) {
	s := testmodel.Small()
	s.Packing = checkpoint.Packing{GroupSize: 32, Bits: 1} // whose codes the loader unpacks by itself
	s.Vocab, s.Intermediate, s.Hidden, s.Shards = 4096, 4096, 256, 3
	dir := t.TempDir()
	s.Write(t, dir)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	require.NoError(t, err)
	shrink := func(int64, int64) { require.NoError(t, os.Truncate(files[1], 3<<12)) }
	_, err = model.Load(t.Context(), d, c, model.Options{DType: kompute.DTypeBFloat16, Progress: shrink})
	require.Error(t, err)
	require.Zero(t, d.Stats().LiveTensors)
	require.NoError(t, d.Close())
}
