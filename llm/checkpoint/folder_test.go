package checkpoint_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

func TestOpenMote(t *testing.T) {
	dir, err := checkpoint.Open(moteDir)
	require.NoError(t, err)
	embedded, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	require.Equal(t, dir.Names(), embedded.Names())
	require.EqualValues(t, 3421696, dir.Bytes())
	require.Equal(t, dir.Bytes(), embedded.Bytes())
	for _, name := range dir.Names() {
		a, err := dir.Tensor(name)
		require.NoError(t, err)
		b, err := embedded.Tensor(name)
		require.NoError(t, err)
		require.Equal(t, a.Shape, b.Shape)
		require.True(t, bytes.Equal(a.Data, b.Data), name)
	}
	require.Equal(t, []int{2045, 2043}, dir.EOS())
	require.Equal(t, moteDir, dir.Name())
	config, err := dir.ReadFile(checkpoint.TokenizerConfigFile)
	require.NoError(t, err)
	require.NotEmpty(t, config)
	_, err = dir.ReadFile("nothing.json")
	require.ErrorIs(t, err, checkpoint.ErrMissing)

	m, err := dir.Module("model.layers.0.mlp.down_proj", 256, 768)
	require.NoError(t, err)
	require.True(t, m.Quantized)
	require.Equal(t, checkpoint.Packing{GroupSize: 128, Bits: 4}, m.Packing)
	require.Equal(t, []int{256, 96}, m.Weight.Shape)
	require.Equal(t, []int{256, 6}, m.Scales.Shape)
	_, err = dir.Expect("model.norm.weight", 256)
	require.NoError(t, err)
	_, err = dir.Expect("model.norm.weight", 255)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	require.ErrorContains(t, err, "model.norm.weight")

	require.NoError(t, dir.Close())
	require.NoError(t, dir.Close())
	require.NoError(t, embedded.Close())
	_, err = dir.Tensor("model.norm.weight")
	require.ErrorIs(t, err, checkpoint.ErrMissing)
}

// weights writes a safetensors file with U8 tensors of one byte.
func weights(t testing.TB, names ...string) *fstest.MapFile {
	t.Helper()
	var list []checkpoint.Tensor
	for _, name := range names {
		list = append(list, checkpoint.Tensor{Name: name, Stored: "U8", Shape: []int{1}, Data: []byte(name[:1])})
	}
	var b bytes.Buffer
	require.NoError(t, checkpoint.Write(&b, list, nil))
	return &fstest.MapFile{Data: b.Bytes()}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// folder is a checkpoint with the demo model's config.json and two shards.
func folder(t testing.TB) fstest.MapFS {
	t.Helper()
	return fstest.MapFS{
		checkpoint.ConfigFile: &fstest.MapFile{Data: changed(t, nil)},
		checkpoint.IndexFile:  text(`{"metadata":{"total_size":3},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors"}}`),
		"s1.safetensors":      weights(t, "a", "stray"),
		"s2.safetensors":      weights(t, "b", "c"),
	}
}

// What is unloaded is read again when it is needed.
func TestUnload(t *testing.T) {
	dir, err := checkpoint.Open(moteDir)
	require.NoError(t, err)
	embedded, err := checkpoint.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	for _, name := range dir.Names() {
		a, err := dir.Tensor(name)
		require.NoError(t, err)
		b, err := embedded.Tensor(name)
		require.NoError(t, err)
		before := bytes.Clone(a.Data)
		dir.Unload()
		embedded.Unload()
		require.Equal(t, before, a.Data)
		require.Equal(t, before, b.Data)
	}
	require.NoError(t, dir.Close())
	require.NoError(t, embedded.Close())
	dir.Unload()
	(*checkpoint.Checkpoint)(nil).Unload()
}

func TestShards(t *testing.T) {
	files := folder(t)
	check := func(c *checkpoint.Checkpoint, err error) {
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, c.Names())
		require.EqualValues(t, 3, c.Bytes())
		b, err := c.Tensor("b")
		require.NoError(t, err)
		require.Equal(t, "b", string(b.Data))
		require.False(t, c.Has("stray"))
		require.Equal(t, []int{2045}, c.EOS())
		require.NoError(t, c.Close())
	}
	check(checkpoint.OpenFS(files, "x"))

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, files))
	check(checkpoint.Open(dir))

	// A link to a snapshot of Hugging Face's cache, whose files are links themselves.
	hub := t.TempDir()
	snapshot := filepath.Join(hub, "snapshots", "1")
	require.NoError(t, os.MkdirAll(snapshot, 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(hub, "blobs"), files))
	for name := range files {
		require.NoError(t, os.Symlink(filepath.Join("..", "..", "blobs", name), filepath.Join(snapshot, name)))
	}
	link := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.Symlink(snapshot, link))
	check(checkpoint.Open(snapshot))
	check(checkpoint.Open(link))
}

// model.safetensors comes first: an index beside it may be left from weights in shards.
func TestWeightsBesideAStaleIndex(t *testing.T) {
	for _, index := range []string{`{"weight_map":{"a":"gone.safetensors"}}`, "x"} {
		files := folder(t)
		files[checkpoint.WeightsFile], files[checkpoint.IndexFile] = weights(t, "d", "e"), text(index)
		c, err := checkpoint.OpenFS(files, "x")
		require.NoError(t, err)
		require.Equal(t, []string{"d", "e"}, c.Names())
		require.NoError(t, c.Close())
	}
}

// forbidden has files that may not be opened.
type forbidden struct{}

