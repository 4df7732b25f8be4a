// Package qwen3 is the decoder-only transformer of the Qwen3 Technical Report
// (2025): pre-norm blocks of grouped-query attention, with a norm over each head
// of queries and keys, and a gated MLP.
package qwen3

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

func init() {
	model.Register(model.Architecture[Config]{
		Type: "qwen3", Classes: []string{"Qwen3ForCausalLM", "Qwen3Model"}, ReadConfig: ReadConfig,
		Float32: New[float32], Float16: New[kompute.Float16], BFloat16: New[kompute.BFloat16],
	})
}

// Config is the configuration of a Qwen3 model, from config.json.
type Config struct{ model.Transformer }

// ReadConfig reads config.json. It fails with the errors of package checkpoint.
func ReadConfig(raw *checkpoint.Config) (Config, error) {
	f := raw.Fields()
	c := Config{model.ReadTransformer(f)}
	if c.RopeTraditional { // mlx_lm and transformers would ignore it
		f.Unsupported("rope_traditional", "true", "false")
	}
	return c, f.Err()
}

// New builds the network from the names that Qwen3 checkpoints use.
func New[T kompute.Float](l *model.Loader[T], c Config) model.Network[T] {
	rope := l.RoPE(c.Transformer)
	return l.Decoder(c.Transformer, func(path string) nn.Block[T] {
		b := nn.Block[T]{
			AttentionNorm: l.RMSNorm(path+"input_layernorm", c.HiddenSize, c.RMSNormEps),
			Attention:     l.Attention(path+"self_attn.", c.Transformer, rope),
			MLPNorm:       l.RMSNorm(path+"post_attention_layernorm", c.HiddenSize, c.RMSNormEps),
			MLP:           l.GatedMLP(path+"mlp.", c.Transformer, false),
		}
		b.Attention.QNorm = l.RMSNorm(path+"self_attn.q_norm", c.HeadDim, c.RMSNormEps)
		b.Attention.KNorm = l.RMSNorm(path+"self_attn.k_norm", c.HeadDim, c.RMSNormEps)
		return b
	})
}
