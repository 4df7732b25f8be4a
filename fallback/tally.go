package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// Tally adds amounts to counts in place: counts[rows[n], tokens[n]] += amounts[n], wrapping
// around, for each n whose place exists. counts are uint32 [S, V], rows int32 [N],
// tokens and amounts uint32 [N].
//
// Errors: ErrInvalid for other shapes or types.
func Tally(counts, rows, tokens, amounts array.Array) error {
	c := checker{op: "tally"}
	c.array("counts", &counts)
	c.dtype("counts", &counts, array.Uint32)
	c.rank("counts", &counts, 2)
	c.array("rows", &rows)
	c.dtype("rows", &rows, array.Int32)
	c.rank("rows", &rows, 1)
	c.array("tokens", &tokens)
	c.dtype("tokens", &tokens, array.Uint32)
	c.shape("tokens", &tokens, rows.Shape)
	c.array("amounts", &amounts)
	c.dtype("amounts", &amounts, array.Uint32)
	c.shape("amounts", &amounts, rows.Shape)
	if c.err != nil {
		return c.err
	}
	to, row := storage[uint32](&counts), storage[int32](&rows)
	token, amount := storage[uint32](&tokens), storage[uint32](&amounts)
	for n := range rows.Size() {
		r, i := int(row[rows.Offset+n*rows.Strides[0]]), int64(token[tokens.Offset+n*tokens.Strides[0]])
		if r >= 0 && r < counts.Shape[0] && i < int64(counts.Shape[1]) {
			to[counts.Offset+r*counts.Strides[0]+int(i)*counts.Strides[1]] += amount[amounts.Offset+n*amounts.Strides[0]]
		}
	}
	return nil
}
