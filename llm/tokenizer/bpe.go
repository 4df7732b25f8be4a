package tokenizer

import (
	"context"
	"fmt"
)

// bpe merges the symbols of one piece.
type bpe struct {
	symbols [256]int32 // the token of each single byte, or -1
	merges  map[uint64]merge
	whole   map[string]int32 // pieces that are tokens without merging (ignore_merges), or nil
}

// merge is one line of the merge list: its rank and the token it makes.
type merge struct {
	rank  uint32
	token int32
}

func pair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// word is the working memory for merging: the symbols of a piece as a doubly
// linked list, and the possible merges as a heap. A heap keeps long pieces, such
// as a page of one letter, at n·log n.
type word struct {
	ctx        context.Context
	tokens     []int32
	prev, next []int32
	heap       []uint64 // rank<<32 | position of the left symbol
}

// encode appends the tokens of one piece to ids.
func (m *bpe) encode(ids []int, piece string, w *word) ([]int, error) {
	if id, ok := m.whole[piece]; ok {
		return append(ids, int(id)), nil
	}
	if err := m.start(piece, w); err != nil {
		return ids, err
	}
	for i := range w.tokens {
		if err := w.done(i); err != nil {
			return ids, err
		}
		m.push(w, int32(i))
	}
	for n := 0; len(w.heap) > 0; n++ {
		if err := w.done(n); err != nil {
			return ids, err
		}
		m.mergeOne(w, w.pop())
	}
	for i := int32(0); i >= 0; i = w.next[i] {
		ids = append(ids, int(w.tokens[i]))
	}
	return ids, nil
}

// start fills w with the single-byte symbols of a piece, which is not empty.
func (m *bpe) start(piece string, w *word) error {
	w.tokens, w.prev, w.next, w.heap = w.tokens[:0], w.prev[:0], w.next[:0], w.heap[:0]
	for i := range len(piece) {
		if err := w.done(i); err != nil {
			return err
		}
		id := m.symbols[piece[i]]
		if id < 0 {
			return &EncodingError{Offset: -1, Reason: fmt.Sprintf("the vocabulary has no token for byte 0x%02x", piece[i])}
		}
		w.tokens = append(w.tokens, id)
		w.prev = append(w.prev, int32(i)-1)
		w.next = append(w.next, int32(i)+1)
	}
	w.next[len(piece)-1] = -1
	return nil
}

// done returns the context's error in some steps of a long loop.
func (w *word) done(step int) error {
	if step&0xffff == 0xffff {
		return w.ctx.Err()
	}
	return nil
}

// push adds the merge of symbol i with its right neighbour, if there is one.
func (m *bpe) push(w *word, i int32) {
	if j := w.next[i]; j >= 0 {
		if found, ok := m.merges[pair(w.tokens[i], w.tokens[j])]; ok {
			w.push(uint64(found.rank)<<32 | uint64(uint32(i)))
		}
	}
}

// mergeOne does the merge that entry describes, unless an earlier merge has
// changed its symbols: then their pair no longer has this rank.
func (m *bpe) mergeOne(w *word, entry uint64) {
	i := int32(uint32(entry))
	if w.tokens[i] < 0 || w.next[i] < 0 {
		return
	}
	j := w.next[i]
	found, ok := m.merges[pair(w.tokens[i], w.tokens[j])]
	if !ok || found.rank != uint32(entry>>32) {
		return
	}
	w.tokens[i], w.tokens[j] = found.token, -1
	w.next[i] = w.next[j]
	if k := w.next[j]; k >= 0 {
		w.prev[k] = i
	}
	if h := w.prev[i]; h >= 0 {
		m.push(w, h)
	}
	m.push(w, i)
}

// push adds an entry to the heap, smallest first.
func (w *word) push(entry uint64) {
	w.heap = append(w.heap, entry)
	i := len(w.heap) - 1
	for i > 0 && w.heap[(i-1)/2] > entry {
		w.heap[i] = w.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	w.heap[i] = entry
}

// pop removes the smallest entry.
func (w *word) pop() uint64 {
	least, n := w.heap[0], len(w.heap)-1
	entry := w.heap[n]
	w.heap = w.heap[:n]
	if n == 0 {
		return least
	}
	i := 0
	for child := 1; child < n; child = 2*i + 1 {
		if child+1 < n && w.heap[child+1] < w.heap[child] {
			child++
		}
		if entry <= w.heap[child] {
			break
		}
		w.heap[i] = w.heap[child]
		i = child
	}
	w.heap[i] = entry
	return least
}
