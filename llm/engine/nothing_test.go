package engine_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// nothings are nil and zero values of the types that a service handles, made without
// their constructors.
func nothings() map[string]any {
	return map[string]any{
		"nil engine": (*engine.Engine)(nil), "nil stream": (*engine.Stream)(nil),
		"zero engine": &engine.Engine{}, "zero stream": &engine.Stream{},
		"nil session": (*generate.Session)(nil), "zero session": &generate.Session{},
		"nil folder": (*generate.Folder)(nil), "zero folder": &generate.Folder{},
		"zero answer": &generate.Answer{},
		"nil host":    (*model.Host)(nil), "zero host": &model.Host{},
		"nil cache": (*nn.KVCache[float32])(nil), "zero cache": &nn.KVCache[float32]{},
		"nil pages": (*nn.Pages[float32])(nil), "zero pages": &nn.Pages[float32]{},
		"nil cursor": (*nn.Cursor)(nil), "zero cursor": &nn.Cursor{},
		"zero place": nn.Place{}, "nil sampler": (*sample.Sampler)(nil), "zero sampler": &sample.Sampler{},
		"nil tokenizer": (*tokenizer.Tokenizer)(nil), "zero tokenizer": &tokenizer.Tokenizer{},
		"nil decoder": (*tokenizer.Decoder)(nil), "zero decoder": &tokenizer.Decoder{},
		"nil checkpoint": (*checkpoint.Checkpoint)(nil), "zero checkpoint": &checkpoint.Checkpoint{},
		"nil file": (*checkpoint.File)(nil), "zero file": &checkpoint.File{},
		"nil config": (*checkpoint.Config)(nil), "zero config": &checkpoint.Config{},
		"zero tensor":  checkpoint.Tensor{},
		"nil template": (*chat.Template)(nil), "zero template": &chat.Template{},
		"nil grammar": (*grammar.Grammar)(nil), "zero grammar": &grammar.Grammar{},
		"nil matcher": (*grammar.Matcher)(nil), "zero matcher": &grammar.Matcher{},
		"nil vocabulary": (*grammar.Vocabulary)(nil), "zero vocabulary": &grammar.Vocabulary{},
	}
}

// No method of a nil or zero value panics or blocks, and closing one succeeds.
func TestMethodsOfNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, value := range nothings() {
		v := reflect.ValueOf(value)
		for i := range v.NumMethod() {
			what := name + "." + v.Type().Method(i).Name
			var in []reflect.Value
			kind := v.Method(i).Type()
			for j := range kind.NumIn() {
				switch at := kind.In(j); {
				case kind.IsVariadic() && j == kind.NumIn()-1:
				case at == reflect.TypeFor[context.Context]():
					in = append(in, reflect.ValueOf(ctx))
				default:
					in = append(in, reflect.Zero(at))
				}
			}
			t.Run(what, func(t *testing.T) {
				var out []reflect.Value
				require.NotPanics(t, func() { out = v.Method(i).Call(in) })
				for _, result := range out {
					switch got := result.Interface().(type) {
					case error:
						require.NotEqual(t, "Close", v.Type().Method(i).Name, got)
					case func(func(generate.Token, error) bool):
						require.NotPanics(t, func() {
							for range got {
								break
							}
						})
					}
				}
			})
		}
	}
}

func TestHostsWithoutModels(t *testing.T) {
	for _, h := range []*model.Host{nil, {}} {
		_, err := engine.NewHosted([]*model.Host{h}, &tokenizer.Tokenizer{}, engine.Config{})
		require.ErrorIs(t, err, kompute.ErrInvalid)
	}
}
