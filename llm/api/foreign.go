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
	// with every request. null, an empty text and a list of such values count as such values, too.
	same   []any
	reason string
}

const (
	noSampler   = "use temperature, top_p, top_k and min_p"
	otherOutput = "the answer has another form"
	unitLength  = "embeddings have unit length"
	noBudget    = "thoughts have no limit of their own: use max_tokens, or enable_thinking"
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
	"lora":                 {nil, "this server has no adapters"},
	// How long the answer is:
	"n_predict":              {[]any{-1.0}, "use max_tokens"},
	"t_max_predict_ms":       {[]any{0.0, -1.0}, "use max_tokens"},
	"stop_regex":             {nil, "use stop"},
	"thinking_budget_tokens": {[]any{-1.0}, noBudget},
	"thinking_token_budget":  {[]any{-1.0}, noBudget},
	"reasoning_budget":       {[]any{-1.0}, noBudget},
	// Its form:
	"echo":                       {[]any{false}, "the answer contains only what follows the prompt"},
	"include_stop_str_in_output": {[]any{false}, "an answer ends before the text of stop"},
	"skip_special_tokens":        {[]any{true}, "answers are without special tokens"},
	"return_token_ids":           {[]any{false}, otherOutput},
	"return_tokens_as_token_ids": {[]any{false}, otherOutput},
	"return_text_in_token_ids":   {[]any{false}, otherOutput},
	"detokenize":                 {[]any{true}, "answers are text"},
	"structural_tag":             {nil, "use tools"},
	"modalities":                 {[]any{"text"}, "this model writes text"},
	"n_probs":                    {[]any{0.0}, "use logprobs"},
	"post_sampling_probs":        {[]any{false}, "log-probabilities are those before sampling"},
	"logprob_token_ids":          {nil, "use top_logprobs"},
	"prompt_logprobs":            {nil, "log-probabilities are those of the answer"},
	"include_reasoning":          {[]any{true}, "thoughts are in reasoning_content"},
	"separate_reasoning":         {[]any{true}, "thoughts are in reasoning_content"},
	"reasoning_format":           {[]any{"auto", "deepseek"}, "thoughts are in reasoning_content"},
	// The prompt:
	"truncate_prompt_tokens": {nil, "a prompt is read as a whole"},
	"chat_template":          {nil, "this server uses the model's own"},
	"documents":              {nil, "write them into a message"},
	"web_search_options":     {nil, "this server searches nothing"},
}

// responsesFields are those of /v1/responses, besides foreignFields.
var responsesFields = map[string]foreign{
	"include":    {[]any{"reasoning.encrypted_content"}, "a response has no more than its items"},
	"truncation": {[]any{"disabled"}, "the input is read as a whole"},
}

// tokenizeFields are those of /tokenize, besides foreignFields for chats.
var tokenizeFields = map[string]foreign{
	"parse_special":          {[]any{true}, "special tokens in a text are recognised"},
	"return_token_strs":      {[]any{false}, "the answer has tokens only"},
	"truncate_prompt_tokens": {nil, "a text is read as a whole"},
}

// embeddingsFields are those of /v1/embeddings.
var embeddingsFields = map[string]foreign{
	"truncate_prompt_tokens": {nil, "texts are read as a whole"},
	"normalize":              {[]any{true}, unitLength},
	"embd_normalize":         {[]any{2.0}, unitLength},
	"add_special_tokens":     {[]any{true}, "texts are as the tokenizer begins and ends them: use tokens"},
	"embed_dtype":            {[]any{"float32"}, "numbers are float32"},
	"endianness":             {[]any{"native", "little"}, "the lowest byte is the first"},
	"messages":               {nil, "use input"},
}

// checkForeign refuses these fields among others, the members of a request that are not its own.
func checkForeign(others jsontext.Value, fields map[string]foreign) error {
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
		f, known := fields[name]
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
	if value.Kind() != '[' {
		return f.isSame(value)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(value))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() != ']' {
		if one, err := d.ReadValue(); err != nil || !f.isSame(one) {
			return false
		}
	}
	return true
}

// isSame reports whether a value other than a list asks for what is done anyway.
func (f foreign) isSame(value jsontext.Value) bool {
	switch value.Kind() {
	case 'n':
		return true
	case '{', '[':
		return false
	}
	var v any // a bool, a text or a number
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	return v == "" || slices.Contains(f.same, v)
}
