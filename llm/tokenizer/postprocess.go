package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// postProcessor is post_processor in tokenizer.json, or one of a Sequence.
type postProcessor struct {
	Type       string
	Processors []json.RawMessage
	// For TemplateProcessing: the template of a text, and the ids of its special tokens.
	Single        []templatePiece
	SpecialTokens map[string]struct{ IDs []int } `json:"special_tokens"`
}

// templatePiece is one entry of a template: the text, or a special token.
type templatePiece struct {
	Sequence     *struct{ ID string }
	SpecialToken *struct{ ID string }
}

// loadPostProcessor reads what is put around every text. ByteLevel adds nothing.
// Each member of a Sequence wraps the result of the previous one.
func (t *Tokenizer) loadPostProcessor(raw json.RawMessage, depth int) error {
	const field = "post_processor"
	if isNull(raw) {
		return nil
	}
	var p postProcessor
	if err := decode(field, raw, &p); err != nil {
		return err
	}
	switch {
	case p.Type == "ByteLevel":
		return nil
	case p.Type == "TemplateProcessing":
		return t.loadTemplate(&p)
	case p.Type != "Sequence" || depth == maxNesting:
		return &UnsupportedError{Component: field, Got: p.Type, Supported: []string{"ByteLevel", "TemplateProcessing", "Sequence"}}
	}
	for _, inner := range p.Processors {
		if isNull(inner) {
			return &FormatError{Field: field, Reason: "a member of the Sequence is null"}
		}
		if err := t.loadPostProcessor(inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// maxTemplate is the most tokens that all templates together may put around a text.
const maxTemplate = 64

// loadTemplate reads the template for a single text: "$A" once, and special
// tokens before and after it.
func (t *Tokenizer) loadTemplate(p *postProcessor) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Field: "post_processor.single", Reason: fmt.Sprintf(format, args...)}
	}
	var before, after []int
	seen := false
	for i, piece := range p.Single {
		switch {
		case piece.Sequence != nil && piece.SpecialToken == nil:
			if seen || piece.Sequence.ID != "A" {
				return fail("entry %d is sequence %q; the text A belongs there, once", i, piece.Sequence.ID)
			}
			seen = true
		case piece.SpecialToken != nil && piece.Sequence == nil:
			special, ok := p.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return fail("token %q is not among the special_tokens", piece.SpecialToken.ID)
			}
			if len(special.IDs) > maxTemplate-len(before)-len(after)-len(t.prefix)-len(t.suffix) {
				return fail("more than %d tokens around a text", maxTemplate)
			}
			if seen {
				after = append(after, special.IDs...)
			} else {
				before = append(before, special.IDs...)
			}
		default:
			return fail("entry %d is neither a text nor a special token", i)
		}
	}
	if !seen {
		return fail("the text A is missing")
	}
	for _, id := range slices.Concat(before, after) {
		if _, ok := t.tokens[id]; !ok {
			return fail("no token has id %d", id)
		}
	}
	t.prefix, t.suffix = append(before, t.prefix...), append(t.suffix, after...)
	return nil
}

// Prefix returns the ids that belong before every text, such as a BOS; often none.
func (t *Tokenizer) Prefix() []int {
	if t == nil {
		return nil
	}
	return slices.Clone(t.prefix)
}

// Suffix returns the ids that belong after every text; usually none.
func (t *Tokenizer) Suffix() []int {
	if t == nil {
		return nil
	}
	return slices.Clone(t.suffix)
}
