// Package demomodel embeds the demo model, so that programs have a model without
// a download.
package demomodel

import (
	"embed"
	"io/fs"
)

// Only what a run needs: the reference outputs in goldens are for tests.
//
//go:embed mote-4bit/config.json
//go:embed mote-4bit/generation_config.json
//go:embed mote-4bit/model.safetensors
//go:embed mote-4bit/model.safetensors.index.json
//go:embed mote-4bit/tokenizer.json
//go:embed mote-4bit/tokenizer_config.json
var files embed.FS

// Name is the demo model's name, for messages.
const Name = "mote-4bit"

// FS returns the demo model's folder: a Qwen3-shaped chat model of 6.4 million
// weights, 4-bit in groups of 128. Open it with generate.OpenFS(demomodel.FS(), demomodel.Name).
func FS() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil {
		panic(err) // Name is a valid path: fs.Sub cannot fail on it
	}
	return sub
}
