package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
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

// writeFolder makes a checkpoint folder of that shape with random weights, the same
// for the same seed. It uses the demo model's tokenizer; generated text is
// meaningless.
func writeFolder(ctx context.Context, dir string, s shape, seed uint64, bar *cli.Bar) error {
	config, err := json.MarshalIndent(s.config(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, checkpoint.ConfigFile), config, 0o644); err != nil {
		return err
	}
	for _, name := range []string{checkpoint.TokenizerFile, checkpoint.TokenizerConfigFile} {
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
