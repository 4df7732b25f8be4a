package clients

import (
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
	"github.com/openai/openai-go/responses"
	"github.com/stretchr/testify/require"
)

const (
	model = "mote-4bit"
	name  = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."
)

// client is OpenAI's client for Go.
func client(t *testing.T) openai.Client {
	return openai.NewClient(option.WithBaseURL(server(t)+"/v1/"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func TestOpenAIChat(t *testing.T) {
	c := client(t)
	params := openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi what is your name")},
		Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(100),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		require.True(t, sum.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	whole, err := c.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	for _, got := range []openai.ChatCompletion{*whole, sum.ChatCompletion} {
		require.Equal(t, name, got.Choices[0].Message.Content)
		require.Equal(t, "stop", got.Choices[0].FinishReason)
		require.EqualValues(t, 13, got.Usage.PromptTokens)
		require.EqualValues(t, 41, got.Usage.CompletionTokens)
	}
	require.Positive(t, whole.Usage.CompletionTokensDetails.ReasoningTokens)
	require.Contains(t, whole.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw(), "asked for my name")
}

// A response is the same whole and streamed.
func TestOpenAIResponses(t *testing.T) {
	c := client(t)
	params := responses.ResponseNewParams{
		Model: model, Temperature: openai.Float(0), MaxOutputTokens: openai.Int(100),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi what is your name")},
	}
	whole, err := c.Responses.New(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, name, whole.OutputText())
	require.EqualValues(t, "completed", whole.Status)
	require.EqualValues(t, 13, whole.Usage.InputTokens)
	require.EqualValues(t, 41, whole.Usage.OutputTokens)
	stream := c.Responses.NewStreaming(t.Context(), params)
	text, last := "", responses.Response{}
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
		case responses.ResponseCompletedEvent:
			last = e.Response
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, name, text)
	require.Equal(t, name, last.OutputText())
	require.Equal(t, whole.Usage.TotalTokens, last.Usage.TotalTokens)
	params.PreviousResponseID = openai.String(whole.ID)
	_, err = c.Responses.New(t.Context(), params)
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "previous_response_id", e.Param)
}

func TestOpenAITexts(t *testing.T) {
	c := client(t)
	params := openai.CompletionNewParams{
		Model: model, Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"Hello", "One two"}},
		MaxTokens: openai.Int(5), Temperature: openai.Float(0), Logprobs: openai.Int(2),
	}
	whole, err := c.Completions.New(t.Context(), params)
	require.NoError(t, err)
	require.Len(t, whole.Choices, 2)
	require.EqualValues(t, 10, whole.Usage.CompletionTokens)
	require.Len(t, whole.Choices[0].Logprobs.TopLogprobs[0], 2)
	var texts [2]string
	stream := c.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			texts[choice.Index] += choice.Text
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, [2]string{whole.Choices[0].Text, whole.Choices[1].Text}, texts)
}

// The client finds the errors where it looks for them. An embedding is the same as
// numbers and in base64, alone or with others, and similar texts have similar ones.
func TestOpenAIEmbeddings(t *testing.T) {
	c := client(t)
	texts := []string{"What is your name?", "Hi what is your name", "12345"}
	params := openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}}
	all, err := c.Embeddings.New(t.Context(), params)
	require.NoError(t, err)
	require.Len(t, all.Data, len(texts))
	require.Positive(t, all.Usage.PromptTokens)
	require.Equal(t, all.Usage.PromptTokens, all.Usage.TotalTokens)
	dot := func(a, b []float64) (sum float64) {
		require.Len(t, b, len(a))
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	for i, text := range texts {
		require.EqualValues(t, i, all.Data[i].Index)
		require.InDelta(t, 1, dot(all.Data[i].Embedding, all.Data[i].Embedding), 1e-5)
		params.Input = openai.EmbeddingNewParamsInputUnion{OfString: openai.String(text)}
		one, err := c.Embeddings.New(t.Context(), params)
		require.NoError(t, err)
		require.InDelta(t, 1, dot(one.Data[0].Embedding, all.Data[i].Embedding), 1e-5)
	}
	require.Greater(t, dot(all.Data[0].Embedding, all.Data[1].Embedding), dot(all.Data[0].Embedding, all.Data[2].Embedding))
	params.Dimensions = openai.Int(16)
	short, err := c.Embeddings.New(t.Context(), params)
	require.NoError(t, err)
	require.Len(t, short.Data[0].Embedding, 16)
	require.InDelta(t, 1, dot(short.Data[0].Embedding, short.Data[0].Embedding), 1e-5)
}

func TestOpenAIErrors(t *testing.T) {
	c := client(t)
	models, err := c.Models.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, model, models.Data[0].ID)
	ask := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
	check := func(err error, status int, param, code string) {
		t.Helper()
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []any{status, param, code}, []any{e.StatusCode, e.Param, e.Code})
		require.NotEmpty(t, e.Message)
	}
	bad := ask
	bad.TopP = openai.Float(2)
	_, err = c.Chat.Completions.New(t.Context(), bad)
	check(err, 400, "top_p", "")
	bad = ask
	bad.Model = "other"
	stream := c.Chat.Completions.NewStreaming(t.Context(), bad)
	require.False(t, stream.Next())
	check(stream.Err(), 404, "model", "model_not_found")
	_, err = c.Models.List(t.Context(), option.WithAPIKey("wrong"))
	check(err, 401, "", "invalid_api_key")
}
