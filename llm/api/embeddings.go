package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// embeddingsRequest is the body of /v1/embeddings.
type embeddingsRequest struct {
	Model      string         `json:"model"`
	Input      prompts        `json:"input"`
	Encoding   string         `json:"encoding_format"`
	Dimensions *int           `json:"dimensions"`
	Pooling    string         `json:"pooling"` // not OpenAI's; "" is that of Options
	Others     jsontext.Value `json:",embed"`  // the members that have no field
}

// maxInputs is the maximum number of texts of a request, as at OpenAI.
const maxInputs = 2048

// poolings are the values of pooling.
var poolings = map[string]engine.Pooling{"last": engine.PoolLast, "mean": engine.PoolMean}

// check refuses what is out of range and what is not there.
func (q *embeddingsRequest) check(m *loaded) error {
	width := m.folder.Limits().Width
	switch n := len(q.Input.texts) + len(q.Input.ids); {
	case q.Model != "" && m.checkName(q.Model) != nil:
		return m.checkName(q.Model)
	case n == 0 || n > maxInputs:
		return bad("input", "%d texts are not in [1, %d]", n, maxInputs)
	case q.Encoding != "" && q.Encoding != "float" && q.Encoding != "base64":
		return bad("encoding_format", "%q is neither float nor base64", q.Encoding)
	case q.Dimensions != nil && (*q.Dimensions < 1 || *q.Dimensions > width):
		return bad("dimensions", "%d is not in [1, %d]", *q.Dimensions, width)
	}
	if _, known := poolings[q.Pooling]; q.Pooling != "" && !known {
		return bad("pooling", "%q is neither last nor mean", q.Pooling)
	}
	others := q.Others
	q.Others = nil // they may be as long as the body, and the request may wait for long
	return checkForeign(others, embeddingsFields)
}

// embeddings is POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, m *loaded, q *embeddingsRequest) error {
	if err := q.check(m); err != nil {
		return err
	}
	inputs, err := m.encode(r.Context(), "input", q.Input, m.folder.EncodeWhole)
	if err != nil {
		return err
	}
	pooling, own := poolings[q.Pooling]
	if !own {
		pooling = s.options.Pooling
	}
	vectors, err := s.embed(r.Context(), m, engine.EmbedRequest{Inputs: inputs, Pooling: pooling, Dimensions: first(q.Dimensions, nil, 0)})
	if err != nil {
		return err
	}
	note, out := noteOf(r.Context()), embeddingsAnswer{Object: "list", Model: m.name}
	for i, v := range vectors {
		out.Data = append(out.Data, embeddingOf(i, v, q.Encoding))
		note.prompt += len(inputs[i])
	}
	note.finish = "stop"
	out.Usage.Prompt, out.Usage.Total = note.prompt, note.prompt
	return writeJSON(w, http.StatusOK, out)
}

// atOnce is how many texts of one request are in the engine at a time: as many as can run at once, so that a large request
// does not fill the queue, but no more than may wait.
func (m *loaded) atOnce() int { return max(1, min(m.engine.Stats().Places, m.queue)) }

// awaitRoom pauses before a request that has begun tries again to go on.
func awaitRoom(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// embed requests the embeddings of some texts at a time. Once some are there, it waits for room for the others.
func (s *Server) embed(ctx context.Context, m *loaded, q engine.EmbedRequest) (out [][]float32, err error) {
	all, most := q.Inputs, m.atOnce()
	for len(all) > 0 {
		n := min(most, len(all))
		q.Inputs, all = all[:n], all[n:]
		some, err := m.embed(ctx, q)
		for len(out) > 0 && errors.Is(err, engine.ErrBusy) && awaitRoom(ctx) == nil {
			some, err = m.embed(ctx, q)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// embeddingsAnswer is the answer in OpenAI's form.
type embeddingsAnswer struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	// Numbers, or a text with them in base64: float32, the lowest byte first.
	Embedding any `json:"embedding"`
}

func embeddingOf(index int, v []float32, encoding string) embedding {
	out := embedding{Object: "embedding", Index: index, Embedding: v}
	if encoding != "base64" {
		return out
	}
	bytes := make([]byte, 0, 4*len(v))
	for _, x := range v {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
	}
	out.Embedding = base64.StdEncoding.EncodeToString(bytes)
	return out
}
