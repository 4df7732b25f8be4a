package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// manyTensors is a safetensors file of n empty tensors.
func manyTensors(n int) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"model.layers.%d.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, i)
	}
	b.WriteByte('}')
	return raw(b.String(), 0)
}

// A header with more tensors than any model has is refused quickly; one with as many
// as a large model has is read quickly.
func TestManyTensors(t *testing.T) {
	data := manyTensors(900_000)
	testlimit.Run(t, 3*time.Second, 256<<20, func() {
		_, err := checkpoint.Parse("many", data)
		require.ErrorIs(t, err, checkpoint.ErrFormat)
		require.ErrorContains(t, err, "more than 200000 members")
	})
	data = manyTensors(100_000)
	testlimit.Run(t, 3*time.Second, 256<<20, func() {
		f, err := checkpoint.Parse("large", data)
		require.NoError(t, err)
		require.Len(t, f.Names(), 100_000)
	})
	deep := raw(strings.Repeat(`{"a":`, 1<<20), 0)
	testlimit.Run(t, 3*time.Second, 256<<20, func() {
		_, err := checkpoint.Parse("deep", deep)
		require.ErrorIs(t, err, checkpoint.ErrFormat)
	})
	long := raw(`{"a":{"dtype":"F32","shape":[`+strings.Repeat("1,", 10<<20)+`1],"data_offsets":[0,4]}}`, 4)
	testlimit.Run(t, 10*time.Second, 1<<30, func() {
		_, err := checkpoint.Parse("long", long)
		require.ErrorIs(t, err, checkpoint.ErrFormat)
	})
}

// A header whose entries are huge costs little more than the bytes of the file.
func TestHugeEntries(t *testing.T) {
	var names strings.Builder
	for i := range 3_000_000 {
		fmt.Fprintf(&names, `"%x":0,`, i)
	}
	for _, header := range []string{
		`{"t":{` + names.String() + `"":0}}`,
		`{"t":{"dtype":{` + names.String() + `"":0}}}`,
		`{"__metadata__":{` + names.String() + `"":0}}`,
		`{"t":[` + strings.Repeat("[],", 10<<20) + `[]]}`,
	} {
		data := raw(header, 0)
		testlimit.Run(t, 3*time.Second, 64<<20, func() {
			_, err := checkpoint.Parse("huge", data)
			require.ErrorIs(t, err, checkpoint.ErrFormat)
			require.Less(t, len(err.Error()), 200)
		})
	}
}

// Every file of a folder is read with the same care: no pipe is waited for, no device
// or oversized file is read, and no link leads out of the folder.
func TestHostileFolders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs pipes, devices and sparse files")
	}
	secret := filepath.Join(t.TempDir(), "secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(`{}`), 0o600))
	for what, put := range map[string]func(path string) error{
		"pipe":    mkfifo,
		"device":  func(path string) error { return os.Symlink("/dev/zero", path) },
		"link":    func(path string) error { return os.Symlink(secret, path) },
		"link up": func(path string) error { return os.Symlink("../../../../../../../../"+secret, path) },
		"link to pipe": func(path string) error {
			return errors.Join(mkfifo(path+".pipe"), os.Symlink(filepath.Base(path)+".pipe", path))
		},
		"folder":         func(path string) error { return os.Mkdir(path, 0o700) },
		"sparse giant":   func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
		"link in a loop": func(path string) error { return os.Symlink(filepath.Base(path), path) },
	} {
		for _, name := range []string{
			checkpoint.ConfigFile, checkpoint.GenerationFile, checkpoint.IndexFile, checkpoint.WeightsFile, checkpoint.TokenizerFile,
			chat.TokenizerConfigFile, chat.TemplateFile,
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				require.NoError(t, os.CopyFS(dir, os.DirFS(moteDir)))
				path := filepath.Join(dir, name)
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, put(path))
				if name == checkpoint.IndexFile {
					require.NoError(t, os.Remove(filepath.Join(dir, checkpoint.WeightsFile))) // the index is not read beside it
				}
				testlimit.Run(t, 2*time.Second, 64<<20, func() {
					c, err := checkpoint.Open(dir)
					if err == nil {
						defer c.Close()
						if name == checkpoint.TokenizerFile {
							_, err = c.ReadFile(name)
						} else {
							_, err = chat.Open(c.FS())
						}
					}
					require.Error(t, err)
					require.Equal(t, 1, strings.Count(strings.ReplaceAll(err.Error(), dir, ""), name), err)
				})
			})
		}
	}
}

// Links within the folder are fine, and so are those of a snapshot in Hugging Face's
// cache, which lead to the blobs beside it.
func TestLinksThatAreFine(t *testing.T) {
	model := filepath.Join(t.TempDir(), "models--x")
	snapshot := filepath.Join(model, "snapshots", "abc")
	require.NoError(t, os.MkdirAll(snapshot, 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(model, "blobs"), os.DirFS(moteDir)))
	entries, err := os.ReadDir(moteDir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			require.NoError(t, os.Symlink(filepath.Join("..", "..", "blobs", e.Name()), filepath.Join(snapshot, e.Name())))
		}
	}
	c, err := checkpoint.Open(snapshot)
	require.NoError(t, err)
	_, err = chat.Open(c.FS())
	require.NoError(t, err)
	require.NoError(t, c.Close())

	require.NoError(t, os.Rename(filepath.Join(model, "blobs", checkpoint.ConfigFile), filepath.Join(model, "elsewhere")))
	dir := filepath.Join(model, "blobs")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "real"), mustRead(t, filepath.Join(model, "elsewhere")), 0o600))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, checkpoint.ConfigFile)))
	c, err = checkpoint.Open(dir)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}
