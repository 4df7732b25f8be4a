package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Folder is an open model folder: weights, tokenizer and chat template.
type Folder struct {
	Checkpoint *checkpoint.Checkpoint
	Tokenizer  *tokenizer.Tokenizer
	Template   *chat.Template // nil where the folder has none
}

// Open opens the model folder at a path. It fails with the typed errors of
// packages checkpoint, tokenizer and chat, which name the file.
func Open(dir string) (*Folder, error) {
	return open(checkpoint.Open(dir))
}

// OpenFS opens the model folder at the root of fsys; name stands for it in
// messages.
func OpenFS(fsys fs.FS, name string) (*Folder, error) {
	return open(checkpoint.OpenFS(fsys, name))
}

func open(c *checkpoint.Checkpoint, err error) (*Folder, error) {
	if err != nil {
		return nil, err
	}
	f := &Folder{Checkpoint: c}
	if err := f.readText(); err != nil {
		c.Close()
		return nil, err
	}
	return f, nil
}

// Name returns what stands for the folder in messages.
func (f *Folder) Name() string { return f.Checkpoint.Name() }

// EOS returns the tokens that end a turn.
func (f *Folder) EOS() []int { return f.Checkpoint.EOS() }

// Close closes the weights. Models loaded from the folder must be closed before.
func (f *Folder) Close() error { return f.Checkpoint.Close() }

// readText reads tokenizer and chat template.
func (f *Folder) readText() error {
	data, err := f.Checkpoint.ReadFile(checkpoint.TokenizerFile)
	if err != nil {
		return err
	}
	if f.Tokenizer, err = tokenizer.Load(data); err != nil {
		return fmt.Errorf("%s: %w", path.Join(f.Name(), checkpoint.TokenizerFile), err)
	}
	f.Template, err = chat.Open(f.Checkpoint.FS())
	if errors.Is(err, chat.ErrNoTemplate) {
		err = nil
	}
	if err != nil {
		file := chat.TokenizerConfigFile
		if _, missing := fs.Stat(f.Checkpoint.FS(), chat.TemplateFile); missing == nil && errors.Is(err, chat.ErrTemplate) {
			file = chat.TemplateFile
		}
		return fmt.Errorf("%s: %w", path.Join(f.Name(), file), err)
	}
	return nil
}

// EncodeText returns the tokens of a text as it is. It fails with PromptError
// for an empty text and with the tokenizer's error for invalid UTF-8.
func (f *Folder) EncodeText(text string) ([]int, error) {
	if text == "" {
		return nil, &PromptError{"empty"}
	}
	return f.Tokenizer.Encode(text)
}

// Turn returns a conversation of one user message, after a system message
// where that is not empty.
func Turn(system, user string) []chat.Message {
	var out []chat.Message
	if system != "" {
		out = append(out, chat.Message{Role: "system", Content: system})
	}
	return append(out, chat.Message{Role: "user", Content: user})
}

// EncodeChat returns the tokens of a conversation in the form of the chat
// template, up to where the model's answer begins. It fails with PromptError
// for an empty last message or without a template, and with the errors of the
// template and of the tokenizer.
func (f *Folder) EncodeChat(messages []chat.Message) ([]int, error) {
	switch {
	case len(messages) == 0 || messages[len(messages)-1].Content == "":
		return nil, &PromptError{"empty"}
	case f.Template == nil:
		return nil, &PromptError{f.Name() + " has no chat template; a raw prompt needs none"}
	}
	for _, m := range messages {
		if !utf8.ValidString(m.Content) {
			return f.Tokenizer.Encode(m.Content) // its error says where
		}
	}
	text, err := f.Template.Render(messages, chat.Options{AddGenerationPrompt: true})
	if err != nil {
		return nil, err
	}
	return f.Tokenizer.Encode(text)
}

// CheckPrompt refuses tokens that the model cannot take: none, more than its
// context holds, or some outside its vocabulary.
func (f *Folder) CheckPrompt(ids []int) error { return checkPrompt(f.Checkpoint.Config, ids) }

// Load puts the model on a device; see [model.Load].
func (f *Folder) Load(d *kompute.Device, o model.Options) (model.Model, error) {
	return model.Load(d, f.Checkpoint, o)
}
