package kompute

// RowCalls counts calls of a product by how many rows it multiplies at once, which
// decides the kernels that run them.
type RowCalls struct {
	One, UpTo8, UpTo16, More uint64 // 1 row, 2 to 8, 9 to 16, 17 or more
}

// of returns the counter for a number of rows.
func (c *RowCalls) of(rows int) *uint64 {
	switch {
	case rows <= 1:
		return &c.One
	case rows <= 8:
		return &c.UpTo8
	case rows <= 16:
		return &c.UpTo16
	}
	return &c.More
}

// add adds other's calls, that many times.
func (c *RowCalls) add(other RowCalls, times uint64) {
	c.One += times * other.One
	c.UpTo8 += times * other.UpTo8
	c.UpTo16 += times * other.UpTo16
	c.More += times * other.More
}

// rowCalls are calls by op.
type rowCalls map[string]*RowCalls

// count counts a call, if it is a product's.
func (c *rowCalls) count(op *Op) {
	if op.Rows > 0 {
		*c.entry(op.Name).of(op.Rows)++
	}
}

// entry returns the calls of an op.
func (c *rowCalls) entry(op string) *RowCalls {
	if *c == nil {
		*c = make(rowCalls)
	}
	e := (*c)[op]
	if e == nil {
		e = new(RowCalls)
		(*c)[op] = e
	}
	return e
}

// add adds what other has counted, that many times. It allocates nothing for known ops.
func (c *rowCalls) add(other rowCalls, times uint64) {
	for op, n := range other {
		c.entry(op).add(*n, times)
	}
}

// addTo adds the calls to sums, which may be nil.
func (c rowCalls) addTo(sums map[string]RowCalls) map[string]RowCalls {
	for op, n := range c {
		sums = addRowCalls(sums, op, *n)
	}
	return sums
}

// addRowCalls adds an op's calls to sums, which may be nil.
func addRowCalls(sums map[string]RowCalls, op string, n RowCalls) map[string]RowCalls {
	if sums == nil {
		sums = make(map[string]RowCalls)
	}
	sum := sums[op]
	sum.add(n, 1)
	sums[op] = sum
	return sums
}
