package model_test

import (
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

func TestTypesByName(t *testing.T) {
	parse := func(args ...string) (o model.Options, err error) {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		o.AddFlags(fs)
		return o, fs.Parse(args)
	}
	for name, want := range map[string]kompute.DType{
		"auto": 0, "float32": kompute.DTypeFloat32, "f32": kompute.DTypeFloat32, "float16": kompute.DTypeFloat16,
		"f16": kompute.DTypeFloat16, "bfloat16": kompute.DTypeBFloat16, "bf16": kompute.DTypeBFloat16,
	} {
		o, err := parse("--dtype", name, "--cache-type="+name)
		require.NoError(t, err)
		require.Equal(t, model.Options{DType: want, CacheType: want}, o)
	}
	o, err := parse("--cache-type", "q8_0")
	require.NoError(t, err)
	require.Equal(t, model.Options{CacheType: kompute.DTypeUint8}, o)
	for _, args := range [][]string{{"--dtype", "q8_0"}, {"--dtype", "int8"}, {"--cache-type", ""}, {"--cache-type", "F32"}} {
		_, err := parse(args...)
		require.ErrorContains(t, err, args[0][1:])
		require.ErrorContains(t, err, "is not auto, float32, float16, bfloat16")
	}
}
