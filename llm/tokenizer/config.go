package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Config is what tokenizer_config.json says about tokens.
type Config struct {
	EOS   string       // eos_token, the token that ends a text; may be empty
	added []addedToken // added_tokens_decoder, in the order of ids
}

// ParseConfig reads the contents of tokenizer_config.json. It fails with ConfigError.
func ParseConfig(data []byte) (*Config, error) {
	if !utf8.Valid(data) {
		return nil, &ConfigError{Reason: "not valid UTF-8"}
	}
	var f struct {
		EOS   json.RawMessage            `json:"eos_token"`
		Added map[string]json.RawMessage `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, &ConfigError{Reason: err.Error()}
	}
	c := &Config{}
	if !isNull(f.EOS) {
		var token struct{ Content *string }
		switch {
		case json.Unmarshal(f.EOS, &c.EOS) == nil:
		case json.Unmarshal(f.EOS, &token) == nil && token.Content != nil:
			c.EOS = *token.Content
		default:
			return nil, &ConfigError{Field: "eos_token", Reason: "neither a string nor a token with content"}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.Added)) {
		a, err := parseAdded(id, f.Added[id])
		if err != nil {
			return nil, err
		}
		c.added = append(c.added, a)
	}
	slices.SortFunc(c.added, func(a, b addedToken) int { return a.ID - b.ID })
	return c, c.check()
}

// parseAdded reads an entry of added_tokens_decoder. Its normalized is true by default if it is not special.
func parseAdded(id string, raw json.RawMessage) (addedToken, error) {
	fail := func(reason string) (addedToken, error) {
		return addedToken{}, &ConfigError{Field: "added_tokens_decoder." + id, Reason: reason}
	}
	n, err := strconv.Atoi(id)
	if err != nil || n < 0 || n >= math.MaxInt32 {
		return fail("not the id of a token")
	}
	var a struct {
		addedToken
		Normalized *bool `json:"normalized"` // in place of the field of addedToken
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fail(err.Error())
	}
	a.ID = n
	a.addedToken.Normalized = !a.Special
	if a.Normalized != nil {
		a.addedToken.Normalized = *a.Normalized
	}
	switch {
	case a.Content == "":
		return fail("it has no content")
	case len(a.Content) > maxAddedToken:
		return fail(fmt.Sprintf("it has %d bytes, more than %d", len(a.Content), maxAddedToken))
	}
	return a.addedToken, nil
}

// check rejects two entries of one token or of one id, which may be written differently.
func (c *Config) check() error {
	ids := make(map[string]int, len(c.added))
	for i, a := range c.added {
		if i > 0 && c.added[i-1].ID == a.ID {
			return configError(a, "there are two entries for this id")
		}
		if id, twice := ids[a.Content]; twice {
			return configError(a, "token %q also has the id %d", a.Content, id)
		}
		ids[a.Content] = a.ID
	}
	return nil
}

// configError is a ConfigError about an entry of added_tokens_decoder.
func configError(a addedToken, format string, args ...any) error {
	return &ConfigError{Field: fmt.Sprintf("added_tokens_decoder.%d", a.ID), Reason: fmt.Sprintf(format, args...)}
}

// merge adds the configuration's tokens to those of tokenizer.json. Of the two descriptions of one token the
// configuration's counts, but a token is special if either says so, as in transformers. An entry whose id or text is
// another token's in tokenizer.json is ignored.
func (t *Tokenizer) merge(added []addedToken, c *Config) []addedToken {
	if c == nil {
		return added
	}
	places, texts := make(map[string]int, len(added)), make(map[int]string, len(added))
	for i, a := range added {
		places[a.Content], texts[a.ID] = i, a.Content
	}
	for _, a := range c.added {
		i, there := places[a.Content]
		text, taken := texts[a.ID]
		if !taken {
			var e entry
			e, taken = t.tokens[a.ID]
			text = e.text
		}
		id, known := t.ids[a.Content]
		if there {
			id, known = added[i].ID, true
		}
		switch {
		case taken && text != a.Content, known && id != a.ID:
		case there:
			a.Special = a.Special || added[i].Special
			added[i] = a
		default:
			added = append(added, a)
		}
	}
	return added
}
