package checkpoint

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Config is what config.json says about a Qwen3 model. All sizes are positive
// and agree with one another.
type Config struct {
	Architecture      string // "Qwen3ForCausalLM"
	ModelType         string // "qwen3"
	HiddenSize        int    // width of the residual stream
	IntermediateSize  int    // width of the MLP
	Layers            int    // num_hidden_layers
	Heads             int    // num_attention_heads, a multiple of KVHeads
	KVHeads           int    // num_key_value_heads (default: Heads)
	HeadDim           int    // head_dim, even (default: HiddenSize/Heads)
	VocabSize         int
	MaxPositions      int     // max_position_embeddings: the longest context, in tokens
	RMSNormEps        float64 // rms_norm_eps
	RopeTheta         float64 // rope_theta: base of the rotary frequencies
	TieWordEmbeddings bool    // the logits use embed_tokens; there is no lm_head
	AttentionBias     bool    // q, k, v and o projections have a bias
	DType             array.DType
	// BOS and EOS are the token ids that begin and end a text; often empty here
	// and given in generation_config.json.
	BOS, EOS     []int
	Quantization *Quantization // nil for dense weights
}

const (
	architecture = "Qwen3ForCausalLM"
	modelType    = "qwen3"
	activation   = "silu"
	maxLayers    = 1 << 14
)

// ParseConfig reads config.json; file is its path, for messages. It fails with
// ConfigError, or with UnsupportedError for an architecture, activation,
// attention window, RoPE scaling, dtype or quantization that is not known.
func ParseConfig(file string, data []byte) (*Config, error) {
	f, err := newFields(file, data)
	if err != nil {
		return nil, err
	}
	c := &Config{Architecture: architecture, ModelType: f.text("model_type")}
	checkArchitecture(f, c.ModelType)
	c.HiddenSize = f.size("hidden_size", required)
	c.IntermediateSize = f.size("intermediate_size", required)
	c.Layers = f.size("num_hidden_layers", required)
	c.Heads = f.size("num_attention_heads", required)
	c.KVHeads = f.size("num_key_value_heads", c.Heads)
	c.VocabSize = f.size("vocab_size", required)
	c.MaxPositions = f.size("max_position_embeddings", required)
	c.RMSNormEps = f.number("rms_norm_eps", 1e-6, 0, 1)
	c.TieWordEmbeddings = f.boolean("tie_word_embeddings")
	c.AttentionBias = f.boolean("attention_bias")
	c.BOS = f.ids("bos_token_id", 0)
	c.EOS = f.ids("eos_token_id", c.VocabSize)
	c.readHeads(f)
	c.readRope(f)
	c.readDType(f)
	checkVariants(f)
	c.Quantization = readQuantization(f)
	if f.err != nil {
		return nil, f.err
	}
	return c, nil
}

// checkArchitecture refuses everything but Qwen3 for causal language modelling.
func checkArchitecture(f *fields, got string) {
	names := f.texts("architectures")
	if len(names) > 0 && !slices.Contains(names, architecture) {
		f.unsupported("architecture", names[0], architecture)
	}
	switch got {
	case modelType:
	case "":
		f.fail("model_type", "missing")
	default:
		f.unsupported("model_type", got, modelType)
	}
}

// readHeads derives head_dim and checks that the heads divide.
func (c *Config) readHeads(f *fields) {
	if f.err != nil {
		return
	}
	if _, given := f.get("head_dim"); !given && c.HiddenSize%c.Heads != 0 {
		f.fail("head_dim", "missing, and hidden_size %d is not a multiple of num_attention_heads %d", c.HiddenSize, c.Heads)
		return
	}
	c.HeadDim = f.size("head_dim", max(c.HiddenSize/c.Heads, 1))
	switch {
	case c.Heads%c.KVHeads != 0:
		f.fail("num_key_value_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	case c.HeadDim%2 != 0:
		f.fail("head_dim", "%d is odd, and RoPE rotates pairs", c.HeadDim)
	case c.Heads > maxDim/c.HeadDim:
		f.fail("head_dim", "%d heads of %d exceed %d", c.Heads, c.HeadDim, maxDim)
	case c.Layers > maxLayers:
		f.fail("num_hidden_layers", "%d exceeds %d", c.Layers, maxLayers)
	}
}

// readRope reads the base and refuses every scaling. Newer files keep both in
// rope_parameters.
func (c *Config) readRope(f *fields) {
	const low, high = 1, 1e15
	c.RopeTheta = f.number("rope_theta", 10_000, low, high)
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		inner := f.nested(name)
		if inner == nil {
			continue
		}
		kind := inner.text("rope_type")
		if kind == "" {
			kind = inner.text("type")
		}
		if kind != "default" {
			inner.unsupported("RoPE scaling", kind, "default")
		}
		c.RopeTheta = inner.number("rope_theta", c.RopeTheta, low, high)
		f.adopt(name, inner)
	}
}

// readDType reads torch_dtype, which newer files call dtype; 0 where absent.
func (c *Config) readDType(f *fields) {
	for _, field := range []string{"dtype", "torch_dtype"} {
		name := f.text(field)
		if name == "" {
			continue
		}
		d, ok := floatDType(name)
		if !ok {
			f.unsupported(field, name, "float32", "float16", "bfloat16")
		}
		c.DType = d
	}
}

// checkVariants refuses Qwen3 options that change the formula.
func checkVariants(f *fields) {
	if act := f.text("hidden_act"); act != "" && act != activation {
		f.unsupported("hidden_act", act, activation)
	}
	if f.boolean("use_sliding_window") {
		f.unsupported("use_sliding_window", "true", "false")
	}
	for _, typ := range f.texts("layer_types") {
		if typ != "full_attention" {
			f.unsupported("layer_types", typ, "full_attention")
		}
	}
}
