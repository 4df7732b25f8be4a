package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

// shardBytes is where a new shard begins.
const shardBytes = 1 << 30

// recipe describes how a folder was made; it is stored in the folder.
type recipe struct {
	Shape   string             `json:"shape"`
	Packing checkpoint.Packing `json:"packing"`
	Seed    uint64             `json:"seed"`
}

const recipeFile = "bench.json"

// makeFolder makes a folder, unless an earlier run has made the same one there. If
// it cannot finish, because ctx is cancelled or the disk is full, it removes the
// folder again if it has created it.
func makeFolder(ctx context.Context, dir string, s shape, seed uint64, stderr io.Writer) error {
	want := recipe{s.name, s.packing, seed}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		var have recipe
		text, err := os.ReadFile(filepath.Join(dir, recipeFile))
		if err == nil {
			err = json.Unmarshal(text, &have)
		}
		if err != nil || have != want {
			return fmt.Errorf("--out: %s holds another model than %s in %+v with seed %d (%s: %+v, %v); name another folder, or --model to measure it as it is",
				dir, s.name, s.packing, seed, recipeFile, have, err)
		}
		return nil
	}
	fmt.Fprintf(stderr, "bench: making %s with random weights in %s\n", s.name, dir)
	_, err := os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	bar := cli.NewBar(stderr, "making weights")
	defer bar.Close()
	if err := writeFolder(ctx, dir, s, seed, bar); err != nil {
		if fresh {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recipeFile), text, 0o644) // last, when the folder is complete
}

// writeFolder makes a checkpoint folder of that shape with random weights, the same
// for the same seed. It uses the demo model's tokenizer; generated text is
// meaningless.
func writeFolder(ctx context.Context, dir string, s shape, seed uint64, bar *cli.Bar) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config, err := json.MarshalIndent(s.config(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return err
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		data, err := fs.ReadFile(demomodel.FS(), name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	w := shardWriter{dir: dir, index: map[string]string{}}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	rng := rand.NewChaCha8(key)
	modules := s.modules()
	for i, m := range modules {
		if err := errors.Join(ctx.Err(), w.add(randomModule(rng, m, s.packing)...)); err != nil {
			return err
		}
		bar.Set(int64(i+1), int64(len(modules)))
	}
	norms := s.norms()
	for _, name := range slices.Sorted(maps.Keys(norms)) {
		if err := w.add(bf16Tensor(name, []int{norms[name]}, func() float32 { return 1 })); err != nil {
			return err
		}
	}
	return w.close()
}

func bf16Tensor(name string, shape []int, value func() float32) checkpoint.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]byte, 2*n)
	for i := range n {
		binary.LittleEndian.PutUint16(data[2*i:], uint16(kompute.BFloat16FromFloat32(value())))
	}
	return checkpoint.Tensor{Name: name, DType: kompute.DTypeBFloat16, Shape: shape, Data: data}
}

// shardWriter collects tensors and writes a shard whenever one is full.
type shardWriter struct {
	dir     string
	pending []checkpoint.Tensor
	bytes   int
	total   int64
	shards  int
	index   map[string]string
}

func (w *shardWriter) add(tensors ...checkpoint.Tensor) error {
	for _, t := range tensors {
		w.pending = append(w.pending, t)
		w.bytes += len(t.Data)
	}
	if w.bytes < shardBytes {
		return nil
	}
	return w.flush()
}

func (w *shardWriter) flush() error {
	w.shards++
	name := fmt.Sprintf("model-%05d.safetensors", w.shards)
	for _, t := range w.pending {
		w.index[t.Name] = name
	}
	w.total += int64(w.bytes)
	tensors := w.pending
	w.pending, w.bytes = nil, 0
	return checkpoint.WriteFile(filepath.Join(w.dir, name), tensors, map[string]string{"format": "mlx"})
}

func (w *shardWriter) close() error {
	if len(w.pending) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(w.dir, checkpoint.IndexFile))
	if err != nil {
		return err
	}
	if err := checkpoint.WriteIndex(f, w.index, w.total); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
