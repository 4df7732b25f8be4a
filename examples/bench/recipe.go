package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// recipe describes how a folder was made; it is stored in the folder.
type recipe struct {
	Shape   string             `json:"shape"`
	Packing checkpoint.Packing `json:"packing"`
	Seed    uint64             `json:"seed"`
	// Unfinished: the folder is being made, or that was interrupted.
	Unfinished bool `json:"unfinished,omitempty"`
}

const recipeFile = "bench.json"

// makeFolder makes a folder, unless an earlier run has made the same one there. What an
// interrupted run has left is made again; other files of these names are an error. If it
// cannot finish, because ctx is cancelled or the disk is full, it removes the folder again
// if it has created it.
func makeFolder(ctx context.Context, dir string, s shape, seed uint64, stderr io.Writer) error {
	want := recipe{Shape: s.name, Packing: s.packing, Seed: seed}
	switch done, err := prepare(dir, want); {
	case err != nil:
		return fmt.Errorf("--out: %w; name another folder, or --model to measure it as it is", err)
	case done:
		return nil
	}
	fmt.Fprintf(stderr, "bench: making %s with random weights in %s\n", s.name, dir)
	_, err := os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	bar := cli.NewBar(stderr, "making weights")
	defer bar.Close()
	unfinished := want
	unfinished.Unfinished = true
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = unfinished.write(dir)
	}
	if err == nil {
		err = writeFolder(ctx, dir, s, seed, bar)
	}
	if err == nil {
		err = want.write(dir) // last, when the folder is complete
	}
	if err != nil && fresh {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// prepare looks at what is in a folder already. done: it is the wanted model. What an interrupted run has
// left is removed.
func prepare(dir string, want recipe) (done bool, err error) {
	have, err := readRecipe(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	made := err == nil
	if made && !have.Unfinished {
		if have != want {
			return false, fmt.Errorf("%s holds another model than %s in %+v with seed %d (%s: %+v)",
				dir, want.Shape, want.Packing, want.Seed, recipeFile, have)
		}
		return true, nil
	}
	files, err := modelFiles(dir)
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if !made {
			return false, fmt.Errorf("%s is there already, and no %s says that it was made by this program", file, recipeFile)
		}
		if err := os.Remove(file); err != nil {
			return false, err
		}
	}
	return false, nil
}

// modelFiles lists the files in a folder whose names are those of a checkpoint.
func modelFiles(dir string) ([]string, error) {
	var out []string
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		ours, _ := filepath.Match("model*.safetensors", e.Name())
		switch e.Name() {
		case checkpoint.ConfigFile, checkpoint.GenerationFile, checkpoint.IndexFile, checkpoint.TokenizerFile, checkpoint.TokenizerConfigFile:
			ours = true
		}
		if ours {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

// readRecipe fails with fs.ErrNotExist for a folder without a recipe.
func readRecipe(dir string) (recipe, error) {
	var r recipe
	text, err := os.ReadFile(filepath.Join(dir, recipeFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recipeFile), err)
	}
	return r, nil
}

// write stores the recipe in a folder. A program that is killed leaves the old recipe or the new one.
func (r recipe) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, recipeFile)
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
