package checkpoint

// Generation is what generation_config.json recommends for sampling. A nil
// field is one that the file does not give.
type Generation struct {
	BOS, EOS    []int // the file gives one id or a list
	DoSample    bool
	Temperature *float64 // ≥ 0
	TopP        *float64 // 0 … 1
	MinP        *float64 // 0 … 1
	TopK        *int     // ≥ 0; 0 means all tokens
}

// ParseGeneration reads generation_config.json; file is its path, for messages.
// Token ids must be below vocabSize. It fails with ConfigError.
func ParseGeneration(file string, data []byte, vocabSize int) (*Generation, error) {
	f, err := newFields(file, data)
	if err != nil {
		return nil, err
	}
	g := &Generation{
		BOS:         f.ids("bos_token_id", 0),
		EOS:         f.ids("eos_token_id", vocabSize),
		DoSample:    f.boolean("do_sample"),
		Temperature: f.optional("temperature", 0, 1e6),
		TopP:        f.optional("top_p", 0, 1),
		MinP:        f.optional("min_p", 0, 1),
	}
	if k := f.optional("top_k", 0, maxDim); k != nil {
		n := int(*k)
		if float64(n) != *k {
			f.fail("top_k", "%g is not an integer", *k)
		}
		g.TopK = &n
	}
	if f.err != nil {
		return nil, f.err
	}
	return g, nil
}
