package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// storedView is a view of a storage as a matrix.
func storedView(t *testing.T, st *storage, rows, cols int) *View {
	t.Helper()
	l, err := array.Contiguous(rows, cols)
	require.NoError(t, err)
	return &View{st: st, dtype: DTypeFloat32, layout: l}
}

// Products of the same rows run together, unless one of them needs another's result or
// overwrites what it reads.
func TestProductsThatRunTogether(t *testing.T) {
	x, w, a, b := new(storage), new(storage), new(storage), new(storage)
	product := func(x, out *View) cpuItem {
		return cpuItem{op: Op{Name: opdef.QuantizedMatMul.Name, Args: []Arg{In(x), In(storedView(t, w, 4, 4)), In(storedView(t, w, 4, 1)), {}, Out(out)}, Params: []byte{1}}}
	}
	rows, toA, toB := storedView(t, x, 2, 4), storedView(t, a, 2, 4), storedView(t, b, 2, 4)
	other := product(rows, toB)
	other.op.Params = []byte{2}
	waits := product(rows, toB)
	waits.deps = []cpuDependency{{}}
	timed := product(rows, toB)
	timed.timing = timeNothing + 1
	for name, c := range map[string]struct {
		next cpuItem
		want bool
	}{
		"same rows":          {product(rows, toB), true},
		"other rows":         {product(storedView(t, x, 1, 4), toB), false},
		"the first's result": {product(toA, toB), false},
		"the same place":     {product(rows, toA), false},
		"over the rows":      {product(rows, rows), false},
		"another format":     {other, false},
		"another stream":     {waits, false},
		"measured":           {timed, false},
		"another op":         {cpuItem{op: Op{Name: opdef.SiLUMul.Name, Args: []Arg{In(rows), In(rows), Out(toB)}}}, false},
	} {
		require.Equal(t, c.want, together([]cpuItem{product(rows, toA)}, &c.next), name)
	}
	third := product(toA, storedView(t, new(storage), 2, 4))
	require.False(t, together([]cpuItem{product(rows, toB), product(rows, toA)}, &third), "a result of the second")
}
