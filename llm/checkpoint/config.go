package checkpoint

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Config is config.json. Settings that all models share are read into fields; the
// rest depends on the architecture, whose package reads it through Fields. It is
// immutable and safe for concurrent use.
type Config struct {
	ModelType     string      // model_type, such as "qwen3"; may be empty
	Architectures []string    // architectures, such as "Qwen3ForCausalLM"; may be empty
	DType         array.DType // dtype or torch_dtype of the weights; 0 where it is not given
	// BOS and EOS are the token ids that begin and end a text; often empty here
	// and given in generation_config.json.
	BOS, EOS     []int
	Quantization *Quantization // nil for dense weights

	file    string
	members map[string]jsontext.Value
}

// ParseConfig reads config.json; file is its path, for messages. It fails with
// ConfigError, or with UnsupportedError for a dtype or quantization that is not
// known.
func ParseConfig(file string, data []byte) (*Config, error) {
	f, err := newFields(file, data)
	if err != nil {
		return nil, err
	}
	c := &Config{
		ModelType: f.Text("model_type"), Architectures: f.Texts("architectures"), DType: readDType(f),
		BOS: f.IDs("bos_token_id"), EOS: f.IDs("eos_token_id"), Quantization: readQuantization(f),
		file: file, members: f.members,
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// File returns the path of config.json, for messages.
func (c *Config) File() string {
	if c == nil {
		return ""
	}
	return c.file
}

// Fields returns a reader of all members, without an error so far.
func (c *Config) Fields() *Fields {
	if c == nil {
		return fieldsOf("", nil)
	}
	return fieldsOf(c.file, c.members)
}

// readDType reads torch_dtype, which newer files call dtype; 0 where absent.
func readDType(f *Fields) array.DType {
	var out array.DType
	for _, field := range []string{"dtype", "torch_dtype"} {
		name := f.Text(field)
		if name == "" {
			continue
		}
		d, ok := floatDType(name)
		if !ok {
			f.Unsupported(field, name, "float32", "float16", "bfloat16")
		}
		out = d
	}
	return out
}
