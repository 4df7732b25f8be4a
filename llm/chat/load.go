package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/internal/modelfile"
	"github.com/kompute-go/kompute-go/llm/chat/internal/jinja"
)

// The files that a chat template may be in. ToolTemplateFile is beside TemplateFile.
const (
	TemplateFile        = "chat_template.jinja"
	ToolTemplateFile    = "additional_chat_templates/tool_use.jinja"
	TokenizerConfigFile = "tokenizer_config.json"
)

// The templates used where a model has several: ToolName for conversations with tools.
const (
	DefaultName = "default"
	ToolName    = "tool_use"
)

// maxConfig is the largest tokenizer_config.json, in bytes.
const maxConfig = 16 << 20

// Open finds the default template of a model folder: chat_template.jinja, which
// newer models have, or else tokenizer_config.json. If there is one named "tool_use"
// with it, that is used for conversations with tools, as in transformers. It fails with
// NoTemplateError, FormatError or TemplateError, and with FileError for a file that
// cannot be read, is not a plain file or is too large.
func Open(fsys fs.FS) (*Template, error) {
	config, err := modelfile.Read(fsys, TokenizerConfigFile, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		config, err = []byte("{}"), nil
	}
	if err != nil {
		return nil, &FileError{TokenizerConfigFile, modelfile.Cause(err)}
	}
	sources := map[string]string{}
	if err := readSource(fsys, TemplateFile, DefaultName, sources); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return Load(config)
	}
	if err := readSource(fsys, ToolTemplateFile, ToolName, sources); err != nil {
		return nil, err
	}
	fields, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	return compileBoth(sources, DefaultName, fields)
}

// readSource adds the source of a template that is a file of its own, if it exists.
func readSource(fsys fs.FS, file, name string, sources map[string]string) error {
	source, err := modelfile.Read(fsys, file, jinja.MaxSource)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &FileError{file, modelfile.Cause(err)}
	}
	sources[name] = string(source)
	return nil
}

// Load compiles the chat_template of a tokenizer_config.json: a string, or a
// list of {"name", "template"}, of which it takes "default" or the only one, and
// "tool_use" for conversations with tools. It fails with NoTemplateError, FormatError or
// TemplateError.
func Load(tokenizerConfig []byte) (*Template, error) { return LoadNamed(tokenizerConfig, "") }

// LoadNamed is Load for one of several templates, such as "tool_use", whether there are
// tools or not. The empty name is that of Load.
func LoadNamed(tokenizerConfig []byte, name string) (*Template, error) {
	fields, err := parseConfig(tokenizerConfig)
	if err != nil {
		return nil, err
	}
	sources, err := templates(fields["chat_template"])
	if err != nil {
		return nil, err
	}
	known := slices.Sorted(maps.Keys(sources))
	with := compile
	if name == "" {
		name, with = DefaultName, compileBoth
		if len(known) == 1 {
			name = known[0]
		}
	}
	switch _, ok := sources[name]; {
	case len(known) == 0:
		return nil, &NoTemplateError{}
	case !ok:
		return nil, &NoTemplateError{Name: name, Known: known}
	}
	return with(sources, name, fields)
}

func parseConfig(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, &FormatError{Reason: "not valid UTF-8"}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, &FormatError{Reason: err.Error()}
	}
	return fields, nil
}

// templates returns the sources by name.
func templates(raw json.RawMessage) (map[string]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var source string
	if json.Unmarshal(raw, &source) == nil {
		return map[string]string{DefaultName: source}, nil
	}
	var list []struct{ Name, Template *string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, &FormatError{Field: "chat_template", Reason: "neither a string nor a list of named templates"}
	}
	out := map[string]string{}
	for i, entry := range list {
		if entry.Name == nil || entry.Template == nil {
			return nil, &FormatError{Field: "chat_template", Reason: fmt.Sprintf("entry %d has no name or no template", i)}
		}
		if _, dup := out[*entry.Name]; dup {
			return nil, &FormatError{Field: "chat_template", Reason: fmt.Sprintf("two templates are named %q", *entry.Name)}
		}
		out[*entry.Name] = *entry.Template
	}
	return out, nil
}

// compileBoth is compile with the template for conversations with tools, if there is one.
func compileBoth(sources map[string]string, name string, fields map[string]json.RawMessage) (*Template, error) {
	t, err := compile(sources, name, fields)
	if _, ok := sources[ToolName]; !ok || err != nil {
		return t, err
	}
	if t.withTools, err = compile(sources, ToolName, fields); err != nil {
		return nil, fmt.Errorf("%s: %w", ToolName, err)
	}
	return t, nil
}

// compile parses a template and adds the special tokens, which templates use by
// name: bos_token, eos_token, pad_token, …
func compile(sources map[string]string, name string, fields map[string]json.RawMessage) (*Template, error) {
	source := sources[name]
	if !utf8.ValidString(source) {
		return nil, &TemplateError{Stage: "parse", Reason: "not valid UTF-8"}
	}
	t, err := Parse(source)
	if err != nil {
		return nil, err
	}
	t.tokens = map[string]string{}
	for name, raw := range fields {
		if !strings.HasSuffix(name, "_token") {
			continue
		}
		var text string
		var token struct{ Content *string }
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			t.tokens[name] = text
		case json.Unmarshal(raw, &token) == nil && token.Content != nil:
			t.tokens[name] = *token.Content
		}
	}
	return t, nil
}
