package checkpoint_test

import (
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

func ExampleOpenFS() {
	c, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name) // or checkpoint.Open("path/of/a/folder")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Config.ModelType, c.Bytes(), "bytes")
	q, err := c.Module("model.layers.0.self_attn.q_proj", 512, 256)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Weight, q.Packing.GroupSize, q.Packing.Bits)
	// Output:
	// qwen3 3421696 bytes
	// U32 [512 32] 128 4
}
