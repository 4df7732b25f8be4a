package api

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// foreign is a field of other servers' requests that changes the answer and is not there. To
// ignore it would give an answer that the client did not ask for.
type foreign struct {
	// The values that ask for what is done anyway: bools, texts and float64. Clients send them
	// with every request. null, an empty text and an empty list count as such values, too.
	same   []any
	reason string
}

const (
	noSampler   = "use temperature, top_p, top_k and min_p"
	otherOutput = "the answer has another form"
)

// foreignFields are those of vLLM, llama.cpp, SGLang and OpenAI.
var foreignFields = map[string]foreign{
	// How tokens are chosen:
	"typical_p":            {[]any{1.0}, noSampler},
	"tfs_z":                {[]any{1.0}, noSampler},
	"top_a":                {[]any{0.0}, noSampler},
	"top_n_sigma":          {[]any{0.0, -1.0}, noSampler},
	"dynatemp_range":       {[]any{0.0}, noSampler},
	"mirostat":             {[]any{0.0}, noSampler},
	"mirostat_mode":        {[]any{0.0}, noSampler},
	"xtc_probability":      {[]any{0.0}, noSampler},
	"dry_multiplier":       {[]any{0.0}, "use frequency_penalty or repetition_penalty"},
	"no_repeat_ngram_size": {[]any{0.0}, "use frequency_penalty or repetition_penalty"},
	"use_beam_search":      {[]any{false}, "tokens are drawn one by one"},
	"length_penalty":       {[]any{1.0}, "tokens are drawn one by one"},
	"best_of":              {[]any{1.0}, "use n"},
	"bad_words":            {nil, "use logit_bias"},
	"allowed_token_ids":    {nil, "use logit_bias"},
	"logits_processors":    {nil, "use logit_bias"},
	// What the answer is:
	"n_predict": {[]any{-1.0}, "use max_tokens"},
	// Its form:
	"echo":                       {[]any{false}, "the answer contains only what follows the prompt"},
	"include_stop_str_in_output": {[]any{false}, "an answer ends before the text of stop"},
	"skip_special_tokens":        {[]any{true}, "answers are without special tokens"},
	"return_token_ids":           {[]any{false}, otherOutput},
	"return_tokens_as_token_ids": {[]any{false}, otherOutput},
	"return_text_in_token_ids":   {[]any{false}, otherOutput},
	"prompt_logprobs":            {nil, "log-probabilities are those of the answer"},
	"separate_reasoning":         {[]any{true}, "thoughts are in reasoning_content"},
	"reasoning_format":           {[]any{"auto", "deepseek"}, "thoughts are in reasoning_content"},
	// The prompt:
	"truncate_prompt_tokens": {nil, "a prompt is read as a whole"},
	"chat_template":          {nil, "this server uses the model's own"},
	"documents":              {nil, "write them into a message"},
	"web_search_options":     {nil, "this server searches nothing"},
}

// checkForeign refuses fields among others, the members of a request that are not its own.
func checkForeign(others jsontext.Value) error {
	if len(others) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(others))
	if _, err := d.ReadToken(); err != nil {
		return jsonError(err)
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return jsonError(err)
		}
		name := token.String()
		f, known := foreignFields[name]
		if !known {
			if err := d.SkipValue(); err != nil {
				return jsonError(err)
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return jsonError(err)
		}
		if !f.asksNothing(value) {
			return unsupported(name, f.reason)
		}
	}
	return nil
}

// asksNothing reports whether a value asks for what is done anyway.
func (f foreign) asksNothing(value jsontext.Value) bool {
	switch value.Kind() {
	case 'n':
		return true
	case '[':
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	case '{':
		return false
	}
	var v any // a bool, a text or a number
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	return v == "" || slices.Contains(f.same, v)
}
