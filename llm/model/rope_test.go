package model_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/llama"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/qwen3"
)

// transformer returns what a small checkpoint with these fields has in config.json.
func transformer(t *testing.T, changes object) (model.Transformer, error) {
	t.Helper()
	spec, err := model.Inspect(changed(t, changes))
	if err != nil {
		return model.Transformer{}, err
	}
	if changes["model_type"] == "llama" {
		return spec.Config.(llama.Config).Transformer, nil
	}
	return spec.Config.(qwen3.Config).Transformer, nil
}

// Scaled frequencies are those of mlx_lm, for both architectures.
func TestGoldenRoPE(t *testing.T) {
	data, err := os.ReadFile("testdata/rope.json")
	require.NoError(t, err)
	var cases []struct {
		HeadDim     int     `json:"head_dim"`
		RopeTheta   float64 `json:"rope_theta"`
		RopeScaling object  `json:"rope_scaling"`
		Angles      []float64
		Magnitude   float64
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		for _, architecture := range []string{"qwen3", "llama"} {
			got, err := transformer(t, object{
				"model_type": architecture, "head_dim": c.HeadDim, "rope_theta": c.RopeTheta, "rope_scaling": c.RopeScaling,
			})
			require.NoError(t, err)
			wavelengths := got.Scaling.Wavelengths(got.RopeTheta, got.HeadDim)
			require.Len(t, wavelengths, len(c.Angles))
			for i, want := range c.Angles {
				require.InEpsilon(t, want, 1/float64(wavelengths[i]), 1e-5, "%v, pair %d", c.RopeScaling, i)
			}
			require.InEpsilon(t, c.Magnitude, got.Scaling.Magnitude(), 1e-5, "%v", c.RopeScaling)
		}
	}
}

// The context before scaling may be beside the object, as for all forms; that comes first. llama3 needs one.
func TestOldContextOfLlama3(t *testing.T) {
	llama := func(more object) object {
		s := object{"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4}
		maps.Copy(s, more)
		return s
	}
	const old = "original_max_position_embeddings"
	for want, changes := range map[int]object{
		64:  {"rope_scaling": llama(object{old: 64})},
		128: {"rope_scaling": llama(nil), old: 128},
		256: {"rope_scaling": llama(object{old: 64}), old: 256},
	} {
		got, err := transformer(t, changes)
		require.NoError(t, err)
		require.Equal(t, model.Llama3Scaling{Factor: 4, LowFactor: 1, HighFactor: 4, OldContext: want}, got.Scaling)
	}
	_, err := transformer(t, object{"rope_scaling": llama(nil)})
	require.ErrorIs(t, err, checkpoint.ErrConfig)
	require.ErrorContains(t, err, "rope_scaling."+old+": missing")
}

// The settings of yarn, and the context that it makes.
func TestYarn(t *testing.T) {
	yarn := func(more object) object {
		s := object{"rope_type": "yarn", "factor": 4}
		maps.Copy(s, more)
		return object{"rope_scaling": s}
	}
	for _, c := range []struct {
		changes object
		want    model.YarnScaling
		context int
	}{
		{yarn(nil), model.YarnScaling{Factor: 4, BetaFast: 32, BetaSlow: 1, AttentionFactor: 0.1*math.Log(4) + 1, OldContext: 512}, 512},
		{
			yarn(object{"attention_factor": 1.5, "beta_fast": 16, "beta_slow": 2, "truncate": true, "original_max_position_embeddings": 256}),
			model.YarnScaling{Factor: 4, BetaFast: 16, BetaSlow: 2, AttentionFactor: 1.5, OldContext: 256},
			1024,
		},
		{
			object{"rope_parameters": object{"type": "yarn", "factor": 1}, "original_max_position_embeddings": 128},
			model.YarnScaling{Factor: 1, BetaFast: 32, BetaSlow: 1, AttentionFactor: 1, OldContext: 128},
			512,
		},
	} {
		got, err := transformer(t, c.changes)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Scaling)
		require.Equal(t, c.context, got.MaxPositions)
	}
	for want, changes := range map[string]object{
		`yarn "mscale"`:         yarn(object{"mscale": 1}),
		`yarn "mscale_all_dim"`: yarn(object{"mscale_all_dim": 1}),
		`truncate of RoPE`:      yarn(object{"truncate": false}),
	} {
		_, err := transformer(t, changes)
		require.ErrorIs(t, err, checkpoint.ErrUnsupported)
		require.ErrorContains(t, err, want)
	}
	for want, changes := range map[string]object{
		"rope_scaling.factor: missing":              yarn(object{"factor": nil}),
		"rope_scaling.beta_fast: 1 is below":        yarn(object{"beta_fast": 1, "beta_slow": 2}),
		"rope_scaling.attention_factor":             yarn(object{"attention_factor": -1}),
		"rope_theta: 1 is not above 1":              yarn(object{"rope_theta": 1}),
		"rope_parameters.factor: missing":           {"rope_parameters": object{"rope_type": "linear"}},
		"rope_parameters.factor: 0.5 is not from 1": {"rope_parameters": object{"rope_type": "linear", "factor": 0.5}},
	} {
		_, err := transformer(t, changes)
		require.ErrorIs(t, err, checkpoint.ErrConfig)
		require.ErrorContains(t, err, want)
	}
}

// A table for heads of absurd size is not computed before a tensor has confirmed the size.
func TestHugeHeadsFailEarly(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	c := changed(t, object{
		"head_dim": checkpoint.MaxSize / 2, "num_attention_heads": 2, "num_key_value_heads": 1,
		"rope_scaling": object{"type": "linear", "factor": 2},
	})
	testlimit.Run(t, time.Second, 64<<20, func() {
		_, err := model.Load(t.Context(), d, c, model.Options{})
		require.ErrorIs(t, err, checkpoint.ErrMismatch)
	})
}
