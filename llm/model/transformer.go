package model

import (
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Transformer is the part of config.json that decoder-only transformers with
// grouped-query attention, a gated MLP and RoPE have in common. All sizes are
// positive and agree with one another.
type Transformer struct {
	HiddenSize        int // H, the width of the residual stream
	IntermediateSize  int // width of the MLP
	Layers            int // num_hidden_layers
	Heads             int // num_attention_heads, a multiple of KVHeads
	KVHeads           int // num_key_value_heads (default: Heads)
	HeadDim           int // head_dim, even (default: HiddenSize/Heads)
	VocabSize         int
	MaxPositions      int     // the longest context, in tokens: max_position_embeddings, or more with a YarnScaling
	RMSNormEps        float64 // rms_norm_eps
	RopeTheta         float64 // rope_theta: base of the rotary frequencies
	RopeTraditional   bool    // rope_traditional: RoPE rotates neighbours, elements 2i and 2i+1
	Scaling           Scaling // of RoPE; nil: none
	TieWordEmbeddings bool    // the logits use embed_tokens; there is no lm_head
	TieWithoutHead    bool    // the same holds if there is no lm_head: tie_word_embeddings is not given
	QKVBias, OutBias  bool    // q, k and v projections, and that of the output, have a bias (attention_bias: both)
}

const maxLayers = 1 << 14

// ReadTransformer reads those fields. Wrong values, and settings that would change
// the formula (an activation other than SiLU, an attention window, a form of RoPE
// scaling that is not known), become f's error.
func ReadTransformer(f *checkpoint.Fields) Transformer {
	t := Transformer{
		HiddenSize:        f.Size("hidden_size"),
		IntermediateSize:  f.Size("intermediate_size"),
		Layers:            f.Size("num_hidden_layers"),
		Heads:             f.Size("num_attention_heads"),
		VocabSize:         f.Size("vocab_size"),
		MaxPositions:      f.Size("max_position_embeddings"),
		RMSNormEps:        f.Number("rms_norm_eps", 1e-6, 0, 1),
		RopeTraditional:   f.Flag("rope_traditional"),
		TieWordEmbeddings: f.Flag("tie_word_embeddings"),
		TieWithoutHead:    !f.Has("tie_word_embeddings"),
		QKVBias:           f.Flag("attention_bias"),
	}
	t.OutBias = t.QKVBias
	t.KVHeads = f.SizeOr("num_key_value_heads", t.Heads)
	t.readHeadDim(f)
	t.RopeTheta = readTheta(f)
	t.readScaling(f)
	checkVariants(f)
	return t
}

// readHeadDim derives head_dim and checks that the heads divide.
func (t *Transformer) readHeadDim(f *checkpoint.Fields) {
	if !f.Has("head_dim") && t.HiddenSize%t.Heads != 0 {
		f.Fail("head_dim", "missing, and hidden_size %d is not a multiple of num_attention_heads %d", t.HiddenSize, t.Heads)
	}
	t.HeadDim = f.SizeOr("head_dim", max(t.HiddenSize/t.Heads, 1))
	switch {
	case t.Heads%t.KVHeads != 0:
		f.Fail("num_key_value_heads", "%d does not divide num_attention_heads %d", t.KVHeads, t.Heads)
	case t.HeadDim%2 != 0:
		f.Fail("head_dim", "%d is odd, and RoPE rotates pairs", t.HeadDim)
	case t.Heads > checkpoint.MaxSize/t.HeadDim:
		f.Fail("head_dim", "%d heads of %d exceed %d", t.Heads, t.HeadDim, checkpoint.MaxSize)
	case t.Layers > maxLayers:
		f.Fail("num_hidden_layers", "%d exceeds %d", t.Layers, maxLayers)
	}
}

// checkVariants rejects options that change the formula.
func checkVariants(f *checkpoint.Fields) {
	const silu = "silu"
	if act := f.Text("hidden_act"); act != "" && act != silu {
		f.Unsupported("hidden_act", act, silu)
	}
	if f.Flag("use_sliding_window") {
		f.Unsupported("use_sliding_window", "true", "false")
	}
	for _, typ := range f.Texts("layer_types") {
		if typ != "full_attention" {
			f.Unsupported("layer_types", typ, "full_attention")
		}
	}
}

// Limits implements [Config].
func (t Transformer) Limits() Limits {
	return Limits{Vocabulary: t.VocabSize, Context: t.MaxPositions, Width: t.HiddenSize}
}

// Cache implements [Config].
func (t Transformer) Cache() nn.CacheShape {
	return nn.CacheShape{Layers: t.Layers, KVHeads: t.KVHeads, HeadDim: t.HeadDim, MaxTokens: t.MaxPositions}
}
