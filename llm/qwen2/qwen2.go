// Package qwen2 is the decoder-only transformer of Qwen2 and Qwen2.5 (Qwen2 Technical Report, 2024): that of package llama,
// whose projections of queries, keys and values have biases.
package qwen2

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/llama"
	"github.com/kompute-go/kompute-go/llm/model"
)

func init() {
	model.Register(model.Architecture[llama.Config]{
		Type: "qwen2", Classes: []string{"Qwen2ForCausalLM", "Qwen2Model"}, ReadConfig: ReadConfig,
		Float32: llama.New[float32], Float16: llama.New[kompute.Float16], BFloat16: llama.New[kompute.BFloat16],
	})
}

// ReadConfig reads config.json. It fails with the errors of package checkpoint.
func ReadConfig(raw *checkpoint.Config) (llama.Config, error) {
	f := raw.Fields()
	c := llama.Config{Transformer: model.ReadTransformer(f)}
	c.QKVBias, c.OutBias = true, false              // whatever attention_bias says
	if f.Has("is_causal") && !f.Flag("is_causal") { // an embedding model whose tokens see those after them
		f.Unsupported("is_causal", "false", "true")
	}
	return c, f.Err()
}
