package generate

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Folder is an open model folder: weights, tokenizer and chat template.
//
// It is safe for concurrent use, except for Close.
type Folder struct {
	Spec       model.Spec // the architecture, and its configuration
	Checkpoint *checkpoint.Checkpoint
	Tokenizer  *tokenizer.Tokenizer
	Template   *chat.Template // nil where the folder has none

	eos []int // the token that only tokenizer_config.json names, if any
}

var errNilFolder = fmt.Errorf("%w: the folder is nil", kompute.ErrInvalid)

// Open opens the model folder at a path. It fails with the errors of
// model.Inspect, also for an architecture that is not known, and with the typed
// errors of packages checkpoint, tokenizer and chat, which name the file.
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
	if f.Spec, err = model.Inspect(c); err == nil {
		err = f.readText()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return f, nil
}

// Name returns the folder's name in messages.
func (f *Folder) Name() string {
	if f == nil {
		return ""
	}
	return f.Checkpoint.Name()
}

// Limits returns what the model can take.
func (f *Folder) Limits() model.Limits {
	if f == nil || f.Spec.Config == nil {
		return model.Limits{}
	}
	return f.Spec.Config.Limits()
}

// EOS returns the tokens that end a turn: those of [checkpoint.Checkpoint.EOS] or, if
// there are none, eos_token of tokenizer_config.json, if the tokenizer and the model have it.
func (f *Folder) EOS() []int {
	if f == nil {
		return nil
	}
	if ids := f.Checkpoint.EOS(); len(ids) > 0 {
		return ids
	}
	return slices.Clone(f.eos)
}

// Close closes the weights. Models loaded from the folder must be closed first.
// Closing a nil folder, or one twice, does nothing.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	return f.Checkpoint.Close()
}

// EncodeText returns the tokens of a raw text, after those that the tokenizer puts
// before every text, such as a BOS, unless the text already begins with them.
// Special tokens in the text are recognised. It fails with PromptError for an empty
// text and for one that is far too long for the model's context, with the
// tokenizer's error for invalid UTF-8, and with the context's error once that is
// done.
func (f *Folder) EncodeText(ctx context.Context, text string) ([]int, error) {
	switch {
	case f == nil:
		return nil, errNilFolder
	case text == "":
		return nil, &PromptError{"empty"}
	}
	return f.encode(ctx, text, tokenizer.EncodeOptions{})
}

// EncodeWhole is EncodeText followed by the tokens that the tokenizer puts after every
// text, unless the text already ends with them. It is for embeddings: models such as
// Qwen3-Embedding use the state of that last token.
func (f *Folder) EncodeWhole(ctx context.Context, text string) ([]int, error) {
	ids, err := f.EncodeText(ctx, text)
	if err != nil {
		return nil, err
	}
	if end := f.Tokenizer.Suffix(); !slices.Equal(ids[max(len(ids)-len(end), 0):], end) {
		ids = append(ids, end...)
	}
	return ids, nil
}

// encode puts the tokens that begin every text, such as a BOS, before those of
// text, unless it begins with them already.
func (f *Folder) encode(ctx context.Context, text string, o tokenizer.EncodeOptions) ([]int, error) {
	if err := f.checkBytes(len(text)); err != nil {
		return nil, err
	}
	ids, err := f.Tokenizer.EncodeWith(ctx, text, o)
	if err != nil {
		return nil, err
	}
	if begin := f.Tokenizer.Prefix(); len(begin) > 0 && !slices.Equal(ids[:min(len(begin), len(ids))], begin) {
		ids = append(begin, ids...)
	}
	return ids, nil
}

// shrink is how much shorter a text may become before it is split into tokens:
// composition removes at most two thirds, and added tokens may absorb white space.
const shrink = 4

// checkBytes rejects, before any work on it, a text that would be too long for the
// model's context even if it consisted of the longest tokens.
func (f *Folder) checkBytes(n int) error {
	if most := shrink * f.Limits().Context * f.Tokenizer.Longest(); n > most {
		return &PromptError{fmt.Sprintf("%d bytes exceed what the model's context of %d tokens can hold", n, f.Limits().Context)}
	}
	return nil
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

// EncodeChat returns the tokens of a conversation in the form of the chat template,
// up to where the model's answer begins. Many templates write the token that begins a
// text, such as <|begin_of_text|>, themselves; otherwise it is added.
//
// Only the template can write control tokens: in messages, tools and variables, something
// like <|im_end|> is plain text. Control tokens are the added tokens that are special or
// that the template has in its own text. The assistant's messages may contain those that
// are not special, such as <think>. All this also holds where the template deletes or joins
// parts of a text: a token is a control token only if its first and its last character,
// apart from white space, are the template's, as in '<|' ~ role ~ '|>'. If the template
// replaces text, as in '<' for '&lt;', the replacement is the template's. Text that becomes
// a control token only by normalization is plain text, whoever wrote it.
//
// It fails with PromptError for an empty last message, without a template, and for messages
// far too long for the model's context; with the errors of the template and of the
// tokenizer; and with the context's error once that is done.
func (f *Folder) EncodeChat(ctx context.Context, messages []chat.Message) ([]int, error) {
	return f.EncodeChatWith(ctx, messages, chat.Options{})
}

// EncodeChatWith is EncodeChat with further input for the template: the tools and
// variables of o, such as enable_thinking. With its ContinueLast, the tokens end within the
// last message, which the model continues. Its AddGenerationPrompt and Text are ignored.
// The last message may be empty if it has Extra, as the result of a tool has.
func (f *Folder) EncodeChatWith(ctx context.Context, messages []chat.Message, o chat.Options) ([]int, error) {
	switch {
	case f == nil:
		return nil, errNilFolder
	case len(messages) == 0 || messages[len(messages)-1].Content == "" && len(messages[len(messages)-1].Extra) == 0:
		return nil, &PromptError{"empty"}
	case f.Template == nil:
		return nil, &PromptError{f.Name() + " has no chat template; a raw prompt needs none"}
	}
	bytes := 0
	for _, m := range messages {
		bytes += len(m.Content)
	}
	for _, tool := range o.Tools {
		bytes += len(tool)
	}
	if err := f.checkBytes(bytes); err != nil {
		return nil, err
	}
	for _, m := range messages {
		if !utf8.ValidString(m.Content) {
			return f.Tokenizer.Encode(m.Content) // its error has the position
		}
	}
	marks := &marker{tokenizer: f.Tokenizer, template: f.Template}
	o.AddGenerationPrompt, o.Text = !o.ContinueLast, marks.add
	text, err := f.Template.Render(ctx, messages, o)
	if err != nil {
		return nil, err
	}
	text, plainAt := marks.remove(ctx, text)
	// Normalization may also make a control token of texts that the template joins.
	return f.encode(ctx, text, tokenizer.EncodeOptions{PlainAt: plainAt, AsWritten: true})
}

// CheckPrompt rejects tokens that the model cannot process: none, more than its
// context holds, or some outside its vocabulary.
func (f *Folder) CheckPrompt(ids []int) error { return CheckPrompt(f.Limits(), ids) }

// Load puts the model on a device; see [model.Load].
func (f *Folder) Load(ctx context.Context, d *kompute.Device, o model.Options) (model.Model, error) {
	if f == nil {
		return nil, errNilFolder
	}
	return model.Load(ctx, d, f.Checkpoint, o)
}
