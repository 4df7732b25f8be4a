package api

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/grammar"
)

// form has the fields of a request that say which form its answers must have: OpenAI's, and those of llama.cpp's
// server, of vLLM and of SGLang. At most one of them may be given.
type form struct {
	ResponseFormat    *responseFormat    `json:"response_format"`
	JSONSchema        jsontext.Value     `json:"json_schema"`
	Grammar           string             `json:"grammar"` // in GBNF
	StructuredOutputs *structuredOutputs `json:"structured_outputs"`
	GuidedJSON        jsontext.Value     `json:"guided_json"`
	GuidedRegex       string             `json:"guided_regex"`
	GuidedChoice      []string           `json:"guided_choice"`
	GuidedGrammar     string             `json:"guided_grammar"`
	Regex             string             `json:"regex"`
	EBNF              string             `json:"ebnf"`
}

// responseFormat is a form in OpenAI's API.
type responseFormat struct {
	Type       string         `json:"type"`
	Schema     jsontext.Value `json:"schema"` // of json_object, as for llama.cpp's server
	JSONSchema struct {
		Schema jsontext.Value `json:"schema"`
	} `json:"json_schema"`
}

// structuredOutputs is a form in vLLM's API.
type structuredOutputs struct {
	JSON       jsontext.Value `json:"json"`
	JSONObject bool           `json:"json_object"`
	Regex      string         `json:"regex"`
	Choice     []string       `json:"choice"`
	Grammar    string         `json:"grammar"`
	Tag        jsontext.Value `json:"structural_tag"`
}

// required returns the form that an answer must have, and which field says so, "" if there is none.
func (f *form) required() (param string, form grammar.Alternative, err error) {
	add := func(field string, a grammar.Alternative) {
		if param != "" && err == nil {
			err = bad(field, "beside %s", param)
		}
		param, form = field, a
	}
	schema := func(field string, value jsontext.Value) {
		if given(value) {
			add(field, grammar.Alternative{Schema: value})
		}
	}
	gbnf := func(field, text string) {
		if text != "" {
			add(field, grammar.Alternative{GBNF: text})
		}
	}
	expression := func(field, text string) {
		if text != "" {
			add(field, grammar.Alternative{Regexp: text})
		}
	}
	if r := f.ResponseFormat; r != nil && r.Type != "text" {
		value, err := r.schema()
		if err != nil {
			return "", form, err
		}
		schema("response_format", value)
	}
	schema("json_schema", f.JSONSchema)
	gbnf("grammar", f.Grammar)
	schema("guided_json", f.GuidedJSON)
	expression("guided_regex", f.GuidedRegex)
	expression("guided_choice", anyOf(f.GuidedChoice))
	gbnf("guided_grammar", f.GuidedGrammar)
	expression("regex", f.Regex)
	gbnf("ebnf", f.EBNF)
	if s := f.StructuredOutputs; s != nil {
		schema("structured_outputs.json", s.JSON)
		if s.JSONObject {
			schema("structured_outputs.json_object", anyObject)
		}
		expression("structured_outputs.regex", s.Regex)
		expression("structured_outputs.choice", anyOf(s.Choice))
		gbnf("structured_outputs.grammar", s.Grammar)
		if given(s.Tag) {
			return "", form, unsupported("structured_outputs.structural_tag", "use tools")
		}
	}
	return param, form, err
}

var anyObject = jsontext.Value(`{"type":"object"}`)

// anyOf returns a regular expression for one of some texts, "" for none.
func anyOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = regexp.QuoteMeta(text)
	}
	return "(?:" + strings.Join(quoted, "|") + ")"
}

// schema is that of the answer.
func (f *responseFormat) schema() (jsontext.Value, error) {
	switch f.Type {
	case "json_schema":
		if !given(f.JSONSchema.Schema) {
			return nil, bad("response_format.json_schema.schema", "there is none")
		}
		return f.JSONSchema.Schema, nil
	case "json_object":
		if given(f.Schema) {
			return f.Schema, nil
		}
		return anyObject, nil
	}
	return nil, bad("response_format.type", "%q is not text, json_object or json_schema", f.Type)
}
