package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// PagedUpdate writes row r of rows [R, H, D] to token slots[r]%L of page
// slots[r]/L of pages [P, H, L, D], in place, rounded to pages' type (uint8: see
// CacheRow). A row whose
// slot does not exist is written nowhere. slots, int32 [R], are all different.
//
// Errors: ErrInvalid for other shapes or types.
func PagedUpdate(pages, rows, slots array.Array) error {
	c := checker{op: "paged_update"}
	c.array("pages", &pages)
	c.pages("pages", &pages)
	c.float("rows", &rows)
	c.array("slots", &slots)
	c.dtype("slots", &slots, array.Int32)
	c.rank("slots", &slots, 1)
	if c.err == nil {
		c.shape("rows", &rows, []int{slots.Shape[0], pages.Shape[1], CacheHead(pages.DType, pages.Shape[3])})
	}
	if c.err != nil || rows.Size() == 0 || pages.Size() == 0 {
		return c.err
	}
	heads, tokens, d := pages.Shape[1], pages.Shape[2], rows.Shape[2]
	at := storage[int32](&slots)
	parallel(slots.Shape[0], float64(heads*d), func(lo, hi int) {
		scratch := borrow(d)
		defer scratch.release()
		for r := lo; r < hi; r++ {
			slot := int(at[slots.Offset+r*slots.Strides[0]])
			if slot < 0 || slot >= pages.Shape[0]*tokens {
				continue
			}
			for h := range heads {
				row := floats(&rows, elementAt(&rows, []int{r, h, 0}), rows.Strides[2], d, scratch.f)
				storeHead(&pages, slot/tokens, h, slot%tokens, row)
			}
		}
	})
	return nil
}
