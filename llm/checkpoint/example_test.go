package checkpoint_test

import (
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/models"
)

func ExampleOpenFS() {
	c, err := checkpoint.OpenFS(models.Mote(), models.MoteName) // or checkpoint.Open("path/of/a/folder")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Config.Layers, "layers,", c.Bytes(), "bytes")
	q, err := c.Module("model.layers.0.self_attn.q_proj", c.Config.Heads*c.Config.HeadDim, c.Config.HiddenSize)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Weight, q.Packing.GroupSize, q.Packing.Bits)
	// Output:
	// 6 layers, 3421696 bytes
	// U32 [512 32] 128 4
}
