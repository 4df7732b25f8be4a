package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// ready returns the options of the command line, with input and output in a folder
// of the test's.
func ready(t *testing.T, lines []string, args ...string) *options {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	require.NoError(t, os.WriteFile(in, []byte(strings.Join(lines, "\n")), 0o600))
	fs := flag.NewFlagSet("batch", flag.ContinueOnError)
	o := defineFlags(fs)
	require.NoError(t, fs.Parse(append([]string{"--input", in, "--output", filepath.Join(dir, "out.jsonl"), "--device", "cpu"}, args...)))
	return o
}

// read returns the values of a file of JSON lines by their IDs.
func read[T any](t *testing.T, name string, id func(*T) string) map[string]T {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	all := map[string]T{}
	in := bufio.NewScanner(file)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(in.Bytes(), &v))
		assert.NotContains(t, all, id(&v), "twice")
		all[id(&v)] = v
	}
	require.NoError(t, in.Err())
	return all
}

func answerID(a *answer) string   { return a.ID }
func failureID(f *failure) string { return cmp.Or(f.ID, f.Line) }

// loadDemo loads the demo model on the CPU.
func loadDemo(t *testing.T) (*generate.Folder, *kompute.Device, model.Model) {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	device, err := kompute.Open("cpu")
	require.NoError(t, err)
	m, err := folder.Load(t.Context(), device, model.Options{})
	require.NoError(t, err)
	return folder, device, m
}

// session answers questions one by one.
func session(t *testing.T) func(prompt string, tokens int, sampling sample.Params) *generate.Result {
	folder, device, m := loadDemo(t)
	s, err := generate.NewSession(m, folder.Tokenizer, folder.Limits().Context)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, m.Close())
		assert.NoError(t, device.Close())
		assert.NoError(t, folder.Close())
	})
	return func(prompt string, tokens int, sampling sample.Params) *generate.Result {
		ids, err := folder.EncodeChat(t.Context(), generate.Turn("", prompt))
		require.NoError(t, err)
		r, err := s.Generate(t.Context(), ids, generate.Options{MaxTokens: tokens, EOS: folder.EOS(), Sampling: sampling})
		require.NoError(t, err)
		return r
	}
}

// Every line is answered once, in the same way as by a session, or fails once with a reason.
func TestPrism(t *testing.T) {
	const notUTF8 = "{\"id\": \"caf\xe9\", \"prompt\": \"x\"}"
	var lines []string
	prompts := map[string]string{}
	for i := range 40 {
		id, prompt := fmt.Sprintf("q%d", i), fmt.Sprintf("Tell me a story about %d foxes.", i)
		prompts[id] = prompt
		lines = append(lines, fmt.Sprintf(`{"id": %q, "messages": [{"role": "user", "content": %q}], "max_tokens": %d}`, id, prompt, 4+i%9))
	}
	lines = append(lines,
		`{"id": "sampled", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 1, "seed": 7}`,
		`{"id": "again", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 1, "seed": 7}`,
		`{"id": "likeliest", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 100, "top_p": 0, "top_k": -1}`,
		`{"id": "text", "prompt": "Once upon a time", "max_tokens": 5}`,
		`{"id": "cut"`, `{"prompt": "no id"}`, `{"id": "empty"}`, `{"id": "wrong", "prompt": "x", "max_tokens": -1}`,
		`{"id": "unknown", "prompt": "x", "color": "red"}`, `{"id": "hot", "prompt": "x", "temperature": -3}`,
		fmt.Sprintf(`{"id": "long", "prompt": %q}`, strings.Repeat("fox ", 100_000)), notUTF8,
	)
	o := ready(t, lines, "--sequences", "4")
	var out strings.Builder
	require.NoError(t, run(t.Context(), o, &out))
	assert.Contains(t, out.String(), "answered 44, failed 8")

	answers := read(t, o.output, answerID)
	require.Len(t, answers, 44)
	ask := session(t)
	for _, id := range []string{"q0", "q7", "q39"} {
		a := answers[id]
		want := ask(prompts[id], a.GeneratedTokens, sample.Params{})
		assert.Equal(t, want.Text, a.Text)
		assert.Equal(t, want.Finish, a.Finish)
		assert.Len(t, want.IDs, a.GeneratedTokens)
	}
	assert.Equal(t, ask("Hi", 8, sample.Params{Temperature: 1, Seed: 7}).Text, answers["sampled"].Text)
	assert.Equal(t, answers["sampled"].Text, answers["again"].Text)
	assert.Equal(t, ask("Hi", 8, sample.Params{}).Text, answers["likeliest"].Text)
	assert.NotEmpty(t, answers["text"].Text)

	failures := read(t, o.failed, failureID)
	require.Len(t, failures, 8)
	assert.Contains(t, failures[`{"id": "cut"`].Reason, "EOF")
	assert.Contains(t, failures[`{"prompt": "no id"}`].Reason, "id")
	assert.Contains(t, failures["empty"].Reason, `"prompt" and "messages"`)
	assert.Contains(t, failures["wrong"].Reason, "negative")
	assert.Contains(t, failures["unknown"].Reason, "color")
	assert.Contains(t, failures["hot"].Reason, "temp -3")
	assert.Contains(t, failures["long"].Reason, "context")
	assert.Equal(t, `{"id": "empty"}`, failures["empty"].Line)
	assert.Empty(t, failures["empty"].Bytes)
	replaced := failures[strings.ToValidUTF8(notUTF8, "\ufffd")]
	assert.Contains(t, replaced.Reason, "invalid JSON")
	assert.Equal(t, notUTF8, string(replaced.Bytes))
}

