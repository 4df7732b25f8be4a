package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// rerankRequest is the body of /v1/rerank, in the form of Cohere, Jina, vLLM and llama.cpp's server.
type rerankRequest struct {
	Model       string     `json:"model"`
	Query       string     `json:"query"`
	Documents   []document `json:"documents"`
	Top         *int       `json:"top_n"`
	Return      *bool      `json:"return_documents"` // by default they are
	Instruction string     `json:"instruction"`      // what makes a document relevant; not Cohere's
	// Parts of a document would be left out:
	MaxTokens jsontext.Value `json:"max_tokens_per_doc"`
	MaxChunks jsontext.Value `json:"max_chunks_per_doc"`
	Truncate  jsontext.Value `json:"truncate_prompt_tokens"`
	Fields    jsontext.Value `json:"rank_fields"`
}

// document is a text, which may be in an object.
type document struct {
	Text string `json:"text"`
}

// UnmarshalJSON accepts a string, or an object with a text.
func (d *document) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case '"':
		return json.Unmarshal(data, &d.Text)
	case '{':
		type object document
		return json.Unmarshal(data, (*object)(d))
	}
	return errors.New("neither a string nor an object with a text")
}

// check refuses what is out of range and what is not there.
func (q *rerankRequest) check(m *loaded) error {
	switch {
	case q.Model != "" && m.checkName(q.Model) != nil:
		return m.checkName(q.Model)
	case q.Query == "":
		return bad("query", "there is none")
	case len(q.Documents) == 0 || len(q.Documents) > maxInputs:
		return bad("documents", "%d documents are not in [1, %d]", len(q.Documents), maxInputs)
	case q.Top != nil && *q.Top < 1:
		return bad("top_n", "%d is less than 1", *q.Top)
	case m.folder.Template == nil:
		return unsupported("documents", "this model has no chat template, by which a document would be judged")
	}
	for name, value := range map[string]jsontext.Value{
		"max_tokens_per_doc": q.MaxTokens, "max_chunks_per_doc": q.MaxChunks, "truncate_prompt_tokens": q.Truncate, "rank_fields": q.Fields,
	} {
		if given(value) {
			return unsupported(name, "documents are read as a whole")
		}
	}
	return nil
}

// The prompt of Qwen3-Reranker (its model card), which is a chat.
const (
	judge       = `Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".`
	instruction = "Given a web search query, retrieve relevant passages that answer the query"
)

// maxRepeated is how many times Options.MaxBody the prompts may have together, in which the query is repeated for each
// document.
const maxRepeated = 4

// measure returns how many tokens all prompts have, and refuses those that are too long. It keeps none of them: the query
// may be in as many as there are documents, and their tokens take far more memory than the body.
func (q *rerankRequest) measure(ctx context.Context, m *loaded, maxBody int64) (tokens int, err error) {
	size := len(q.Documents) * (len(q.Query) + len(q.Instruction))
	for _, d := range q.Documents {
		size += len(d.Text)
	}
	if int64(size) > maxRepeated*maxBody {
		return 0, bodyTooLarge("the query for each document and the documents have %d bytes, and %d are possible", size, maxRepeated*maxBody)
	}
	for i := range q.Documents {
		ids, err := q.encode(ctx, m, i)
		if err != nil {
			return 0, err
		}
		tokens += len(ids)
	}
	return tokens, nil
}

// encode returns the tokens of the question whether a document is relevant.
func (q *rerankRequest) encode(ctx context.Context, m *loaded, i int) ([]int, error) {
	param := fmt.Sprintf("documents.%d", i)
	text := fmt.Sprintf("<Instruct>: %s\n<Query>: %s\n<Document>: %s", cmp.Or(q.Instruction, instruction), q.Query, q.Documents[i].Text)
	if err := m.checkSize(len(text)); err != nil {
		return nil, err
	}
	ids, err := m.folder.EncodeChatWith(ctx, generate.Turn(judge, text), chat.Options{Variables: map[string]any{"enable_thinking": false}})
	if errors.Is(err, generate.ErrPrompt) {
		err = bad(param, "%v", err)
	}
	if err == nil {
		err = m.checkLength(param, ids)
	}
	return ids, err
}

