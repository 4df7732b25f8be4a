package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/api"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

func ExampleServer() {
	ctx := context.Background()
	device, err := kompute.Open("cpu")
	if err != nil {
		panic(err)
	}
	defer device.Close()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name) // or generate.Open("path/of/a/folder")
	if err != nil {
		panic(err)
	}
	defer folder.Close()
	m, err := folder.Load(ctx, device, model.Options{})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	e, err := engine.New(m, folder.Tokenizer, engine.Config{})
	if err != nil {
		panic(err)
	}
	defer e.Close(ctx)
	s := api.New(api.Options{NoThink: true, Log: slog.New(slog.DiscardHandler)})
	if err := s.SetModel(ctx, folder, e); err != nil {
		panic(err)
	}

	http := httptest.NewServer(s) // a program has an http.Server
	defer http.Close()
	answer, err := http.Client().Post(http.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"messages": [{"role": "user", "content": "Hi what is your name"}], "temperature": 0, "stop": "."}`))
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	_, text, _ := strings.Cut(string(body), `"content":`)
	text, _, _ = strings.Cut(text, "}")
	fmt.Println(answer.Status, text)
	// Output: 200 OK "My name is Mote"
}
