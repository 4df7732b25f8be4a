package tokenizer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// file is tokenizer.json. "truncation" and "padding" concern batches and do not
// apply here.
type file struct {
	Model         json.RawMessage
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    json.RawMessage
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage
}

// model is the "model" of tokenizer.json.
type model struct {
	Type         string
	Dropout      *float64
	Prefix       *string `json:"continuing_subword_prefix"`
	Suffix       *string `json:"end_of_word_suffix"`
	ByteFallback bool    `json:"byte_fallback"`
	IgnoreMerges bool    `json:"ignore_merges"`
	Vocab        map[string]int
	Merges       []mergeLine
}

// mergeLine is one merge, written "a b" or ["a", "b"].
type mergeLine struct{ left, right string }

// UnmarshalJSON accepts both forms. The zero line stands for the "#version"
// comment that old files start with.
func (m *mergeLine) UnmarshalJSON(raw []byte) error {
	var both []string
	if err := json.Unmarshal(raw, &both); err != nil {
		var line string
		if err := json.Unmarshal(raw, &line); err != nil {
			return err
		}
		if strings.HasPrefix(line, "#version") {
			return nil
		}
		both = strings.Split(line, " ")
	}
	if len(both) != 2 || both[0] == "" || both[1] == "" {
		return fmt.Errorf("merge %s is not a pair of tokens", raw)
	}
	m.left, m.right = both[0], both[1]
	return nil
}

// Load reads the contents of tokenizer.json. It fails with FormatError or
// UnsupportedError.
func Load(data []byte) (*Tokenizer, error) { return LoadWith(data, nil) }

