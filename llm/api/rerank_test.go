package api

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// yesAmongBoth returns the probability of "yes" after the prompt of Qwen3-Reranker's model card, by the model's logits.
func (s service) yesAmongBoth(instruct, query, doc string) float64 {
	s.Helper()
	m := s.model.Load()
	encode := func(text string) []int {
		ids, err := m.folder.Tokenizer.EncodeWith(s.Context(), text, tokenizer.EncodeOptions{})
		require.NoError(s, err)
		return ids
	}
	prompt := "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n" +
		"<Instruct>: " + instruct + "\n<Query>: " + query + "\n<Document>: " + doc + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
	yes, no := encode("yes"), encode("no")
	require.NotEqual(s, yes[0], no[0])
	var score float64
	stream, err := m.engine.Submit(s.Context(), engine.Request{Prompt: encode(prompt), MaxTokens: 1, Logits: func(_ []int32, logits []float32) error {
		score = 1 / (1 + math.Exp(float64(logits[no[0]])-float64(logits[yes[0]])))
		return nil
	}})
	require.NoError(s, err)
	_, err = stream.Result(s.Context())
	require.NoError(s, err)
	return score
}

// reranked is an answer.
type reranked struct {
	Results []struct {
		Index    int     `json:"index"`
		Score    float64 `json:"relevance_score"`
		Document *struct {
			Text string `json:"text"`
		} `json:"document"`
	} `json:"results"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
	} `json:"usage"`
}

// Documents are ranked by the probability of "yes", also if there are more of them than can run or wait at once.
func TestRerank(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.engine.Sequences, c.engine.Queue = 2, 2 })
	documents := make([]string, 9)
	for i := range documents {
		documents[i] = strings.Repeat("The sky is blue. ", i) + fmt.Sprint("Document ", i)
	}
	const web = "Given a web search query, retrieve relevant passages that answer the query"
	for path, instruct := range map[string]string{"/v1/rerank": web, "/v2/rerank": web, "/rerank": "Find colours"} {
		field := ""
		if instruct != web {
			field = `"instruction":"` + instruct + `",`
		}
		var a reranked
		s.into(path, `{`+field+`"query":"What colour?","documents":["`+strings.Join(documents[:8], `","`)+`",{"text":"`+documents[8]+`"}]}`, &a)
		require.Len(t, a.Results, len(documents))
		last := 1.0
		for _, r := range a.Results {
			require.Equal(t, documents[r.Index], r.Document.Text)
			require.LessOrEqual(t, r.Score, last)
			last = r.Score
			require.InDelta(t, s.yesAmongBoth(instruct, "What colour?", r.Document.Text), r.Score, 1e-6)
		}
		require.Greater(t, a.Usage.Prompt, 9*40)
	}
	var top reranked
	s.into("/v1/rerank", `{"query":"x","documents":["a","b","c"],"top_n":2,"return_documents":false}`, &top)
	require.Len(t, top.Results, 2)
	require.Nil(t, top.Results[0].Document)
	s.idle()
}

// Prompts that repeat a query are not in memory at once: together they are far longer than the body.
func TestRerankMemory(t *testing.T) {
	s := start(t, nil)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what is in pools survives the first one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, then := heap(), int64(0)
	s.model.Load().submit = func(context.Context, engine.Request, int) ([]stream, error) {
		then = heap()
		return nil, engine.ErrBusy
	}
	a := s.post("/v1/rerank", `{"query":"`+strings.Repeat("a b ", 500)+`","documents":[`+strings.Repeat(`"",`, 1023)+`""]}`)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Less(t, then-before, int64(4<<20))
}

func TestWrongReranks(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.MaxBody = 20_000 })
	for body, want := range map[string]string{
		`{"documents":["x"]}`:                                                "query",
		`{"query":"x"}`:                                                      "documents",
		`{"query":"x","documents":[1]}`:                                      "documents.0",
		`{"query":"x","documents":["x"],"top_n":0}`:                          "top_n",
		`{"query":"x","documents":["x"],"max_tokens_per_doc":10}`:            "max_tokens_per_doc",
		`{"query":"x","documents":["x"],"rank_fields":["title"]}`:            "rank_fields",
		`{"query":"x","documents":["` + strings.Repeat("a b ", 4000) + `"]}`: "documents.0",
	} {
		a := s.post("/v1/rerank", body)
		require.Equal(t, http.StatusBadRequest, a.status, body[:min(len(body), 80)])
		require.Equal(t, want, a.Error.Param)
	}
	require.Equal(t, http.StatusNotFound, s.post("/v1/rerank", `{"model":"other","query":"x","documents":["x"]}`).status)
	// A query that is repeated for many documents takes many times its size.
	a := s.post("/v1/rerank", `{"query":"`+strings.Repeat("x", 4000)+`","documents":[`+strings.Repeat(`"",`, 1999)+`""]}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	s.model.Load().submit = func(context.Context, engine.Request, int) ([]stream, error) { return nil, engine.ErrBusy }
	require.Equal(t, http.StatusTooManyRequests, s.post("/v1/rerank", `{"query":"x","documents":["x","y"]}`).status)
	s.model.Load().folder.Template = nil
	require.Equal(t, "unsupported", s.post("/v1/rerank", `{"query":"x","documents":["x"]}`).Error.Code)
}

// A model that gives both words no probability has no verdict.
func TestNoVerdict(t *testing.T) {
	impossible := generate.Logprob{Value: math.Inf(-1)}
	_, err := verdict(chosen{&generate.Logprob{Of: []generate.Logprob{impossible, impossible}}})
	require.Error(t, err)
	score, err := verdict(chosen{&generate.Logprob{Of: []generate.Logprob{{}, impossible}}})
	require.NoError(t, err)
	require.InDelta(t, 1, score, 0)
}

// chosen is the stream of one token.
type chosen struct{ about *generate.Logprob }

func (c chosen) Times() (tokens int, first, last time.Time) { return 1, first, last }
func (c chosen) Cached() int                                { return 0 }
func (c chosen) Tokens() iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) { yield(generate.Token{Logprob: c.about}, nil) }
}
