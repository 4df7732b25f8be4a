// Package llama is the decoder-only transformer of Llama 3 (Grattafiori et al.,
// 2024): pre-norm blocks of grouped-query attention and a gated MLP, with rotary
// frequencies that are scaled for contexts longer than those of the pretraining.
package llama

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
)

func init() {
	model.Register(model.Architecture[Config]{
		Type: "llama", Classes: []string{"LlamaForCausalLM", "LlamaModel"}, ReadConfig: ReadConfig,
		Float32: New[float32], Float16: New[kompute.Float16], BFloat16: New[kompute.BFloat16],
	})
}

// Config is the configuration of a Llama model, from config.json.
type Config struct {
	model.Transformer
	MLPBias bool // gate, up and down projections have a bias
}

// ReadConfig reads config.json. It fails with the errors of package checkpoint.
func ReadConfig(raw *checkpoint.Config) (Config, error) {
	f := raw.Fields()
	c := Config{Transformer: model.ReadTransformer(f), MLPBias: f.Flag("mlp_bias")}
	return c, f.Err()
}

// New builds the network from the names that Llama checkpoints use.
func New[T kompute.Float](l *model.Loader[T], c Config) model.Network[T] {
	rope := l.RoPE(c.Transformer)
	return l.Decoder(c.Transformer, func(path string) nn.Block[T] {
		return nn.Block[T]{
			AttentionNorm: l.RMSNorm(path+"input_layernorm", c.HiddenSize, c.RMSNormEps),
			Attention:     l.Attention(path+"self_attn.", c.Transformer, rope),
			MLPNorm:       l.RMSNorm(path+"post_attention_layernorm", c.HiddenSize, c.RMSNormEps),
			MLP:           l.GatedMLP(path+"mlp.", c.Transformer, c.MLPBias),
		}
	})
}
