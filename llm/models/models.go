// Package models holds the demo model, embedded in the binary.
package models

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

// MoteName is what stands for the demo model in messages.
const MoteName = "mote-4bit"

// Mote returns the demo model's folder: a Qwen3-shaped chat model of 6.4 million
// weights, 4-bit in groups of 128. Open it with checkpoint.OpenFS.
func Mote() fs.FS {
	sub, err := fs.Sub(files, MoteName)
	if err != nil {
		panic(err) // MoteName is a valid path: fs.Sub cannot fail on it
	}
	return sub
}
