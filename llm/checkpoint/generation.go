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
	// RepetitionPenalty is above 0, and 1 changes nothing. It holds without DoSample, too.
	RepetitionPenalty *float64
}

// ParseGeneration reads generation_config.json; file is its path, for messages.
// It fails with ConfigError.
func ParseGeneration(file string, data []byte) (*Generation, error) {
	f, err := newFields(file, data)
	if err != nil {
		return nil, err
	}
	g := &Generation{
		BOS:         f.IDs("bos_token_id"),
		EOS:         f.IDs("eos_token_id"),
		DoSample:    f.Flag("do_sample"),
		Temperature: f.optional("temperature", 0, 1e6),
		TopP:        f.optional("top_p", 0, 1),
		MinP:        f.optional("min_p", 0, 1),

		RepetitionPenalty: f.optional("repetition_penalty", 1e-30, 1e30),
	}
	if k := f.optional("top_k", -1, MaxSize); k != nil {
		n := int(*k)
		if float64(n) != *k {
			f.Fail("top_k", "%g is not an integer", *k)
		}
		n = max(n, 0) // other engines write -1 for all tokens
		g.TopK = &n
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return g, nil
}
