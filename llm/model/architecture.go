package model

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/nn"
)

// Limits are the numbers of a model that its callers must respect.
type Limits struct {
	Vocabulary int // token ids are below it
	Context    int // the maximum number of tokens of a sequence
	Width      int // H, the length of a state
}

// Config is an architecture's own configuration.
type Config interface {
	Limits() Limits
	// Cache returns the shape of the key-value cache.
	Cache() nn.CacheShape
}

// Network is the forward pass of an architecture with activations of type T.
type Network[T kompute.Float] interface {
	// Hidden returns the states after the last block, before the final norm: tokens
	// [1, T] to [1, T, H]. It adds the keys and values of T tokens to the layers'.
	Hidden(s *kompute.Stream, tokens *kompute.Tensor[uint32], layers nn.Layers[T]) *kompute.Tensor[T]
	// States returns the states after the final norm: [1, T, H] to the same.
	States(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T]
	// Logits returns a score for each token of the vocabulary V, from states before the
	// final norm: [1, T, H] to [1, T, V].
	Logits(s *kompute.Stream, hidden *kompute.Tensor[T]) *kompute.Tensor[T]
}

// Architecture is a kind of model that checkpoints can name. Its package
// registers it from an init function.
type Architecture[C Config] struct {
	Type    string   // model_type in config.json, such as "qwen3"
	Classes []string // the names in architectures, such as "Qwen3ForCausalLM"
	// ReadConfig reads config.json. It fails with the errors of package checkpoint.
	ReadConfig func(*checkpoint.Config) (C, error)
	// These build the network, one for each type of activations. They are called
	// twice: to check every tensor and count the memory, and to load.
	Float32  func(*Loader[float32], C) Network[float32]
	Float16  func(*Loader[kompute.Float16], C) Network[kompute.Float16]
	BFloat16 func(*Loader[kompute.BFloat16], C) Network[kompute.BFloat16]
}

// registered is an architecture of any configuration type.
type registered interface {
	names() (typ string, classes []string)
	config(*checkpoint.Config) (Config, error)
	builders(Config) builders
}

// builders build the network of one model.
type builders struct {
	float32  func(*Loader[float32]) Network[float32]
	float16  func(*Loader[kompute.Float16]) Network[kompute.Float16]
	bfloat16 func(*Loader[kompute.BFloat16]) Network[kompute.BFloat16]
}

func (a Architecture[C]) names() (typ string, classes []string) { return a.Type, a.Classes }

func (a Architecture[C]) config(c *checkpoint.Config) (Config, error) { return a.ReadConfig(c) }

func (a Architecture[C]) builders(c Config) builders {
	own := c.(C) // the result of config
	return builders{
		float32:  func(l *Loader[float32]) Network[float32] { return a.Float32(l, own) },
		float16:  func(l *Loader[kompute.Float16]) Network[kompute.Float16] { return a.Float16(l, own) },
		bfloat16: func(l *Loader[kompute.BFloat16]) Network[kompute.BFloat16] { return a.BFloat16(l, own) },
	}
}

// registry holds the architectures under all of their names.
var registry = struct {
	sync.RWMutex
	byType, byClass map[string]registered
}{byType: map[string]registered{}, byClass: map[string]registered{}}

// Register makes an architecture known to [Load] and [Inspect]. It panics if one of
// its names is taken: two packages would then read the same checkpoints.
func Register[C Config](a Architecture[C]) {
	registry.Lock()
	defer registry.Unlock()
	taken := func(class string) bool { return registry.byClass[class] != nil }
	if registry.byType[a.Type] != nil || slices.ContainsFunc(a.Classes, taken) {
		panic(fmt.Sprintf("model: two architectures are called %s or %s", a.Type, strings.Join(a.Classes, " or ")))
	}
	registry.byType[a.Type] = a
	for _, class := range a.Classes {
		registry.byClass[class] = a
	}
}

// find returns the architecture that config.json names by model_type, by
// architectures or by both.
func find(c *checkpoint.Config) (registered, error) {
	registry.RLock()
	defer registry.RUnlock()
	f := c.Fields()
	byType := registry.byType[c.ModelType]
	if c.ModelType != "" && byType == nil {
		f.Unsupported("model_type", c.ModelType, slices.Sorted(maps.Keys(registry.byType))...)
	}
	var byClass registered
	for _, class := range c.Architectures {
		if byClass = registry.byClass[class]; byClass != nil {
			break
		}
	}
	switch {
	case len(c.Architectures) > 0 && byClass == nil:
		f.Unsupported("architecture", c.Architectures[0], slices.Sorted(maps.Keys(registry.byClass))...)
	case byClass == nil && byType == nil:
		f.Fail("model_type", "missing, and architectures as well")
	case byClass == nil:
		return byType, f.Err()
	case byType != nil:
		if typ, classes := byClass.names(); typ != c.ModelType {
			f.Fail("model_type", "%s does not belong to %s", c.ModelType, classes[0])
		}
	}
	return byClass, f.Err()
}

// Spec describes a checkpoint's model before anything is loaded.
type Spec struct {
	Type   string // model_type, even if the checkpoint does not give it
	Config Config // of the architecture's own type
	arch   registered
}

// Inspect finds the architecture of a checkpoint and reads its configuration. It
// fails with checkpoint.UnsupportedError for an architecture that is not known,
// which lists those that are, and with the errors of the architecture's
// configuration.
func Inspect(c *checkpoint.Checkpoint) (Spec, error) {
	if c == nil {
		return Spec{}, fmt.Errorf("%w: the checkpoint is nil", kompute.ErrInvalid)
	}
	arch, err := find(c.Config)
	if err != nil {
		return Spec{}, err
	}
	config, err := arch.config(c.Config)
	if err != nil {
		return Spec{}, err
	}
	typ, _ := arch.names()
	return Spec{Type: typ, Config: config, arch: arch}, checkEOS(c, config.Limits().Vocabulary)
}

// checkEOS rejects EOS tokens that the model does not have, and names the file that gives them.
func checkEOS(c *checkpoint.Checkpoint, vocabulary int) error {
	file := c.Config.File()
	if len(c.Generation.EOS) > 0 {
		file = path.Join(c.Name(), checkpoint.GenerationFile)
	}
	for _, id := range c.EOS() {
		if id >= vocabulary {
			return &checkpoint.ConfigError{
				File: file, Field: "eos_token_id", Reason: fmt.Sprintf("token id %d is not below vocab_size %d", id, vocabulary),
			}
		}
	}
	return nil
}
