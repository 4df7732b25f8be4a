package api

import (
	"bytes"
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// common has the fields that requests for chats and for texts share. A nil field
// was not given. Unknown fields are ignored, as OpenAI's clients expect, except for foreignFields.
type common struct {
	form
	Model         string   `json:"model"`
	MaxTokens     *int     `json:"max_tokens"`
	Temperature   *float64 `json:"temperature"`
	TopP          *float64 `json:"top_p"`
	MinP          *float64 `json:"min_p"`
	TopK          *int     `json:"top_k"`
	Seed          *int64   `json:"seed"`
	N             *int     `json:"n"`
	Stop          texts    `json:"stop"`
	Stream        bool     `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MinTokens         int             `json:"min_tokens"`
	PresencePenalty   float64         `json:"presence_penalty"`
	FrequencyPenalty  float64         `json:"frequency_penalty"`
	RepetitionPenalty float64         `json:"repetition_penalty"`
	LogitBias         map[int]float64 `json:"logit_bias"` // by token
	// Extensions of other servers:
	RepeatPenalty float64        `json:"repeat_penalty"` // llama.cpp's name of repetition_penalty
	RepeatLastN   *int           `json:"repeat_last_n"`  // llama.cpp's; penalties are for all tokens
	IgnoreEOS     bool           `json:"ignore_eos"`     // only the limit of tokens and stops end the answer
	StopTokens    []int          `json:"stop_token_ids"`
	Others        jsontext.Value `json:",embed"` // the members that have no field
}

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	common
	Messages            []message                 `json:"messages"`
	MaxCompletionTokens *int                      `json:"max_completion_tokens"`
	Tools               tools                     `json:"tools"`
	ToolChoice          jsontext.Value            `json:"tool_choice"`
	ParallelToolCalls   *bool                     `json:"parallel_tool_calls"`
	ReasoningEffort     string                    `json:"reasoning_effort"`
	EnableThinking      *bool                     `json:"enable_thinking"` // short for this variable of the template
	GenerationPrompt    *bool                     `json:"add_generation_prompt"`
	ContinueLast        bool                      `json:"continue_final_message"`
	TemplateArguments   map[string]jsontext.Value `json:"chat_template_kwargs"`
	Logprobs            bool                      `json:"logprobs"`
	TopLogprobs         int                       `json:"top_logprobs"`
	Functions           jsontext.Value            `json:"functions"`
	Audio               jsontext.Value            `json:"audio"`
	strict              map[string]bool           // tools whose calls fit their parameters, besides those that say so
}

// tools are definitions of functions.
type tools []stdjson.RawMessage

// UnmarshalJSONFrom accepts an array of objects, or null. It stops at the first other value, before it takes memory for
// those after it.
func (t *tools) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '[' {
		return json.UnmarshalDecode(d, (*[]stdjson.RawMessage)(t))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '{' {
		one, err := d.ReadValue()
		if err != nil {
			return err
		}
		*t = append(*t, bytes.Clone(one))
	}
	if d.PeekKind() != ']' {
		if err := json.UnmarshalDecode(d, new(map[string]jsontext.Value)); err != nil {
			return err // says what is wrong, and where
		}
		return errors.New("null among the tools")
	}
	_, err := d.ReadToken()
	return err
}

// textRequest is the body of /v1/completions.
type textRequest struct {
	common
	Prompt   prompts `json:"prompt"`
	Logprobs *int    `json:"logprobs"`
	Echo     bool    `json:"echo"`
	Suffix   string  `json:"suffix"`
	BestOf   *int    `json:"best_of"`
}

// texts is one text or several.
type texts []string

// UnmarshalJSON accepts a string, null, or an array of strings.
func (t *texts) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() != '"' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = make(texts, 1)
	return json.Unmarshal(data, &(*t)[0])
}

// prompts are texts, or tokens where ids is not nil.
type prompts struct {
	texts texts
	ids   [][]int
}

// UnmarshalJSON accepts a string, or an array of strings, of tokens, or of
// arrays of tokens.
func (p *prompts) UnmarshalJSON(data []byte) error {
	wrong := errors.New("not a string, an array of strings, of tokens, or of arrays of tokens")
	var ids []int
	switch {
	case json.Unmarshal(data, &p.ids) == nil && len(p.ids) > 0:
	case json.Unmarshal(data, &ids) == nil && len(ids) > 0:
		p.ids = [][]int{ids}
	default:
		p.ids = nil
		if json.Unmarshal(data, &p.texts) != nil {
			return wrong
		}
		return nil
	}
	if bytes.Contains(data, []byte("null")) { // would be token 0
		return wrong
	}
	return nil
}