func (forbidden) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestFolderErrors(t *testing.T) {
	index := func(s string) func(fstest.MapFS) { return func(f fstest.MapFS) { f[checkpoint.IndexFile] = text(s) } }
	without := func(name string) func(fstest.MapFS) { return func(f fstest.MapFS) { delete(f, name) } }
	escape := func(shard string) func(fstest.MapFS) { return index(`{"weight_map":{"a":"` + shard + `"}}`) }
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		err    error
		names  string
	}{
		"no config":         {without(checkpoint.ConfigFile), checkpoint.ErrMissing, "x/config.json"},
		"no weights":        {without(checkpoint.IndexFile), checkpoint.ErrMissing, "x/model.safetensors"},
		"other weights":     {func(f fstest.MapFS) { delete(f, checkpoint.IndexFile); f["model.gguf"] = text("GGUF") }, checkpoint.ErrMissing, "model.gguf has another format"},
		"no shard":          {without("s2.safetensors"), checkpoint.ErrMissing, "x/s2.safetensors"},
		"tensor not there":  {func(f fstest.MapFS) { f["s2.safetensors"] = weights(t, "b") }, checkpoint.ErrMissing, `"c"`},
		"wrong shard":       {func(f fstest.MapFS) { f["s1.safetensors"] = weights(t, "a", "b") }, checkpoint.ErrFormat, `"b"`},
		"broken shard":      {func(f fstest.MapFS) { f["s2.safetensors"] = text("x") }, checkpoint.ErrFormat, "x/s2.safetensors"},
		"broken generation": {func(f fstest.MapFS) { f[checkpoint.GenerationFile] = text("[") }, checkpoint.ErrConfig, "generation_config.json"},
		"config a folder":   {func(f fstest.MapFS) { f[checkpoint.ConfigFile] = &fstest.MapFile{Mode: fs.ModeDir} }, checkpoint.ErrFormat, "config.json"},
		"config too big":    {func(f fstest.MapFS) { f[checkpoint.ConfigFile] = &fstest.MapFile{Data: make([]byte, 17<<20)} }, checkpoint.ErrFormat, "config.json"},
		"index not JSON":    {index(`{`), checkpoint.ErrFormat, checkpoint.IndexFile},
		"index no map":      {index(`{}`), checkpoint.ErrFormat, "weight_map"},
		"index map array":   {index(`{"weight_map":[]}`), checkpoint.ErrFormat, "weight_map"},
		"index duplicate":   {index(`{"weight_map":{"a":"s1.safetensors","a":"s2.safetensors"}}`), checkpoint.ErrFormat, `"a"`},
		"index number":      {index(`{"weight_map":{"a":1}}`), checkpoint.ErrFormat, `"a"`},
		"parent":            {escape("../s1.safetensors"), checkpoint.ErrFormat, "../s1.safetensors"},
		"absolute":          {escape("/etc/passwd"), checkpoint.ErrFormat, "/etc/passwd"},
		"inner folder":      {escape("sub/s1.safetensors"), checkpoint.ErrFormat, "sub/"},
		"dot":               {escape("."), checkpoint.ErrFormat, "shard"},
		"dots":              {escape(".."), checkpoint.ErrFormat, "shard"},
		"empty":             {escape(""), checkpoint.ErrFormat, "shard"},
		"backslash":         {escape(`..\\s1`), checkpoint.ErrFormat, "shard"},
		"drive":             {escape("c:x"), checkpoint.ErrFormat, "shard"},
	} {
		files := folder(t)
		c.change(files)
		_, err := checkpoint.OpenFS(files, "x")
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, c.names, name)
	}
	_, err := checkpoint.Open(filepath.Join(t.TempDir(), "nothing"))
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "nothing: missing: ")
	_, err = checkpoint.OpenFS(forbidden{}, "x")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.EqualError(t, err, "x/config.json: cannot be opened: permission denied")
	_, err = checkpoint.Open(moteDir + "/config.json")
	require.ErrorIs(t, err, checkpoint.ErrFormat)
}

// TestPipe: a named pipe in place of a file is refused at once.
func TestPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs mkfifo")
	}
	dir := t.TempDir()
	require.NoError(t, mkfifo(filepath.Join(dir, checkpoint.ConfigFile)))
	_, err := checkpoint.Open(dir)
	require.ErrorIs(t, err, checkpoint.ErrFormat)
}

func TestOpenWithoutFiles(t *testing.T) {
	_, err := checkpoint.OpenFS(nil, "nothing")
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.ErrorContains(t, err, checkpoint.ConfigFile)
}

func TestWriteIndex(t *testing.T) {
	var b bytes.Buffer
	want := map[string]string{"a": "s1.safetensors", "b<": "s2.safetensors"}
	require.NoError(t, checkpoint.WriteIndex(&b, want, 7))
	got, err := checkpoint.ParseIndex("i", b.Bytes())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, checkpoint.WriteIndex(&b, map[string]string{"a": "../x"}, 0), checkpoint.ErrFormat)
	require.ErrorIs(t, checkpoint.WriteIndex(&b, map[string]string{"\xff": "x"}, 0), checkpoint.ErrFormat)
}

// FuzzIndex: any bytes are refused with a FormatError, or name plain files.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":3},"weight_map":{"a":"s1.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		weights, err := checkpoint.ParseIndex("i", data)
		if err != nil {
			require.ErrorIs(t, err, checkpoint.ErrFormat)
			return
		}
		for _, shard := range weights {
			require.Equal(t, shard, filepath.Base(shard))
			require.True(t, filepath.IsLocal(shard))
		}
	})
}
