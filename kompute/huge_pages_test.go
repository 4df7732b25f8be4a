package kompute

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestAlignedBytes(t *testing.T) {
	require.Empty(t, alignedBytes(0))
	for _, n := range []int{1, 13, hugePage - 1, hugePage, 3*hugePage + 5} {
		b := alignedBytes(n)
		require.Len(t, b, n)
		require.Equal(t, n, cap(b), "others have what is behind it")
		address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		require.Zero(t, address%8)
		if n >= hugePage && hasHugePages() {
			require.Zero(t, address%hugePage)
		}
		for _, i := range []int{0, n / 2, n - 1} {
			require.Zero(t, b[i])
		}
	}
}
