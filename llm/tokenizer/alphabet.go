package tokenizer

// Byte-level BPE writes every byte as one printable character, so that a
// vocabulary is text: bytes that are printable in Latin-1 stand for themselves,
// the other 68 become U+0100, U+0101, … in order. A space is thus "Ġ".
var (
	byteRune [256]rune
	runeByte = make(map[rune]byte, 256)
)

func init() {
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		byteRune[b] = r
		runeByte[r] = byte(b)
	}
}

// tokenBytes returns the bytes that a vocabulary entry means. An entry with
// characters outside the alphabet stands for its own UTF-8.
func tokenBytes(token string) (bytes string, inAlphabet bool) {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := runeByte[r]
		if !ok {
			return token, false
		}
		out = append(out, b)
	}
	return string(out), true
}
