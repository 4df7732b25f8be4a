package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/internal/modelfile"
)

// The files of a checkpoint folder.
const (
	ConfigFile          = "config.json"
	GenerationFile      = "generation_config.json"
	WeightsFile         = "model.safetensors"
	IndexFile           = "model.safetensors.index.json"
	TokenizerFile       = "tokenizer.json"
	TokenizerConfigFile = "tokenizer_config.json"
)

// Limits on the files that are read whole.
const (
	maxConfigFile = 16 << 20
	maxIndexFile  = 64 << 20
	maxOtherFile  = 256 << 20
)

// Checkpoint is an open model folder. It is safe for concurrent use, except
// for Close.
type Checkpoint struct {
	Config     *Config
	Generation *Generation // empty where generation_config.json is absent

	root    string
	fsys    fs.FS
	folder  io.Closer // what fsys reads, or nil
	files   []*File
	tensors map[string]Tensor
	bytes   int64
	closed  bool
}

// Open opens the model folder at a path. All its files must be plain files in it:
// symbolic links must not lead out of it, except from a snapshot in Hugging Face's
// cache to the blobs beside it. The weights are memory-mapped: they take no memory
// until they are read, and the files must not shrink while open. Besides the errors
// of the parts it fails with MissingError for a missing file.
func Open(dir string) (*Checkpoint, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, &MissingError{File: dir, Err: modelfile.Cause(err)}
	}
	if !info.IsDir() {
		return nil, &FormatError{File: dir, Reason: "not a folder with config.json and safetensors"}
	}
	folder, err := modelfile.OpenFolder(dir)
	if err != nil {
		return nil, &MissingError{File: dir, Err: modelfile.Cause(err)}
	}
	c, err := OpenFS(folder, filepath.ToSlash(dir))
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	c.folder = folder
	return c, nil
}

