package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn1x2[string, int, string](&shardFn{})
	register.DoFn3x2[context.Context, int, func(*string) bool, string, error](&writeFn{})
	register.DoFn3x1[context.Context, int, func(*string) bool, error](&publishFn{})
	register.Iter1[string]()
}

// output is one of the kinds of lines that a run writes, and where.
type output struct {
	Path   string
	Shards int  // number of files
	Empty  bool // a file without lines is written, too
}

// name returns the name of a file of the output.
func (u output) name(shard int) string { return shardName(u.Path, shard, u.Shards) }

// pattern matches the files of the output, and, if it has several, those of runs with
// another number of shards: files of an earlier run among those of this one would be
// taken for its own.
func (u output) pattern() string {
	if u.Shards == 1 {
		return u.Path
	}
	number := strings.Repeat("[0-9]", 5)
	return besideName(u.Path, "-"+number+"-of-"+number)
}

// includes reports whether a name is that of the output, or of a file that its pattern
// matches.
func (u output) includes(name string) bool {
	own, name := absolute(u.Path), absolute(name)
	if own == name {
		return true
	}
	extension := filepath.Ext(own)
	stem := strings.TrimSuffix(own, extension)
	shard := regexp.MustCompile("^" + regexp.QuoteMeta(stem) + "-[0-9]{5}-of-[0-9]{5}" + regexp.QuoteMeta(extension) + "$")
	return u.Shards > 1 && shard.MatchString(name)
}

// absolute returns the one name that a local file has, however its path is written.
func absolute(path string) string {
	if strings.Contains(path, "://") {
		return path
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// write writes lines to files under temporary names, and returns those. A line's file
// depends on the line alone.
func write(s beam.Scope, u output, lines beam.PCollection) beam.PCollection {
	keyed := beam.ParDo(s, &shardFn{Shards: u.Shards}, lines)
	return beam.ParDo(s, &writeFn{Output: u}, beam.GroupByKey(s, keyed))
}

// shardFn says which file a line goes to.
type shardFn struct{ Shards int }

// ProcessElement returns the number of the file, and the line.
func (f *shardFn) ProcessElement(line string) (int, string) {
	return int(hash(line) % uint64(f.Shards)), line
}

// writeFn writes the lines of a file.
type writeFn struct{ Output output }

// ProcessElement writes them under another name with each try, and returns that.
func (f *writeFn) ProcessElement(ctx context.Context, shard int, lines func(*string) bool) (_ string, err error) {
	part := partName(f.Output.name(shard))
	fs, err := filesystem.New(ctx, part)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	return part, writeLines(ctx, fs, part, lines)
}

// partName returns a temporary name for a file.
func partName(name string) string { return fmt.Sprintf("%s.%016x.part", name, rand.Uint64()) }

// wholeName returns the name that a temporary name was made of.
func wholeName(part string) string { return part[:len(part)-len(partName(""))] }

// publish gives files their names after all of them were written.
func publish(s beam.Scope, f *publishFn, parts ...beam.PCollection) {
	parts = append(parts, beam.Create(s, "")) // so that there is something to group if nothing was written
	beam.ParDo0(s, f, beam.GroupByKey(s, beam.AddFixedKey(s, beam.Flatten(s, parts...))))
}

// publishFn gives files their names. It is the last step, so a job that fails before
// leaves the files of an earlier run as they are.
type publishFn struct {
	Outputs   []output
	Overwrite bool
}

// ProcessElement takes the files' temporary names.
func (f *publishFn) ProcessElement(ctx context.Context, _ int, parts func(*string) bool) error {
	written := map[string]string{}
	var part string
	for parts(&part) {
		if part != "" {
			written[wholeName(part)] = part
		}
	}
	for _, u := range f.Outputs {
		if err := u.publish(ctx, written, f.Overwrite); err != nil {
			return err
		}
	}
	return nil
}

// publish gives the output's files their names, and removes other files of the output if
// they may be replaced.
func (u output) publish(ctx context.Context, written map[string]string, overwrite bool) (err error) {
	fs, err := filesystem.New(ctx, u.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	own := map[string]bool{} // without their folder, which listing may write in another way
	for shard := range u.Shards {
		name := u.name(shard)
		part, ok := written[name]
		switch {
		case ok:
			err = rename(ctx, fs, part, name)
		case u.Empty:
			err = writeLines(ctx, fs, name, func(*string) bool { return false })
		default:
			continue
		}
		if err != nil {
			return err
		}
		own[filepath.Base(name)] = true
	}
	remover, ok := fs.(filesystem.Remover)
	if !overwrite || !ok {
		return nil
	}
	found, err := fs.List(ctx, u.pattern())
	for _, name := range found {
		if !own[filepath.Base(name)] {
			err = errors.Join(err, remover.Remove(ctx, name))
		}
	}
	return err
}

// rename renames a file, unless an earlier try has done so.
func rename(ctx context.Context, fs filesystem.Interface, part, name string) error {
	err := filesystem.Rename(ctx, fs, part, name)
	if err == nil {
		return nil
	}
	parts, failed := fs.List(ctx, part)
	names, alsoFailed := fs.List(ctx, name)
	if failed == nil && alsoFailed == nil && len(parts) == 0 && len(names) == 1 {
		return nil
	}
	return err
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

// patternCharacters cannot be part of an output's name, because file systems list files
// by patterns. On Windows, a backslash separates folders.
var patternCharacters = strings.ReplaceAll(`*?[\`, string(filepath.Separator), "")

// check refuses to begin if a file of the output exists and may not be replaced, if it
// is one of the inputs, and where nothing can be written.
func (u output) check(ctx context.Context, inputs []string, overwrite bool) error {
	filesystem.ValidateScheme(u.Path)
	fs, err := filesystem.New(ctx, u.Path)
	if err != nil {
		return err
	}
	defer fs.Close()
	found, err := fs.List(ctx, u.pattern())
	if err != nil {
		return err
	}
	remover, ok := fs.(filesystem.Remover)
	for _, name := range found {
		if !overwrite || !ok {
			return fmt.Errorf("%s already exists; --overwrite replaces it", name)
		}
		if slices.ContainsFunc(inputs, func(input string) bool { return sameFile(name, input) }) {
			return fmt.Errorf("%s is both an input and an output", name)
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder", name)
		}
	}
	if !ok {
		return nil
	}
	return tryWriting(ctx, fs, remover, u.name(0))
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

// tryWriting writes an empty file beside the one with this name, and removes it.
func tryWriting(ctx context.Context, fs filesystem.Interface, remover filesystem.Remover, name string) error {
	part := partName(name)
	if err := writeLines(ctx, fs, part, func(*string) bool { return false }); err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, err)
	}
	return remover.Remove(ctx, part)
}
