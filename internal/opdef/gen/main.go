// Gen generates from csrc/ops/ops.def what Go, C++ and GLSL share. It is run by
// go generate ./internal/opdef.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// tableFile is the table, from the root of the tree.
const tableFile = "csrc/ops/ops.def"

func main() {
	root := filepath.Join("..", "..") // of internal/opdef, where go generate runs it
	files, err := generate(root)
	if err == nil {
		for name, text := range files {
			if err = os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate returns the files that belong to the table, by their names from root.
func generate(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, tableFile))
	if err != nil {
		return nil, err
	}
	t, err := parse(string(text))
	if err == nil {
		err = t.resolve(string(text))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tableFile, err)
	}
	golang, err := t.golang()
	return map[string]string{
		"internal/opdef/gen_ops.go":   golang,
		"shaders/include/gen_kinds.h": t.glsl(),
		"csrc/ops/gen_ops.hpp":        t.cpp(),
	}, err
}
