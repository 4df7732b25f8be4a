package tokenizer

import (
	"iter"
	"slices"
)

// addedSet finds added tokens in a text, all of them in one pass over it, whose time
// does not depend on their lengths: it reads the text from its end by an automaton of
// Aho and Corasick over the reversed tokens. After each byte this knows the longest
// token that begins there. The zero addedSet holds none.
type addedSet struct {
	nodes []node // nodes[0] is the root
	next  map[edge]int32
	first [256]int32 // next of the root, where most bytes of a text are looked up
}

// node stands for a string of bytes that tokens end in.
type node struct {
	parent edge // where it hangs in the trie
	depth  int32
	fail   int32 // the longest other node that begins its string; reversed, ends it
	token  *addedToken
	// The node of the longest token that begins the string, this one or one that fail leads
	// to; 0 for none. Whether that token or a shorter one is special.
	longest int32
	special bool
}

type edge struct {
	node int32
	b    byte
}

// add adds a token; of two with one content the last one counts. link must follow.
func (a *addedSet) add(content string, token *addedToken) {
	if a.nodes == nil {
		a.nodes, a.next = make([]node, 1), map[edge]int32{}
	}
	at := int32(0)
	for i := len(content) - 1; i >= 0; i-- {
		e := edge{at, content[i]}
		child := a.next[e]
		if child == 0 {
			child = int32(len(a.nodes))
			a.nodes = append(a.nodes, node{parent: e, depth: a.nodes[at].depth + 1})
			a.next[e] = child
			if at == 0 {
				a.first[e.b] = child
			}
		}
		at = child
	}
	a.nodes[at].token = token
}

// link prepares the set once all tokens are added.
func (a *addedSet) link() {
	var levels [][]int32 // the nodes by their depth, the root aside: shorter strings come first
	for i, n := range a.nodes {
		for int(n.depth) > len(levels) {
			levels = append(levels, nil)
		}
		if i > 0 {
			levels[n.depth-1] = append(levels[n.depth-1], int32(i))
		}
	}
	for _, i := range slices.Concat(levels...) {
		n := &a.nodes[i]
		if n.parent.node != 0 {
			n.fail = a.step(a.nodes[n.parent.node].fail, n.parent.b)
		}
		n.longest, n.special = a.nodes[n.fail].longest, a.nodes[n.fail].special
		if n.token != nil {
			n.longest, n.special = i, n.special || n.token.Special
		}
	}
}

// step returns the node after one more byte before the text that led to a node.
func (a *addedSet) step(at int32, b byte) int32 {
	for at != 0 {
		if next := a.next[edge{at, b}]; next != 0 {
			return next
		}
		at = a.nodes[at].fail
	}
	return a.first[b]
}

// place is an offset in a text at which tokens begin.
type place struct {
	at   int
	node int32 // of the longest of them
}

// find returns all places in a text at which tokens begin, in order.
func (a *addedSet) find(text string) []place {
	if len(a.nodes) == 0 {
		return nil
	}
	var out []place
	state := int32(0)
	for i := len(text) - 1; i >= 0; i-- {
		state = a.step(state, text[i])
		if longest := a.nodes[state].longest; longest != 0 {
			out = append(out, place{i, longest})
		}
	}
	slices.Reverse(out)
	return out
}

// longest returns the longest token at a place, and its length.
func (a *addedSet) longest(p place) (token *addedToken, length int) {
	n := &a.nodes[p.node]
	return n.token, int(n.depth)
}

// special reports whether a special token begins at a place.
func (a *addedSet) special(p place) bool { return a.nodes[p.node].special }

// all yields the tokens at a place, the longest first, and their lengths.
func (a *addedSet) all(p place) iter.Seq2[*addedToken, int] {
	return func(yield func(*addedToken, int) bool) {
		for i := p.node; i != 0; i = a.nodes[a.nodes[i].fail].longest {
			if !yield(a.nodes[i].token, int(a.nodes[i].depth)) {
				return
			}
		}
	}
}
