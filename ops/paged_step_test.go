package ops_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// A token alone, and tokens apart, go to attention over pages by one op, and tokens among
// others by several. They have the same bits, however large the table is.
func TestTokenAloneHasItsBitsAmongOthers(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cases := []pagedRows{
		{heads: 8, kvHeads: 2, d: 64, length: 129},
		{heads: 4, kvHeads: 2, d: 128, length: 1},
		{heads: 4, kvHeads: 2, d: 128, length: 16},
		{heads: 8, kvHeads: 1, d: 64, length: 40, joint: true},
		{heads: 4, kvHeads: 1, d: 128, length: 310},
		{heads: 4, kvHeads: 2, d: 64, length: 33},
		{heads: 2, kvHeads: 2, d: 128, length: 40},
		{heads: 3, kvHeads: 1, d: 96, length: 300},
	}
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, p := range testmodel.Some(dev, cases...) {
			p.aloneAsAmongOthers(t, dev)
		}
		aloneAsAmongOthers[float32](t, cases[3], dev)
	})
	// The bits are also the same without subgroup operations, and without elements of 16 bits.
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, fn := range testmodel.Some(dev, aloneAsAmongOthers[kompute.BFloat16], aloneAsAmongOthers[uint8]) {
			fn(t, cases[3], dev)
		}
	}, kompute.WithMaskedFeatures("subgroup", "storage16"))
}

// The token of a session, whose keys are in one page and divided into more ranges, attends as on the CPU.
func TestTokenOfASession(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		for _, length := range testmodel.Some(dev, 1040, 128, 257, 700, 129, 256) {
			for _, heads := range []int{4, 8} { // up to 2 or 4 query heads to a workgroup
				p := pagedRows{heads: heads, kvHeads: 2, d: 64, length: length, whole: true}
				sessionAsOnCPU[kompute.BFloat16](t, p, dev, cpu)
				sessionAsOnCPU[uint8](t, p, dev, cpu)
			}
		}
	})
}

func sessionAsOnCPU[C ops.PageElement](t *testing.T, p pagedRows, dev, cpu *kompute.Device) {
	want, _, _, _ := attend[C](t, p, cpu, 1, false)
	got, _, _, passes := attend[C](t, p, dev, 1, false)
	_, codes := any(*new(C)).(uint8)
	requireStep(t, dev, codes, passes)
	for i := range want {
		require.InDelta(t, want[i], got[i], 2e-3, "%d tokens, element %d", p.length, i)
	}
}

// Tokens of one sequence that are said to be apart give NaNs, not numbers that depend on
// which of them came first.
func TestTokensOfOneSequenceAreNotApart(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		notApart[float32](t, dev)
		notApart[uint8](t, dev)
	})
}

func notApart[C ops.PageElement](t *testing.T, dev *kompute.Device) {
	p := pagedRows{heads: 4, kvHeads: 2, d: 128, length: 16, meet: true}
	want, _, _, _ := attend[C](t, p, dev, 3, false)
	got, _, _, passes := attend[C](t, p, dev, 3, true)
	_, codes := any(*new(C)).(uint8)
	requireStep(t, dev, codes, passes)
	row := len(got) / 3
	if passes["paged_step"] {
		for _, v := range got[:2*row] {
			require.True(t, math.IsNaN(float64(v)))
		}
	} else {
		require.Equal(t, want[:2*row], got[:2*row])
	}
	require.Equal(t, want[2*row:], got[2*row:])
}

// Where a new token is the last key of a batch that is not full, its infinite value counts
// once, and makes no NaN of a sum.
func TestTokenWithAnInfiniteValue(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		p := pagedRows{heads: 4, kvHeads: 2, d: 64, length: 21, infinite: true}
		got, _, _, passes := attend[float32](t, p, dev, 1, false)
		require.True(t, passes["paged_step"], passes)
		for i, v := range got {
			if of := i / p.d; i%p.d == 0 && of < p.heads/p.kvHeads {
				require.True(t, math.IsInf(float64(v), 1), "head %d: %v", of, v)
			} else {
				require.Less(t, math.Abs(float64(v)), 100.0, "element %d", i)
			}
		}
	})
}

func (p pagedRows) aloneAsAmongOthers(t *testing.T, dev *kompute.Device) {
	aloneAsAmongOthers[kompute.BFloat16](t, p, dev)
	aloneAsAmongOthers[uint8](t, p, dev)
}

func aloneAsAmongOthers[C ops.PageElement](t *testing.T, p pagedRows, dev *kompute.Device) {
	t.Run(fmt.Sprintf("%+v/%T", p, *new(C)), func(t *testing.T) {
		alone, aloneKeys, aloneValues, passes := attend[C](t, p, dev, 1, false)
		_, codes := any(*new(C)).(uint8)
		requireStep(t, dev, codes, passes)
		others, keys, values, passes := attend[C](t, p, dev, 3, false)
		require.True(t, passes["paged_heads"] && !passes["paged_step"], passes)
		require.Equal(t, others[:len(alone)], alone)
		p.unused = 100 // a larger table makes no difference
		apart, apartKeys, apartValues, passes := attend[C](t, p, dev, 3, true)
		requireStep(t, dev, codes, passes)
		require.Equal(t, others, apart)
		require.Equal(t, keys, apartKeys)
		require.Equal(t, values, apartValues)
		// The pages of the first sequence: every third one.
		_, pages := p.pages()
		size := len(keys) / (3 * pages)
		for i := 0; i < len(keys); i += 3 * size {
			require.Equal(t, keys[i:i+size], aloneKeys[i:i+size])
			require.Equal(t, values[i:i+size], aloneValues[i:i+size])
		}
		if codes, is := any(keys).([]uint8); is && dev.Backend() != "cpu" {
			requireCodesOfCPU(t, p, others, codes, any(values).([]uint8))
		}
	})
}

func bitsOf(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

// requireStep requires that tokens that see no other one take one op. With codes, only some GPUs have it, for some heads.
func requireStep(t *testing.T, dev *kompute.Device, codes bool, passes map[string]bool) {
	if dev.Backend() == "cpu" || !codes {
		require.True(t, passes["paged_step"], passes)
	} else if dev.Info().Type == "cpu" {
		require.False(t, passes["paged_step"], passes)
	}
}

// requireCodesOfCPU compares what a device made of three tokens with what the CPU makes
// of them: a number that lies between two codes may have become either.
func requireCodesOfCPU(t *testing.T, p pagedRows, out []float32, keys, values []uint8) {
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	want, wantKeys, wantValues, _ := attend[uint8](t, p, cpu, 3, false)
	row := ops.PageRow(kompute.DTypeUint8, p.d)
	for _, pair := range [][2][]uint8{{wantKeys, keys}, {wantValues, values}} {
		want, got := pair[0], pair[1]
		for i := range want {
			if i%row < p.d {
				require.InDelta(t, want[i], got[i], 1, "code %d", i)
			} else if i%4 == 0 {
				scale := func(b []uint8) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))) }
				require.InEpsilon(t, scale(want), scale(got), 1e-5, "scale at %d", i)
			}
		}
	}
	for i := range want {
		require.InDelta(t, want[i], out[i], 0.05)
	}
}
