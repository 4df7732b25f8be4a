package generate

// The architectures that Open can load. Each registers itself.
import (
	_ "github.com/kompute-go/kompute-go/llm/llama"
	_ "github.com/kompute-go/kompute-go/llm/qwen2"
	_ "github.com/kompute-go/kompute-go/llm/qwen3"
)
