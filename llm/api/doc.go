// Package api answers the HTTP APIs of OpenAI and Anthropic with an engine, and so the clients that are written for them. A [Server] is an
// [net/http.Handler] for a program's own http.Server:
//
//	s := api.New(api.Options{Key: key})
//	go http.Serve(listener, s) // answers 503 until there is a model
//	err := s.SetModel(ctx, folder, engine)
//
// These are its routes; docs/api.md describes the fields of requests, and examples/serve is a program around it. [Server.Handle] adds others, such as
// that of a program's metrics.
//
//	POST /v1/chat/completions      chats, whole or as server-sent events
//	POST /v1/responses             chats in OpenAI's newer form; nothing is kept
//	POST /v1/messages              chats in Anthropic's form; /v1/messages/count_tokens
//	POST /v1/completions           texts that continue prompts
//	POST /v1/embeddings            embeddings
//	POST /v1/rerank                documents by how relevant they are to a query
//	POST /tokenize, /detokenize    tokens of texts and chats, and their texts, as for vLLM and llama.cpp's server
//	GET  /v1/models, /v1/models/ID the one model
//	GET  /healthz                  200
//	GET  /readyz, /health          200 while requests are accepted
//
// Requests are limited in bytes, values, tokens and time before they are worked on, and refused with 429 while as many
// are there as the engine can run and queue. Errors have the form of the API. Nothing that a client sends ends the process:
// a panic ends only its own request.
package api