// LoadWith is Load with the added tokens of tokenizer_config.json, unless that is nil. Where the two
// files contradict each other, ids and texts are those of tokenizer.json.
func LoadWith(data []byte, c *Config) (*Tokenizer, error) {
	if !utf8.Valid(data) {
		return nil, &FormatError{Reason: "not valid UTF-8"}
	}
	var f file
	if err := decode("", data, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{tokens: map[int]entry{}}
	if err := t.loadModel(f.Model); err != nil {
		return nil, err
	}
	var err error
	if t.forms, err = loadNormalizer(f.Normalizer, 0); err != nil {
		return nil, err
	}
	if t.splitters, err = loadPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := loadDecoder(f.Decoder, 0); err != nil {
		return nil, err
	}
	if err := t.loadAdded(t.merge(f.AddedTokens, c)); err != nil {
		return nil, err
	}
	return t, t.loadPostProcessor(f.PostProcessor, 0)
}

// decode is json.Unmarshal with a typed error.
func decode(field string, raw []byte, into any) error {
	switch {
	case isNull(raw) && field == "": // the whole file
		return &FormatError{Reason: "empty"}
	case isNull(raw):
		return &FormatError{Field: field, Reason: "missing"}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &FormatError{Field: field, Reason: err.Error()}
	}
	return nil
}

func isNull(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// loadModel reads vocabulary and merges.
func (t *Tokenizer) loadModel(raw json.RawMessage) error {
	var m model
	if err := decode("model", raw, &m); err != nil {
		return err
	}
	if m.Type != "BPE" {
		return &UnsupportedError{Component: "model", Got: m.Type, Supported: []string{"BPE"}}
	}
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return &UnsupportedError{Component: "model", Got: "dropout"}
	case m.Prefix != nil && *m.Prefix != "":
		return &UnsupportedError{Component: "model", Got: "continuing_subword_prefix"}
	case m.Suffix != nil && *m.Suffix != "":
		return &UnsupportedError{Component: "model", Got: "end_of_word_suffix"}
	case m.ByteFallback:
		return &UnsupportedError{Component: "model", Got: "byte_fallback"}
	case len(m.Vocab) == 0:
		return &FormatError{Field: "model.vocab", Reason: "empty"}
	}
	t.ids = m.Vocab
	if m.IgnoreMerges {
		t.bpe.whole = make(map[string]int32, len(m.Vocab))
	}
	for token, id := range m.Vocab {
		if err := t.addVocab(token, id); err != nil {
			return err
		}
	}
	for b, r := range byteRune {
		t.bpe.symbols[b] = -1
		if id, ok := m.Vocab[string(r)]; ok {
			t.bpe.symbols[b] = int32(id)
		}
	}
	return t.loadMerges(m.Merges)
}

func (t *Tokenizer) addVocab(token string, id int) error {
	if id < 0 || id >= math.MaxInt32 {
		return &FormatError{Field: "model.vocab", Reason: fmt.Sprintf("token %q has id %d", token, id)}
	}
	if other, ok := t.tokens[id]; ok {
		return &FormatError{Field: "model.vocab", Reason: fmt.Sprintf("tokens %q and %q share id %d", min(token, other.text), max(token, other.text), id)}
	}
	bytes, inAlphabet := tokenBytes(token)
	e := entry{text: token, bytes: bytes}
	t.tokens[id] = e
	t.limit, t.longest = max(t.limit, id+1), max(t.longest, len(e.bytes))
	if t.bpe.whole != nil && inAlphabet { // pieces of texts are of the alphabet
		t.bpe.whole[e.bytes] = int32(id)
	}
	return nil
}

// loadMerges turns the merge list into pairs of ids. The position in the list is
// the rank; of two equal pairs the later one counts.
func (t *Tokenizer) loadMerges(lines []mergeLine) error {
	t.bpe.merges = make(map[uint64]merge, len(lines))
	for rank, line := range lines {
		if line == (mergeLine{}) {
			continue
		}
		left, okLeft := t.ids[line.left]
		right, okRight := t.ids[line.right]
		joined, okJoined := t.ids[line.left+line.right]
		if !okLeft || !okRight || !okJoined {
			return &FormatError{Field: "model.merges", Reason: fmt.Sprintf("merge %d of %q and %q: a token is not in the vocabulary", rank, line.left, line.right)}
		}
		t.bpe.merges[pair(int32(left), int32(right))] = merge{rank: uint32(rank), token: int32(joined)}
	}
	return nil
}

// loadAdded enters the added tokens into the vocabulary and the sets that find them.
func (t *Tokenizer) loadAdded(added []addedToken) error {
	all := 0
	for i := range added {
		a := &added[i]
		if all += len(a.Content); all > maxAddedTokens {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("they have more than %d bytes", maxAddedTokens)}
		}
		if a.ID < 0 || a.ID >= math.MaxInt32 {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("token %q has id %d", a.Content, a.ID)}
		}
		if len(a.Content) > maxAddedToken {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("token %d has %d bytes, more than %d", a.ID, len(a.Content), maxAddedToken)}
		}
		if a.Content == "" {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("token %d is empty", a.ID)}
		}
		if other, ok := t.tokens[a.ID]; ok && other.text != a.Content {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("tokens %q and %q share id %d", other.text, a.Content, a.ID)}
		}
		if id, ok := t.ids[a.Content]; ok && id != a.ID {
			return &FormatError{Field: "added_tokens", Reason: fmt.Sprintf("token %q has ids %d and %d", a.Content, id, a.ID)}
		}
		t.tokens[a.ID] = entry{text: a.Content, bytes: a.Content, special: a.Special}
		t.ids[a.Content] = a.ID
		t.limit, t.longest = max(t.limit, a.ID+1), max(t.longest, len(a.Content))
		found := *a
		if !a.Normalized {
			t.raw.add(a.Content, a)
		} else {
			found.Content = t.normalize(context.Background(), a.Content)
			t.normalized.add(found.Content, a)
			t.written.add(a.Content, a)
			t.written.add(found.Content, a)
		}
		if t.added = append(t.added, found); found.Content != a.Content {
			t.added = append(t.added, *a)
		}
	}
	for _, set := range []*addedSet{&t.raw, &t.normalized, &t.written} {
		set.link()
	}
	return nil
}

// loadDecoder accepts ByteLevel, alone or in a Sequence: nothing else is needed
// for byte-level models.
func loadDecoder(raw json.RawMessage, depth int) error {
	const field = "decoder"
	var d struct {
		Type     string
		Decoders []json.RawMessage
	}
	if err := decode(field, raw, &d); err != nil {
		return err
	}
	switch {
	case d.Type == "ByteLevel":
		return nil
	case d.Type != "Sequence" || len(d.Decoders) == 0 || depth == maxNesting:
		return &UnsupportedError{Component: field, Got: d.Type, Supported: []string{"ByteLevel"}}
	}
	for _, inner := range d.Decoders {
		if err := loadDecoder(inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}