// A byte order mark, with which some editors begin a file, is not part of its first line.
func TestByteOrderMark(t *testing.T) {
	q, err := parse("\ufeff" + `{"id": "1", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Equal(t, "1", q.ID)
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--output", ""}, {"--output", "/dev/null/out.jsonl"}, {"--input", "none.jsonl"}, {"--input", "none*.jsonl"}, {"--shards", "0"}, {"--sequences", "0"}, {"--max-tokens", "0"}, {"--timeout", "-1s"},
	} {
		require.Error(t, run(t.Context(), ready(t, nil, args...), new(strings.Builder)), "%v", args)
	}
}

// Help and version go to stdout; nonsense is an error that names the flag as the help does.
func TestHelp(t *testing.T) {
	write := func(to io.Writer, args ...string) error {
		beams := flag.NewFlagSet("test", flag.ContinueOnError)
		beams.String("job_name", "", "Job name.")
		own := flag.NewFlagSet("batch", flag.ContinueOnError)
		defineFlags(own)
		return readFlags(own, beams, args, to)
	}
	parsed := func(args ...string) (string, error) {
		var out strings.Builder
		err := write(&out, args...)
		return out.String(), err
	}
	help, err := parsed("--help")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Regexp(t, `(?s)^usage: batch .*\n  --input files\n.*\n  --version\n.*Beam's flags:\n\n  --job_name string\n`, help)
	require.NotContains(t, help, "\n  -i")
	version, err := parsed("--version")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, version, "batch (kompute-go) "+kompute.Version)
	out, err := parsed("--nonsense")
	require.EqualError(t, err, "flag provided but not defined: --nonsense")
	require.Empty(t, out)
	_, err = parsed("--overwrite=maybe")
	require.ErrorContains(t, err, "for --overwrite: ")
	_, err = parsed("--job_name", "a", "more")
	require.EqualError(t, err, `unexpected argument "more"`)
	_, err = parsed("--job_name", "a", "--shards", "2")
	require.NoError(t, err)
	closed, full := io.Pipe()
	require.NoError(t, closed.Close())
	for _, arg := range []string{"--help", "--version"} {
		err := write(full, arg)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, flag.ErrHelp)
	}
}

// The counts are those of all lines, also where bundles end at the same moment.
func TestCounts(t *testing.T) {
	var lines []string
	for i := range 12 {
		lines = append(lines, fmt.Sprintf(`{"id": "%d", "prompt": "fox", "max_tokens": 2}`, i), `{"id": "wrong"}`)
	}
	for range 4 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), ready(t, lines), &out))
		require.Equal(t, "answered 12, failed 12, generated_tokens 24, prompt_tokens 36\n", out.String())
	}
}
