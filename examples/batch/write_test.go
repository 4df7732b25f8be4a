package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The output is divided by lines, and files of an earlier run are neither mixed
// with new ones nor lost.
func TestOutputs(t *testing.T) {
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf(`{"id": "%d", "prompt": "fox", "max_tokens": 1}`, i))
	}
	o := ready(t, lines, "--shards", "3")
	require.NoError(t, run(t.Context(), o, new(strings.Builder)))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(o.output), "*"))
	require.NoError(t, err)
	require.Len(t, files, 4, "the input and three shards, no failures and no parts: %v", files)
	all := map[string]answer{}
	for shard := range 3 {
		for id, a := range read(t, shardName(o.output, shard, 3), answerID) {
			assert.NotContains(t, all, id)
			all[id] = a
		}
	}
	assert.Len(t, all, 12)

	require.ErrorContains(t, run(t.Context(), o, new(strings.Builder)), "--overwrite")
	o.overwrite = true
	itself := *o
	itself.failed = filepath.Join(filepath.Dir(o.input), ".", filepath.Base(o.input))
	require.ErrorContains(t, run(t.Context(), &itself, new(strings.Builder)), "both an input and an output")
	require.FileExists(t, o.input)
	dir := filepath.Dir(o.output)
	for _, name := range []string{"out.failed.jsonl", "out-00004-of-00005.jsonl", "out-notes-of-peter.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
	}
	o.input = filepath.Join(dir, "none*.jsonl")
	before := contents(t, dir)
	require.ErrorContains(t, run(t.Context(), o, new(strings.Builder)), "there is no file")
	require.Equal(t, before, contents(t, dir))
	o.input = filepath.Join(dir, "none.jsonl")
	require.NoError(t, os.WriteFile(o.input, nil, 0o600))
	require.NoError(t, run(t.Context(), o, new(strings.Builder)))
	var names []string
	for name, content := range contents(t, dir) {
		names = append(names, name)
		if strings.HasSuffix(name, "-of-00003.jsonl") {
			assert.Empty(t, content, "%s: nothing is left of the first run", name)
		}
	}
	assert.ElementsMatch(t, []string{
		"in.jsonl", "none.jsonl", "out-00000-of-00003.jsonl", "out-00001-of-00003.jsonl", "out-00002-of-00003.jsonl",
		"out-notes-of-peter.jsonl",
	}, names)
}

// contents returns the contents of the files of a folder by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(data)
	}
	return all
}

// A job that fails leaves the files that it would have replaced as they are.
func TestAFailedJobKeepsEarlierFiles(t *testing.T) {
	lines := []string{`{"id": "1", "prompt": "fox"}`, `{"id": "2"}`}
	o := ready(t, lines, "--shards", "2", "--overwrite", "--model", "/dev/null/none")
	dir := filepath.Dir(o.output)
	for _, name := range []string{"out-00000-of-00002.jsonl", "out-00001-of-00002.jsonl", "out.failed.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old "+name), 0o600))
	}
	before := contents(t, dir)
	require.Error(t, run(t.Context(), o, new(strings.Builder)))
	assert.Equal(t, before, contents(t, dir))
}

// Publishing is repeated if its worker dies: files that have their names keep them, and
// a file that is lost is an error.
func TestPublishingAgain(t *testing.T) {
	dir := t.TempDir()
	u := output{Path: filepath.Join(dir, "out.jsonl"), Shards: 2, Empty: true}
	part := partName(u.name(1))
	want := map[string]string{"out-00000-of-00002.jsonl": "", "out-00001-of-00002.jsonl": "new"}
	require.NoError(t, os.WriteFile(part, []byte("new"), 0o600))
	for range 2 {
		require.NoError(t, u.publish(t.Context(), map[string]string{wholeName(part): part}, true))
		require.Equal(t, want, contents(t, dir))
	}
	require.NoError(t, os.Remove(u.name(1)))
	require.ErrorIs(t, u.publish(t.Context(), map[string]string{wholeName(part): part}, true), os.ErrNotExist)
}

// Names that would be patterns are refused, and two names of one file.
func TestOutputNames(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "b")))
	t.Chdir(dir)
	for _, c := range []struct {
		output, failed string
		shards         int
		want           string // in the error; there is none if empty
	}{
		{"run[1].jsonl", "", 1, "pattern"},
		{"run*.jsonl", "failed.jsonl", 1, "pattern"},
		{"out.jsonl", "failed?.jsonl", 1, "pattern"},
		{"out.jsonl", "./out.jsonl", 1, "the same file"},
		{"out.jsonl", filepath.Join(dir, "out.jsonl"), 2, "the same file"},
		{"a/out.jsonl", "b/out.jsonl", 1, "the same file"},
		{"a/out.jsonl", "b/out-00001-of-00002.jsonl", 2, "the same file"},
		{"out.jsonl", "a/../out-00001-of-00009.jsonl", 2, "the same file"},
		{"out.jsonl", "out-00001-of-00002.jsonl", 1, ""},
		{"out.jsonl", "a/out.jsonl", 2, ""},
		{"mem://out.jsonl", "out.jsonl", 1, ""},
	} {
		o := ready(t, nil, "--shards", fmt.Sprint(c.shards), "--output", c.output, "--failed", c.failed)
		if err := o.check(); c.want == "" {
			assert.NoError(t, err, "%+v", c)
		} else {
			assert.ErrorContains(t, err, c.want, "%+v", c)
		}
	}
	o := ready(t, nil, "--output", filepath.Join(dir, "a"), "--overwrite")
	require.ErrorContains(t, run(t.Context(), o, new(strings.Builder)), "folder")
}