// words returns the tokens of "yes" and "no", or the first ones if the model has no whole words for them.
func (m *loaded) words(ctx context.Context) (yes, no int, err error) {
	var ids [2]int
	for i, word := range []string{"yes", "no"} {
		all, err := m.folder.Tokenizer.EncodeWith(ctx, word, tokenizer.EncodeOptions{})
		if err != nil {
			return 0, 0, err
		}
		if len(all) > 0 {
			ids[i] = all[0]
		}
	}
	if ids[0] == ids[1] {
		return 0, 0, unsupported("documents", `this model's tokens do not tell "yes" from "no"`)
	}
	return ids[0], ids[1], nil
}

// rerank is POST /v1/rerank. A document's score is the probability of "yes" among "yes" and "no".
func (s *Server) rerank(w http.ResponseWriter, r *http.Request, m *loaded, q *rerankRequest) error {
	if err := q.check(m); err != nil {
		return err
	}
	yes, no, err := m.words(r.Context())
	if err != nil {
		return err
	}
	tokens, err := q.measure(r.Context(), m, s.options.MaxBody)
	if err != nil {
		return err
	}
	scores, err := m.judge(r.Context(), q, yes, no)
	if err != nil {
		return err
	}
	out := rerankAnswer{ID: "rerank-" + rand.Text(), Object: "list", Model: m.name, Results: make([]ranked, len(scores))}
	for i, score := range scores {
		out.Results[i] = ranked{Index: i, Score: score}
		if q.Return == nil || *q.Return {
			out.Results[i].Document = &q.Documents[i]
		}
	}
	slices.SortStableFunc(out.Results, func(a, b ranked) int { return cmp.Compare(b.Score, a.Score) })
	out.Results = out.Results[:min(first(q.Top, nil, len(scores)), len(scores))]
	out.Usage.Prompt, out.Usage.Total = tokens, tokens+len(scores)
	note := noteOf(r.Context())
	note.prompt, note.answer, note.finish = out.Usage.Prompt, len(scores), generate.FinishLength
	return writeJSON(w, http.StatusOK, out)
}

// rerankAnswer is the answer in the form of vLLM and llama.cpp's server.
type rerankAnswer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Model   string   `json:"model"`
	Results []ranked `json:"results"` // the most relevant first
	Usage   struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type ranked struct {
	Index    int       `json:"index"`
	Score    float64   `json:"relevance_score"`
	Document *document `json:"document,omitzero"`
}

// judge returns the probability of yes for each document. Some prompts at a time are in the engine; once some are there, it
// waits for room for the others.
func (m *loaded) judge(ctx context.Context, q *rerankRequest, yes, no int) (scores []float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	most := m.atOnce()
	var running []stream // in the order of the documents
	var ids []int        // of the next prompt, if there was no room for it
	for len(scores) < len(q.Documents) {
		for next := len(scores) + len(running); next < len(q.Documents) && len(running) < most; next++ {
			if ids == nil {
				if ids, err = q.encode(ctx, m, next); err != nil {
					return nil, err
				}
			}
			one, err := m.submit(ctx, engine.Request{Prompt: ids, MaxTokens: 1, Logprobs: true, LogprobsOf: []int{yes, no}}, 1)
			if errors.Is(err, engine.ErrBusy) && next > 0 {
				break
			}
			if err != nil {
				return nil, err
			}
			running, ids = append(running, one...), nil
		}
		if len(running) == 0 {
			if err := awaitRoom(ctx); err != nil {
				return nil, err
			}
			continue
		}
		score, err := verdict(running[0])
		if err != nil {
			return nil, err
		}
		scores, running = append(scores, score), running[1:]
	}
	return scores, nil
}

// verdict returns the probability of the first of two tokens, among these, in the place of the first token.
func verdict(s stream) (float64, error) {
	for token, err := range s.Tokens() {
		if err != nil {
			return 0, err
		}
		if l := token.Logprob; l != nil && len(l.Of) == 2 {
			p := 1 / (1 + math.Exp(l.Of[1].Value-l.Of[0].Value))
			if math.IsNaN(p) {
				return 0, errors.New("the model gives neither yes nor no")
			}
			return p, nil
		}
	}
	return 0, errors.New("the engine gave no token")
}
