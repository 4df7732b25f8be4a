package generate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

// Answer a prompt with the embedded demo model. generate.Open does the same
// with a folder on disk, and kompute.Open("auto") with the best device.
func Example() {
	if err := answer(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <think>
	// Okay, I need to add 17 and 25. 17 + 25 = 42.
	// </think>
	//
	// 17 plus 25 is 42.
}

func answer() error {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	if err != nil {
		return err
	}
	defer folder.Close()
	prompt, err := folder.EncodeChat(context.Background(), generate.Turn("", "What is 17 plus 25?"))
	if err != nil {
		return err
	}
	device, err := kompute.Open("cpu")
	if err != nil {
		return err
	}
	defer device.Close()
	m, err := folder.Load(context.Background(), device, model.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	session, err := generate.NewSession(m, folder.Tokenizer, 256)
	if err != nil {
		return err
	}
	defer session.Close()
	result, err := session.Generate(context.Background(), prompt, generate.Options{EOS: folder.EOS()})
	if err != nil {
		return err
	}
	fmt.Println(result.Text)
	return nil
}
