// Package qwen2 is the decoder-only transformer of Qwen2 and Qwen2.5 (Qwen2 Technical Report, 2024): pre-norm blocks of
// grouped-query attention, whose projections of queries, keys and values have biases, and a gated MLP.
package qwen2

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

func init() {
	model.Register(model.Architecture[Config]{
		Type: "qwen2", Class: "Qwen2ForCausalLM", Classes: []string{"Qwen2Model"}, ReadConfig: ReadConfig,
		Float32: New[float32], Float16: New[kompute.Float16], BFloat16: New[kompute.BFloat16],
	})
}

// Config is the configuration of a Qwen2 model, from config.json.
type Config struct{ model.Transformer }

// ReadConfig reads config.json. It fails with the errors of package checkpoint.
func ReadConfig(raw *checkpoint.Config) (Config, error) {
	f := raw.Fields()
	c := Config{model.ReadTransformer(f)}
	c.QKVBias, c.OutBias = true, false              // whatever attention_bias says
	if f.Has("is_causal") && !f.Flag("is_causal") { // an embedding model whose tokens see those after them
		f.Unsupported("is_causal", "false", "true")
	}
	return c, f.Err()
}

// New builds the network from the names that Qwen2 checkpoints use.
func New[T kompute.Float](l *model.Loader[T], c Config) model.Network[T] {
	rope := l.RoPE(c.Transformer)
	return l.Decoder(c.Transformer, func(path string) nn.Block[T] {
		return nn.Block[T]{
			AttentionNorm: l.RMSNorm(path+"input_layernorm", c.HiddenSize, c.RMSNormEps),
			Attention:     l.Attention(path+"self_attn.", c.Transformer, rope),
			MLPNorm:       l.RMSNorm(path+"post_attention_layernorm", c.HiddenSize, c.RMSNormEps),
			MLP:           l.GatedMLP(path+"mlp.", c.Transformer, false),
		}
	})
}
