package generate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Where dispatches wait for results themselves instead of at barriers, tokens are
// the goldens' as well, and those of the CPU backend where the keys of a token are divided
// among workgroups, the last of which puts their results together.
func TestOverlap(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	var far []int
	for i := 0; len(far) < 300; i++ { // keys are divided from 257 on at the latest
		far = append(far, cases[i%len(cases)].PromptIDs...)
	}
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	const most = 8 // tokens: CPU drivers take long where dispatches wait
	types := []kompute.DType{array.Float32, array.BFloat16, array.Float16, array.Uint8}
	want := make(map[kompute.DType][]int)
	for _, cache := range types {
		withSession(t, f, cpu, model.Options{CacheType: cache}, func(s *Session) {
			want[cache] = generated(t, s, far, most)
		})
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		require.Equal(t, d.Backend() == "vulkan", d.Stats().Overlap)
		for _, cache := range testmodel.Some(d, types...) {
			withSession(t, f, d, model.Options{CacheType: cache}, func(s *Session) {
				if cache == array.Float32 {
					c := cases[0]
					require.Equal(t, c.GeneratedIDs[:most], generated(t, s, c.PromptIDs, most, f.EOS()...))
				}
				require.Equal(t, want[cache], generated(t, s, far, most), "%v", cache)
				described, err := s.Region().Describe()
				require.NoError(t, err)
				requireOrdered(t, described)
				stats := s.Region().Stats()
				least := stats.Dispatches / 2
				if cache == array.Uint8 { // whose attention is one dispatch on few devices
					least = stats.Dispatches / 3
				}
				if d.Backend() == "vulkan" && d.Info().SubgroupSize >= 8 { // smaller ones have no fused products
					require.Greater(t, stats.Overlaps, least)
				} else {
					require.Zero(t, stats.Overlaps)
				}
			})
		}
	}, kompute.WithStrict(), kompute.WithOverlap())
}

// generated returns the tokens that follow a prompt, at most that many.
func generated(t *testing.T, s *Session, prompt []int, most int, eos ...int) []int {
	t.Helper()
	r, err := s.Generate(t.Context(), prompt, Options{EOS: eos, MaxTokens: most})
	require.NoError(t, err)
	return r.IDs
}

// requireOrdered fails if a dispatch touches what earlier ones since the last barrier
// have written, or writes what they have read, except for results that it waits for; or
// if such a result has another writer, or shares its memory.
func requireOrdered(t *testing.T, d *kompute.RegionDescription) {
	t.Helper()
	overlap := func(a, b kompute.RegionUse) bool {
		return a.Tensor == b.Tensor && a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes
	}
	conflicts := func(uses, earlier []kompute.RegionUse) bool {
		return slices.ContainsFunc(uses, func(u kompute.RegionUse) bool {
			return slices.ContainsFunc(earlier, func(e kompute.RegionUse) bool { return overlap(u, e) })
		})
	}
	awaited := func(u kompute.RegionUse) bool { return d.Memory.Tensors[u.Tensor].Kind == kompute.RegionTensorAwaited }
	var reads, writes []kompute.RegionUse // since the last barrier
	writer := make(map[int]int)           // by tensor: the last dispatch that writes it
	for i, one := range d.Dispatches {
		if one.Barrier {
			reads, writes = nil, nil
		}
		others := slices.DeleteFunc(slices.Clone(one.Reads), awaited)
		require.False(t, conflicts(others, writes), "dispatch %d reads what is not there", i)
		require.False(t, conflicts(one.Writes, writes), "dispatch %d", i)
		require.False(t, conflicts(one.Writes, reads), "dispatch %d", i)
		for _, u := range one.Reads {
			_, written := writer[u.Tensor]
			require.True(t, !awaited(u) || written, "dispatch %d waits for what nobody has written", i)
		}
		for _, u := range one.Writes {
			last, written := writer[u.Tensor]
			require.False(t, awaited(u) && written && last != i, "dispatches %d and %d write one result", last, i)
			writer[u.Tensor] = i
		}
		reads, writes = append(reads, one.Reads...), append(writes, one.Writes...)
	}
	for i, a := range d.Memory.Tensors {
		if a.Kind != kompute.RegionTensorAwaited {
			continue
		}
		for j, b := range d.Memory.Tensors {
			placed := b.Kind == kompute.RegionTensorAwaited || b.Kind == kompute.RegionTensorPlanned
			apart := a.Arena != b.Arena || a.Offset+a.Bytes <= b.Offset || b.Offset+b.Bytes <= a.Offset
			require.True(t, i == j || !placed || apart, "tensors %d and %d", i, j)
		}
	}
}
