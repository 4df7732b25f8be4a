package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// shape holds what determines the speed of a Qwen3 model.
type shape struct {
	size
	packing checkpoint.Packing
}

type size struct {
	name                    string
	layers, hidden          int
	heads, kvHeads, headDim int
	intermediate, vocab     int
	tied                    bool
}

// sizes are those of the published Qwen3 models.
var sizes = []size{
	{"tiny", 2, 256, 4, 2, 64, 768, 2048, true},
	{"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, true},
	{"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, true},
	{"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, true},
	{"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, false},
}

// findShape returns the shape of --shape and --packing.
func findShape(name, packing string) (shape, error) {
	i := slices.IndexFunc(sizes, func(s size) bool { return s.name == strings.ToLower(name) })
	if i >= 0 {
		p, err := parsePacking(packing)
		return shape{sizes[i], p}, err
	}
	var names []string
	for _, s := range sizes {
		names = append(names, s.name)
	}
	return shape{}, fmt.Errorf("--shape: %q is none of %s or demo", name, strings.Join(names, ", "))
}

// config is the shape's config.json.
func (s shape) config() map[string]any {
	return map[string]any{
		"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3", "hidden_act": "silu",
		"hidden_size": s.hidden, "intermediate_size": s.intermediate, "num_hidden_layers": s.layers,
		"num_attention_heads": s.heads, "num_key_value_heads": s.kvHeads, "head_dim": s.headDim,
		"max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_scaling": nil,
		"tie_word_embeddings": s.tied, "attention_bias": false, "torch_dtype": "bfloat16", "vocab_size": s.vocab,
		"bos_token_id": 0, "eos_token_id": 1,
		"quantization": packingConfig(s.packing),
	}
}

// module is one quantized matrix, [out, in].
type module struct {
	path    string
	out, in int
}

// modules lists every quantized matrix of the model.
func (s shape) modules() []module {
	list := []module{{"model.embed_tokens", s.vocab, s.hidden}}
	if !s.tied {
		list = append(list, module{"lm_head", s.vocab, s.hidden})
	}
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		list = append(list,
			module{at + "self_attn.q_proj", q, s.hidden},
			module{at + "self_attn.k_proj", kv, s.hidden},
			module{at + "self_attn.v_proj", kv, s.hidden},
			module{at + "self_attn.o_proj", s.hidden, q},
			module{at + "mlp.gate_proj", s.intermediate, s.hidden},
			module{at + "mlp.up_proj", s.intermediate, s.hidden},
			module{at + "mlp.down_proj", s.hidden, s.intermediate})
	}
	return list
}

// norms lists the length of every norm's weight, by name.
func (s shape) norms() map[string]int {
	list := map[string]int{"model.norm.weight": s.hidden}
	for i := range s.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		list[at+"input_layernorm.weight"] = s.hidden
		list[at+"post_attention_layernorm.weight"] = s.hidden
		list[at+"self_attn.q_norm.weight"] = s.headDim
		list[at+"self_attn.k_norm.weight"] = s.headDim
	}
	return list
}
