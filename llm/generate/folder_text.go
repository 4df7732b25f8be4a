package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// readText reads chat template and tokenizer.
func (f *Folder) readText() error {
	if err := f.readTemplate(); err != nil {
		return err
	}
	config, err := f.tokenizerConfig()
	if err != nil {
		return err
	}
	data, err := f.Checkpoint.ReadFile(checkpoint.TokenizerFile)
	if err != nil {
		return err
	}
	if f.Tokenizer, err = tokenizer.LoadWith(data, config); err != nil {
		return f.tokenizerError(err)
	}
	f.findEOS(config.EOS)
	return nil
}

func (f *Folder) readTemplate() (err error) {
	f.Template, err = chat.Open(f.Checkpoint.FS())
	if err == nil || errors.Is(err, chat.ErrNoTemplate) {
		return nil
	}
	if unreadable := new(chat.FileError); errors.As(err, &unreadable) {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	file := chat.TokenizerConfigFile
	if _, missing := fs.Stat(f.Checkpoint.FS(), chat.TemplateFile); missing == nil && errors.Is(err, chat.ErrTemplate) {
		file = chat.TemplateFile
	}
	return fmt.Errorf("%s: %w", path.Join(f.Name(), file), err)
}

// tokenizerConfig reads tokenizer_config.json. Without the file it is empty.
func (f *Folder) tokenizerConfig() (*tokenizer.Config, error) {
	data, err := f.Checkpoint.ReadFile(checkpoint.TokenizerConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return &tokenizer.Config{}, nil
	}
	if err != nil {
		return nil, err
	}
	config, err := tokenizer.ParseConfig(data)
	if err != nil {
		return nil, f.tokenizerError(err)
	}
	return config, nil
}

// tokenizerError puts the path of the file that an error is about before it.
func (f *Folder) tokenizerError(err error) error {
	file := checkpoint.TokenizerFile
	if config := new(tokenizer.ConfigError); errors.As(err, &config) {
		file = checkpoint.TokenizerConfigFile
	}
	return fmt.Errorf("%s: %w", path.Join(f.Name(), file), err)
}

// findEOS looks up the token that tokenizer_config.json names, where no other file gives the id of one. It ends
// nothing if the tokenizer or the model does not have it.
func (f *Folder) findEOS(token string) {
	if token == "" || len(f.Checkpoint.EOS()) > 0 {
		return
	}
	if id, ok := f.Tokenizer.ID(token); ok && id < f.Limits().Vocabulary {
		f.eos = []int{id}
	}
}
