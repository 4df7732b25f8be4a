package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
)

type embedded struct {
	Data []struct {
		Index     int `json:"index"`
		Embedding any `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

func (s service) embedded(body string) (out embedded) {
	s.Helper()
	response := s.request(s.Context(), "/v1/embeddings", body)
	defer response.Body.Close()
	require.Equal(s, http.StatusOK, response.StatusCode)
	require.NoError(s, json.UnmarshalRead(response.Body, &out))
	return out
}

// numbers reads an embedding in either encoding.
func (s service) numbers(v any) (out []float32) {
	s.Helper()
	if text, ok := v.(string); ok {
		raw, err := base64.StdEncoding.DecodeString(text)
		require.NoError(s, err)
		out = make([]float32, len(raw)/4)
		require.NoError(s, binary.Read(bytes.NewReader(raw), binary.LittleEndian, out))
		return out
	}
	for _, x := range v.([]any) {
		out = append(out, float32(x.(float64)))
	}
	return out
}

func TestEmbeddings(t *testing.T) {
	s := start(t, nil)
	one := s.embedded(`{"input":"One two three","user":"x","normalize":true,"embd_normalize":2,"add_special_tokens":true,"embed_dtype":"float32","truncate_prompt_tokens":null,"messages":[]}`)
	require.Len(t, one.Data, 1)
	want := s.numbers(one.Data[0].Embedding)
	require.Len(t, want, 256)
	length := 0.0
	for _, x := range want {
		length += float64(x) * float64(x)
	}
	require.InDelta(t, 1, math.Sqrt(length), 1e-5)
	require.Positive(t, one.Usage.Prompt)
	require.Equal(t, one.Usage.Prompt, one.Usage.Total)

	ids, err := s.model.Load().folder.EncodeWhole(t.Context(), "One two three")
	require.NoError(t, err)
	tokens := strings.ReplaceAll(fmt.Sprint(ids), " ", ",")
	// More texts than run at once.
	many := s.embedded(`{"encoding_format":"base64","model":"mote-4bit","input":[` + strings.Repeat(tokens+",", 6) + tokens + `]}`)
	require.Len(t, many.Data, 7)
	require.Equal(t, 7*one.Usage.Prompt, many.Usage.Prompt)
	for i, e := range many.Data {
		require.Equal(t, i, e.Index)
		require.InDeltaSlice(t, want, s.numbers(e.Embedding), 1e-5)
	}
	mean := s.numbers(s.embedded(`{"pooling":"mean","dimensions":8,"input":` + tokens + `}`).Data[0].Embedding)
	require.Len(t, mean, 8)
	require.NotEqual(t, want[:8], mean)
	byDefault := start(t, nil, func(c *setting) { c.Pooling = engine.PoolMean })
	for _, more := range []string{``, `"pooling":null,`, `"pooling":"",`} {
		got := byDefault.embedded(`{` + more + `"dimensions":8,"input":"One two three"}`)
		require.InDeltaSlice(t, mean, byDefault.numbers(got.Data[0].Embedding), 1e-5, more)
	}
}

// A request that has begun waits for room if there is none for the rest of it, and one that
// has not is refused.
func TestEmbeddingsWhileBusy(t *testing.T) {
	calls := 0
	refused := map[int]bool{1: true, 2: true, 5: true}
	s := start(t, func(m *loaded) {
		m.embed = func(ctx context.Context, q engine.EmbedRequest) ([][]float32, error) {
			if calls++; refused[calls-1] {
				return nil, engine.ErrBusy
			}
			return m.engine.Embed(ctx, q)
		}
	})
	require.Len(t, s.embedded(`{"input":["a","b","c","d","e","f","g","h","i"]}`).Data, 9)
	require.Equal(t, 5, calls, "three batches, and two refusals")
	require.Equal(t, http.StatusTooManyRequests, s.post("/v1/embeddings", `{"input":"a"}`).status)
}

// A queue that is shorter than what can run at once takes all texts nevertheless.
func TestEmbeddingsWithAShortQueue(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.engine.Queue = 2 })
	require.Len(t, s.embedded(`{"input":["a","b","c","d","e"]}`).Data, 5)
}

// A request that waits for room ends when its time is over.
func TestEmbeddingsWhileBusyForLong(t *testing.T) {
	calls := 0
	s := start(t, func(m *loaded) {
		m.embed = func(_ context.Context, q engine.EmbedRequest) ([][]float32, error) {
			if calls++; calls > 1 {
				return nil, engine.ErrBusy
			}
			return make([][]float32, len(q.Inputs)), nil
		}
	}, func(c *setting) { c.Timeout = 50 * time.Millisecond })
	require.Equal(t, http.StatusGatewayTimeout, s.post("/v1/embeddings", `{"input":["a","b","c","d","e"]}`).status)
}

// An error names the input among all of them, and comes before any is computed.
func TestBadInputAmongMany(t *testing.T) {
	calls := 0
	s := start(t, func(m *loaded) {
		m.embed = func(ctx context.Context, q engine.EmbedRequest) ([][]float32, error) {
			calls++
			return m.engine.Embed(ctx, q)
		}
	}, func(c *setting) { c.engine.Context = 64 })
	for wrong, why := range map[string]string{`[1],[99999]`: "token 99999", `[1],[]`: "empty", `[1],[` + strings.Repeat("1,", 64) + `1]`: "context of 64"} {
		a := s.post("/v1/embeddings", `{"input":[`+strings.Repeat("[1],", 5)+wrong+`]}`)
		require.Equal(t, http.StatusBadRequest, a.status, wrong)
		require.Equal(t, "input.6", a.Error.Param, wrong)
		require.Contains(t, a.Error.Message, why)
	}
	require.Equal(t, "input.2", s.post("/v1/embeddings", `{"input":["a","b",""]}`).Error.Param)
	require.Equal(t, "input", s.post("/v1/embeddings", `{"input":[99999]}`).Error.Param)
	require.Equal(t, "prompt.1", s.post("/v1/completions", `{"prompt":["a",""]}`).Error.Param)
	require.Zero(t, calls)
}

func TestBadEmbeddings(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.engine.Context = 64 })
	for body, want := range map[string]string{
		`{}`:                             "input: 0 texts",
		`{"input":[]}`:                   "input: 0 texts",
		`{"input":""}`:                   "empty",
		`{"input":3}`:                    "input",
		`{"input":[99999]}`:              "token 99999",
		`{"input":"x","dimensions":0}`:   "dimensions: 0",
		`{"input":"x","dimensions":257}`: "dimensions: 257",
		`{"input":"x","pooling":"cls"}`:  `pooling: "cls"`,
		`{"input":"x","truncate_prompt_tokens":5}`:                 "truncate_prompt_tokens: unsupported",
		`{"input":"x","normalize":false}`:                          "normalize: unsupported",
		`{"input":"x","embd_normalize":-1}`:                        "embd_normalize: unsupported",
		`{"input":"x","add_special_tokens":false}`:                 "add_special_tokens: unsupported",
		`{"input":"x","embed_dtype":"float16"}`:                    "embed_dtype: unsupported",
		`{"input":"x","endianness":"big"}`:                         "endianness: unsupported",
		`{"input":"x","messages":[{"role":"user","content":"y"}]}`: "messages: unsupported: use input",
		`{"input":"x","model":"other"}`:                            `there is no "other"`,
		`{"input":"x","encoding_format":"hex"}`:                    `encoding_format: "hex"`,
		`{"input":"` + strings.Repeat("one ", 70) + `"}`:           "input: ",
		`{"input":[` + strings.Repeat(`"x",`, maxInputs) + `"x"]}`: "input: 2049 texts",
	} {
		a := s.post("/v1/embeddings", body)
		require.GreaterOrEqual(t, a.status, 400, body)
		require.Less(t, a.status, 500, body)
		require.Contains(t, a.Error.Message, want, body)
	}
}
