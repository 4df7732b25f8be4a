package array

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Messages repeat what was asked for.
func TestMessagesOfViews(t *testing.T) {
	l, _ := Contiguous(2, 3)
	for want, err := range map[string]error{
		"cannot reshape [2 3] (6 elements) to [4 -1]":             second(l.Reshape(4, -1)),
		"cannot reshape [2 3] to [-1 -1]: one length may be -1":   second(l.Reshape(-1, -1)),
		"cannot slice axis 1 of shape [2 3] from 2 to 5 by 1":     second(l.Slice(1, 2, 5, 1)),
		"cannot squeeze axis 0 of shape [2 3]: its length is not": second(l.Squeeze(0)),
		"cannot insert an axis 4 into shape [2 3]":                second(l.ExpandDims(4)),
		"shape [2 3] has no axis 2":                               second(l.Slice(2, 0, 1, 1)),
	} {
		require.ErrorContains(t, err, want)
	}
}

func second(_ Layout, err error) error { return err }
