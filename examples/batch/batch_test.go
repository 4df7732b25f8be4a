package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
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

// session answers questions one by one.
func session(t *testing.T) func(prompt string, tokens int, sampling sample.Params) *generate.Result {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	device, err := kompute.Open("cpu")
	require.NoError(t, err)
	m, err := folder.Load(t.Context(), device, model.Options{})
	require.NoError(t, err)
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
		`{"id": "text", "prompt": "Once upon a time", "max_tokens": 5}`,
		`{"id": "cut"`, `{"prompt": "no id"}`, `{"id": "empty"}`, `{"id": "wrong", "prompt": "x", "max_tokens": -1}`,
		`{"id": "unknown", "prompt": "x", "color": "red"}`, `{"id": "hot", "prompt": "x", "temperature": -3}`,
		fmt.Sprintf(`{"id": "long", "prompt": %q}`, strings.Repeat("fox ", 100_000)),
	)
	o := ready(t, lines, "--sequences", "4")
	var out strings.Builder
	require.NoError(t, run(t.Context(), o, &out))
	assert.Contains(t, out.String(), "answered 43, failed 7")

	answers := read(t, o.output, answerID)
	require.Len(t, answers, 43)
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
	assert.NotEmpty(t, answers["text"].Text)

	failures := read(t, o.failed, failureID)
	require.Len(t, failures, 7)
	assert.Contains(t, failures[`{"id": "cut"`].Reason, "EOF")
	assert.Contains(t, failures[`{"prompt": "no id"}`].Reason, "id")
	assert.Contains(t, failures["empty"].Reason, `"prompt" and "messages"`)
	assert.Contains(t, failures["wrong"].Reason, "negative")
	assert.Contains(t, failures["unknown"].Reason, "color")
	assert.Contains(t, failures["hot"].Reason, "temp -3")
	assert.Contains(t, failures["long"].Reason, "context")
	assert.Equal(t, `{"id": "empty"}`, failures["empty"].Line)
}

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
	require.NoError(t, run(t.Context(), o, new(strings.Builder)))
	var names []string
	for name, content := range contents(t, dir) {
		names = append(names, name)
		if strings.HasSuffix(name, "-of-00003.jsonl") {
			assert.Empty(t, content, "%s: nothing is left of the first run", name)
		}
	}
	assert.ElementsMatch(t, []string{
		"in.jsonl", "out-00000-of-00003.jsonl", "out-00001-of-00003.jsonl", "out-00002-of-00003.jsonl",
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

// A byte order mark, with which some editors begin a file, is not part of its first line.
func TestByteOrderMark(t *testing.T) {
	q, err := parse("\ufeff" + `{"id": "1", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Equal(t, "1", q.ID)
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--output", ""}, {"--output", "/dev/null/out.jsonl"}, {"--input", "none.jsonl"}, {"--shards", "0"}, {"--sequences", "0"}, {"--max-tokens", "0"}, {"--timeout", "-1s"},
	} {
		require.Error(t, run(t.Context(), ready(t, nil, args...), new(strings.Builder)), "%v", args)
	}
}

// Help and version go to stdout; nonsense is an error that names the flag as the help does.
func TestHelp(t *testing.T) {
	parsed := func(args ...string) (string, error) {
		beams := flag.NewFlagSet("test", flag.ContinueOnError)
		beams.String("job_name", "", "Job name.")
		own := flag.NewFlagSet("batch", flag.ContinueOnError)
		defineFlags(own)
		var out strings.Builder
		err := readFlags(own, beams, args, &out)
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
	_, err = parsed("--job_name", "a", "more")
	require.EqualError(t, err, `unexpected argument "more"`)
	_, err = parsed("--job_name", "a", "--shards", "2")
	require.NoError(t, err)
}

// bundle runs lines through the function in the same way as a runner.
func bundle(t *testing.T, f *answerFn, ctx context.Context, lines ...string) (answers, failures []string, err error) {
	yes, no := func(s string) { answers = append(answers, s) }, func(s string) { failures = append(failures, s) }
	require.NoError(t, f.StartBundle(ctx, yes, no))
	for _, line := range lines {
		if err := f.ProcessElement(ctx, line, yes, no); err != nil {
			return answers, failures, err
		}
	}
	return answers, failures, f.FinishBundle(ctx, yes, no)
}

// An abandoned bundle does not affect the next one, which answers all of its lines,
// with the same answers.
func TestABundleThatIsGivenUp(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 2, MaxTokens: 200}}
	ctx, cancel := context.WithCancel(t.Context())
	nobody := func(string) { t.Error("an answer of a bundle that was given up") }
	require.NoError(t, f.StartBundle(ctx, nobody, nobody))
	for i := range 3 {
		require.NoError(t, f.ProcessElement(ctx, fmt.Sprintf(`{"id": "%d", "prompt": "fox"}`, i), nobody, nobody))
	}
	cancel()
	require.ErrorIs(t, f.FinishBundle(ctx, nobody, nobody), context.Canceled)

	lines := []string{`{"id": "a", "prompt": "fox", "max_tokens": 3}`, `{"id": "b", "prompt": "hen", "max_tokens": 3, "temperature": 1}`}
	first, failures, err := bundle(t, f, t.Context(), lines...)
	require.NoError(t, err)
	assert.Len(t, first, 2)
	assert.Empty(t, failures)
	second, _, err := bundle(t, f, t.Context(), lines...)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	require.NoError(t, f.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// A bundle in which a later step fails stops its lines and gives the worker back: nothing
// calls its function again.
func TestALaterStepThatFails(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 3, MaxTokens: 1}}
	fails := func(string) { panic("a later step") } // as Beam's emitters do
	for _, line := range []string{`{"id": "a", "prompt": "fox"}`, `{"id": "a"}`} {
		require.NoError(t, f.StartBundle(t.Context(), fails, fails))
		w, ctx := f.worker, f.ctx
		require.Equal(t, 1, w.users)
		require.Panics(t, func() {
			require.NoError(t, f.ProcessElement(t.Context(), line, fails, fails))
			require.NoError(t, f.FinishBundle(t.Context(), fails, fails))
		})
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Zero(t, w.users)
	}
	retry := &answerFn{Settings: f.Settings}
	answers, failures, err := bundle(t, retry, t.Context(), `{"id": "a", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Len(t, answers, 1)
	assert.Empty(t, failures)
	require.NoError(t, retry.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// deadEngine returns an engine that has ended with an error.
func deadEngine(t *testing.T) *engine.Engine {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	device, err := kompute.Open("cpu")
	require.NoError(t, err)
	m, err := folder.Load(t.Context(), device, model.Options{})
	require.NoError(t, err)
	e, err := engine.New(m, folder.Tokenizer, engine.Config{Sequences: 1})
	require.NoError(t, err)
	require.NoError(t, device.Close())
	s, err := e.Submit(t.Context(), engine.Request{Prompt: []int{1}, MaxTokens: 1})
	require.NoError(t, err)
	_, err = s.Result(t.Context())
	require.Error(t, err)
	require.Error(t, e.Close(t.Context())) // which waits for its end
	require.Error(t, e.Err())
	t.Cleanup(func() {
		_ = m.Close()
		_ = folder.Close()
	})
	return e
}

// A retry gets another worker in place of one whose engine has ended, even if others
// still use that.
func TestAnEngineThatHasEnded(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 2, MaxTokens: 1}}
	nobody := func(string) { t.Error("an answer of an engine that has ended") }
	require.NoError(t, f.StartBundle(t.Context(), nobody, nobody))
	w, ctx := f.worker, f.ctx
	other := &answerFn{Settings: f.Settings}
	require.NoError(t, other.StartBundle(t.Context(), nobody, nobody))
	require.Same(t, w, other.worker)
	require.NoError(t, w.engine.Close(t.Context()))
	w.engine = deadEngine(t)

	line := `{"id": "a", "prompt": "fox"}`
	require.ErrorIs(t, f.ProcessElement(t.Context(), line, nobody, nobody), kompute.ErrClosed)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Nil(t, f.worker)
	require.Equal(t, 1, w.users)

	retry := &answerFn{Settings: f.Settings}
	answers, failures, err := bundle(t, retry, t.Context(), line)
	require.NoError(t, err)
	assert.Len(t, answers, 1)
	assert.Empty(t, failures)
	assert.NotSame(t, w, workers.of[f.Settings])
	assert.Nil(t, w.device, "memory that the next worker may need")
	require.ErrorIs(t, other.ProcessElement(t.Context(), line, nobody, nobody), kompute.ErrClosed)
	require.Zero(t, w.users)
	require.NoError(t, retry.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// A line that takes too long fails, and delays no others.
func TestTimeout(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 1, MaxTokens: 1, Timeout: 1}}
	answers, failures, err := bundle(t, f, t.Context(), `{"id": "slow", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Empty(t, answers)
	require.Len(t, failures, 1)
	assert.Contains(t, failures[0], "no answer within 1ns")
	require.NoError(t, f.Teardown())
}
