package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testprogram"
	"github.com/kompute-go/kompute-go/kompute"
)

// FuzzRegion runs random programs op by op and as a replayed region, on every
// device, with every fusion, and dispatches that overlap: the results must be the same
// except for rounding.
func FuzzRegion(f *testing.F) {
	f.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	devices, all := make(map[string]*kompute.Device), specs(f)
	for _, spec := range all {
		d, err := kompute.Open(spec, kompute.WithStrict(), kompute.WithOverlap())
		require.NoError(f, err)
		f.Cleanup(func() { require.NoError(f, d.Close()) })
		devices[spec] = d
	}
	for _, code := range testprogram.Seeds() {
		f.Add(code)
		if testprogram.InFuzzWorker() {
			for _, spec := range all {
				runProgram(f, devices[spec], code, false)
				runProgram(f, devices[spec], code, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		if !testprogram.Valid(code) {
			return
		}
		var want [][]float32
		var from string
		for _, spec := range all {
			for _, replayed := range []bool{false, true} {
				got := runProgram(t, devices[spec], code, replayed)
				if want == nil {
					want, from = got, spec
					continue
				}
				for i := range got {
					require.NoError(t, testprogram.Compare(want[i], got[i]), "%s, replayed: %v, against %s; run %d of %v", spec, replayed, from, i, code)
				}
			}
		}
	})
}

// runProgram returns what each run of a program leaves.
func runProgram(t testing.TB, d *kompute.Device, code []byte, replayed bool) [][]float32 {
	p, err := testprogram.New(d, code)
	require.NoError(t, err, "%v", code)
	defer func() { require.NoError(t, p.Close()) }()
	left, err := p.Run(t.Context(), replayed)
	require.NoError(t, err, "%v", code)
	return left
}
