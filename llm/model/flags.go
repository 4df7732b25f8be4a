package model

import (
	"flag"
	"fmt"
	"strings"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// AddFlags adds the flags --dtype and --cache-type to those of a program, which set DType
// and CacheType. Their values are names: auto, float32 (f32), float16 (f16), bfloat16
// (bf16) and, for the cache, q8_0, which is llama.cpp's name for 8 bits with a scale for
// each 32 elements. Parsing fails for another name, with an error that gives the flag and
// the names.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	fs.Func("dtype", "`type` of activations: auto (float32 if the weights are quantized, otherwise theirs), float32, float16 or bfloat16 (default auto)",
		setType(&o.DType, "float32", "float16", "bfloat16"))
	fs.Func("cache-type", "`type` of keys and values: auto (that of the activations), float32, float16, bfloat16 or q8_0, 8 bits with a scale for each 32 (default auto)",
		setType(&o.CacheType, "float32", "float16", "bfloat16", "q8_0"))
}

var typeNames = map[string]kompute.DType{
	"float32": array.Float32, "float16": array.Float16, "bfloat16": array.BFloat16, "q8_0": array.Uint8,
}

// setType returns a function that sets a type by its name, which is auto or one of those.
func setType(to *kompute.DType, names ...string) func(string) error {
	return func(value string) error {
		if value == "auto" {
			*to = 0
			return nil
		}
		for _, name := range names {
			if value == name || value == strings.Replace(name, "loat", "", 1) {
				*to = typeNames[name]
				return nil
			}
		}
		return fmt.Errorf("%w: %q is not auto, %s", kompute.ErrDType, value, strings.Join(names, ", "))
	}
}
