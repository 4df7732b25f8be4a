package fallback

// attentionForm says how the loops share the work. It changes no result.
type attentionForm int

const (
	// byPieces: a unit of the first loop is a part of the keys of one key head, with all query
	// heads that read it; the second loop combines the parts. Where there are so few keys that they
	// are one part, a unit of the first loop makes the scores of some of them, and one of the second
	// a weighted sum of some columns of the values.
	byPieces attentionForm = iota
	// byColumns: with even fewer keys, and more threads than key heads, a unit of the first loop
	// makes all scores of a head, and a weighted sum of some columns; there is no second loop.
	byColumns
	// byHeads: where key heads occupy all threads, a unit of the first loop does all of one.
	byHeads
)

const (
	// Up to columnKeys keys, making all scores of a head again for each headColumns columns of the
	// values takes less time than a meeting of the workers.
	columnKeys  = 64
	headColumns = 64
	// With more keys than those of a part, three or more threads wait longer for the slowest head
	// than doing it at once saves. One or two gain up to headKeys keys.
	headKeys = 2048
	// A schedule counts a head as the keys of one part (see partCost). It would give cheaper heads of
	// more keys to one of two threads.
	headCost = 3000
)

// partCost is the approximate time of a part of the keys of a head, in nanoseconds.
func (t *attentionStep) partCost() float64 {
	return 0.05 * float64(partKeys*t.group*(t.d+t.dv))
}

// formFor returns the form for that many keys and threads. Only byPieces writes a result of its own
// where partsLoop says: in the second loop.
func (t *attentionStep) formFor(keys, threads int) attentionForm {
	many := threads == 1 || threads == 2 && t.partCost() >= headCost
	switch {
	case t.out != nil:
		return byPieces
	case t.heads%threads == 0 && (keys <= partKeys || many && keys <= headKeys):
		return byHeads
	case keys <= columnKeys && threads > t.heads:
		return byColumns
	}
	return byPieces
}
