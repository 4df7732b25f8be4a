package tokenizer_test

import (
	"fmt"
	"io/fs"
	"log"

	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

func ExampleTokenizer_Encode() {
	data, err := fs.ReadFile(demomodel.FS(), "tokenizer.json")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode("Hi 👍<|im_end|>")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	d := tok.NewDecoder(tokenizer.SkipSpecial) // leaves <|im_end|> out
	for _, id := range ids {
		fmt.Printf("%q ", d.Push(id))
	}
	fmt.Printf("%q\n", d.Flush())
	// Output:
	// [978 220 172 253 239 235 2045]
	// "Hi" " " "" "" "" "👍" "" ""
}
