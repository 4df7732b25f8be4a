package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A page is used only by its holders, a beginning is found only if its tokens
// match, and no page is lost.
func TestAllocator(t *testing.T) {
	const count, size = 7, 2
	rapid.Check(t, func(t *rapid.T) {
		a := newAllocator(count, size)
		held := [][]*page{}
		content := map[int32]string{} // of full pages, with all tokens before them
		step := func(t *rapid.T) {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				a.release(held[i])
				held = append(held[:i], held[i+1:]...)
				return
			}
			tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 8).Draw(t, "tokens")
			pages := a.share(tokens)
			require.Less(t, len(pages)*size, len(tokens))
			for i, p := range pages {
				require.Equal(t, bytesOf(tokens[:(i+1)*size]), content[p.number])
			}
			for len(pages)*size < len(tokens) {
				p := a.take()
				if p == nil {
					require.Zero(t, a.available())
					a.release(pages)
					return
				}
				delete(content, p.number)
				pages = append(pages, p)
			}
			for i := 0; (i+1)*size <= len(tokens); i++ {
				var before *page
				if i > 0 {
					before = pages[i-1]
				}
				content[pages[i].number] = bytesOf(tokens[:(i+1)*size])
				a.publish(pages[i], before, tokens[i*size:(i+1)*size])
			}
			held = append(held, pages)
		}
		t.Repeat(map[string]func(*rapid.T){"": func(t *rapid.T) {
			used := map[int32]int{}
			for _, pages := range held {
				for _, p := range pages {
					used[p.number]++
				}
			}
			require.Equal(t, count, len(used)+a.available())
			for _, pages := range held {
				for _, p := range pages {
					require.Equal(t, used[p.number], p.users)
				}
			}
		}, "step": step})
	})
}