// OpenFS opens the model folder at the root of fsys; name stands for it in
// messages. Files of the operating system are memory-mapped, others read.
func OpenFS(fsys fs.FS, name string) (*Checkpoint, error) {
	c := &Checkpoint{root: name, fsys: fsys, tensors: map[string]Tensor{}, Generation: &Generation{}}
	data, err := readSmall(fsys, name, ConfigFile, maxConfigFile)
	if err != nil {
		return nil, err
	}
	if c.Config, err = ParseConfig(path.Join(name, ConfigFile), data); err != nil {
		return nil, err
	}
	data, err = readSmall(fsys, name, GenerationFile, maxConfigFile)
	if err == nil {
		c.Generation, err = ParseGeneration(path.Join(name, GenerationFile), data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := c.openWeights(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// openWeights opens model.safetensors or, without it, what the index lists. An index beside
// model.safetensors may be left from other weights: transformers ignores it, too.
func (c *Checkpoint) openWeights() error {
	f, missing := c.openShard(WeightsFile)
	if missing == nil {
		for _, name := range f.Names() {
			c.add(f, name)
		}
		return nil
	}
	if !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	data, err := readSmall(c.fsys, c.root, IndexFile, maxIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c.otherWeights(missing)
	}
	if err != nil {
		return err
	}
	weights, err := ParseIndex(path.Join(c.root, IndexFile), data)
	if err != nil {
		return err
	}
	return c.openShards(weights)
}

// otherWeights returns the error of a folder without weights, which says if it has some in another format.
func (c *Checkpoint) otherWeights(missing error) error {
	e := new(MissingError)
	if !errors.As(missing, &e) {
		return missing
	}
	for _, pattern := range []string{"*.gguf", "*.bin", "*.pt", "*.pth", "*.npz"} {
		if found, err := fs.Glob(c.fsys, pattern); err == nil && len(found) > 0 {
			named := *e
			named.Reason = fmt.Sprintf("%s has another format, and only safetensors are read", found[0])
			return &named
		}
	}
	return missing
}

// openShards opens every shard of the weight map. A tensor must be in the shard that
// the map names for it and in no other; tensors that the map does not name are
// ignored.
func (c *Checkpoint) openShards(weights map[string]string) error {
	shards := slices.Compact(slices.Sorted(maps.Values(weights)))
	open := make(map[string]*File, len(shards))
	for _, shard := range shards {
		f, err := c.openShard(shard)
		if err != nil {
			return err
		}
		open[shard] = f
		for name := range f.tensors {
			if want, ok := weights[name]; ok && want != shard {
				return &FormatError{File: f.name, Tensor: name, Reason: fmt.Sprintf("%s places it in %q", IndexFile, want)}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		f := open[weights[name]]
		if _, ok := f.tensors[name]; !ok {
			return &MissingError{File: f.name, Tensor: name, Reason: IndexFile + " places it there"}
		}
		c.add(f, name)
	}
	return nil
}

func (c *Checkpoint) openShard(name string) (*File, error) {
	f, err := openFile(c.fsys, c.root, name)
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, f)
	return f, nil
}

func (c *Checkpoint) add(f *File, name string) {
	t := f.tensors[name]
	c.tensors[name] = t
	c.bytes += int64(len(t.Data))
}

// ParseIndex reads model.safetensors.index.json and returns its weight_map, the
// shard of every tensor; file is its path, for messages. Shards are plain names
// of files beside the index: any other path is a FormatError.
func ParseIndex(file string, data []byte) (map[string]string, error) {
	top, err := object(data)
	if err != nil {
		return nil, &FormatError{File: file, Reason: err.Error()}
	}
	entries, err := object(top["weight_map"])
	if err != nil {
		return nil, &FormatError{File: file, Reason: "weight_map: " + err.Error()}
	}
	weights := make(map[string]string, len(entries))
	for tensor, raw := range entries {
		shard, ok := text(raw)
		if !ok {
			return nil, &FormatError{File: file, Tensor: tensor, Reason: "its shard is not a string"}
		}
		if !plainName(shard) {
			return nil, &FormatError{File: file, Tensor: tensor, Reason: fmt.Sprintf("shard %q is not the name of a file in this folder", shard)}
		}
		weights[tensor] = shard
	}
	return weights, nil
}

// plainName reports whether name is one path element on every system.
func plainName(name string) bool {
	return name != "." && fs.ValidPath(name) && filepath.IsLocal(name) && !strings.ContainsAny(name, "/\\:\x00")
}

// Unload takes mapped weights out of this process's memory, for example once a device has
// them. They are still there: what needs them reads them from the files again.
func (c *Checkpoint) Unload() {
	for _, f := range c.orEmpty().files {
		f.source.unload()
	}
}

// orEmpty replaces a nil checkpoint by one without files.
func (c *Checkpoint) orEmpty() *Checkpoint {
	if c == nil {
		return &Checkpoint{}
	}
	return c
}

// Name returns the folder's name in messages.
func (c *Checkpoint) Name() string {
	if c == nil {
		return ""
	}
	return c.root
}

// Names returns the names of all tensors, sorted.
func (c *Checkpoint) Names() []string { return slices.Sorted(maps.Keys(c.orEmpty().tensors)) }

// Bytes returns the total size of all tensors.
func (c *Checkpoint) Bytes() int64 { return c.orEmpty().bytes }

// Has reports whether there is a tensor of that name.
func (c *Checkpoint) Has(name string) bool {
	_, ok := c.orEmpty().tensors[name]
	return ok
}

// Tensor returns the tensor of that name, or a MissingError.
func (c *Checkpoint) Tensor(name string) (Tensor, error) {
	t, ok := c.orEmpty().tensors[name]
	if !ok {
		missing := &MissingError{File: c.Name(), Tensor: name}
		if c.orEmpty().closed {
			missing.Reason = "the checkpoint is closed"
		}
		return Tensor{}, missing
	}
	return t, nil
}

// EOS returns the token ids that end a generation: generation_config.json's
// where it gives any, else config.json's. If both give none, tokenizer_config.json may
// still name a token, whose id only the tokenizer knows.
func (c *Checkpoint) EOS() []int {
	if c == nil || c.Config == nil {
		return nil
	}
	if len(c.Generation.EOS) > 0 {
		return slices.Clone(c.Generation.EOS)
	}
	return slices.Clone(c.Config.EOS)
}

// ReadFile reads another file of the folder, such as TokenizerFile. It fails
// with MissingError if there is no such file.
func (c *Checkpoint) ReadFile(name string) ([]byte, error) {
	if c == nil || c.fsys == nil {
		return nil, &MissingError{File: name, Reason: "there is no folder"}
	}
	return readSmall(c.fsys, c.root, name, maxOtherFile)
}

// FS returns the folder's files.
func (c *Checkpoint) FS() fs.FS { return c.orEmpty().fsys }

// Close unmaps the weights. Tensors must not be used after it. Closing a nil
// checkpoint, or one twice, does nothing.
func (c *Checkpoint) Close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	if c.folder != nil {
		errs = append(errs, c.folder.Close())
	}
	c.files, c.tensors, c.closed = nil, map[string]Tensor{}, true
	return errors.Join(errs...)
}
