package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn1x2[string, int, string](&shardFn{})
	register.DoFn3x1[context.Context, int, func(*string) bool, error](&writeFn{})
	register.Iter1[string]()
}

// write writes lines to the given number of files. A line's file depends on the line alone, and a
// file appears when it is whole, under a name that does not change: a writer that is
// tried again replaces what another try has written.
func write(s beam.Scope, path string, shards int, lines beam.PCollection) {
	keyed := beam.ParDo(s, &shardFn{Shards: shards}, lines)
	beam.ParDo0(s, &writeFn{Path: path, Shards: shards}, beam.GroupByKey(s, keyed))
}

// shardFn says which file a line goes to.
type shardFn struct{ Shards int }

// ProcessElement returns the number of the file, and the line.
func (f *shardFn) ProcessElement(line string) (int, string) {
	return int(hash(line) % uint64(f.Shards)), line
}

// writeFn writes the lines of a file.
type writeFn struct {
	Path   string
	Shards int
}

// ProcessElement writes them under another name first.
func (f *writeFn) ProcessElement(ctx context.Context, shard int, lines func(*string) bool) (err error) {
	name := shardName(f.Path, shard, f.Shards)
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	part := fmt.Sprintf("%s.%016x.part", name, rand.Uint64())
	if err := writeLines(ctx, fs, part, lines); err != nil {
		return err
	}
	return filesystem.Rename(ctx, fs, part, name)
}

func writeLines(ctx context.Context, fs filesystem.Interface, name string, lines func(*string) bool) (err error) {
	file, err := fs.OpenWrite(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriterSize(file, 1<<20)
	var line string
	for lines(&line) {
		w.WriteString(line)
		w.WriteByte('\n')
	}
	return w.Flush() // with the first error of all
}

// shardName returns the name of a file of the output: the path, if there is only one.
func shardName(path string, shard, shards int) string {
	if shards == 1 {
		return path
	}
	return besideName(path, fmt.Sprintf("-%05d-of-%05d", shard, shards))
}

// besideName returns the path with a text before its extension.
func besideName(path, text string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + text + extension
}

// clearOutputs refuses to begin if an output exists, or removes it: files of an
// earlier run among those of this one would be taken for its own. It also refuses
// where nothing can be written, and where an output is one of the inputs.
func (o *options) clearOutputs(ctx context.Context, inputs []string) error {
	patterns := []string{o.output, o.failed}
	if o.shards > 1 {
		patterns[0] = besideName(o.output, "-?????-of-?????")
	}
	for _, pattern := range patterns {
		if err := o.clear(ctx, pattern, inputs); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) clear(ctx context.Context, pattern string, inputs []string) error {
	filesystem.ValidateScheme(pattern)
	fs, err := filesystem.New(ctx, pattern)
	if err != nil {
		return err
	}
	defer fs.Close()
	found, err := fs.List(ctx, pattern)
	if err != nil {
		return err
	}
	remover, ok := fs.(filesystem.Remover)
	if len(found) == 0 {
		if !ok {
			return nil
		}
		return tryWriting(ctx, fs, remover, pattern)
	}
	if !o.overwrite || !ok {
		return fmt.Errorf("%s already exists; --overwrite replaces it", found[0])
	}
	for _, name := range found {
		if slices.ContainsFunc(inputs, func(input string) bool { return sameFile(name, input) }) {
			return fmt.Errorf("%s is both an input and an output", name)
		}
	}
	for _, name := range found {
		if err := remover.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sameFile reports whether two names are those of one file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a) // fails for files that are not of this machine
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// tryWriting writes an empty file beside the one with this name, or pattern, and
// removes it.
func tryWriting(ctx context.Context, fs filesystem.Interface, remover filesystem.Remover, name string) error {
	part := fmt.Sprintf("%s.%016x.part", strings.ReplaceAll(name, "?", "0"), rand.Uint64())
	if err := writeLines(ctx, fs, part, func(*string) bool { return false }); err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, err)
	}
	return remover.Remove(ctx, part)
}
