package chat_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

func ExampleTemplate_Render() {
	template, err := chat.Open(demomodel.FS())
	if err != nil {
		log.Fatal(err)
	}
	text, err := template.Render(context.Background(), []chat.Message{{Role: "user", Content: "Hi"}}, chat.Options{
		AddGenerationPrompt: true,
		Variables:           map[string]any{"enable_thinking": false},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", text)
	// Output: "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
}
