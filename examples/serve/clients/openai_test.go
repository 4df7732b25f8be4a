package clients

import (
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
	"github.com/stretchr/testify/require"
)

const (
	model = "mote-4bit"
	name  = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."
)

// client is OpenAI's for Go.
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
