// Package engine generates for many requests at once with one model, on one device
// or on several that share the requests ([NewHosted]). It has no server in it: a service calls [Engine.Submit] and reads tokens
// from the [Stream] that it returns.
//
//	e, err := engine.New(m, folder.Tokenizer, engine.Config{})
//	defer e.Close(ctx)
//	stream, err := e.Submit(ctx, engine.Request{Prompt: ids, EOS: folder.EOS()})
//	for token, err := range stream.Tokens() {
//		…
//	}
//
// Requests join and leave between steps (continuous batching; Yu et al., 2022). A
// step feeds one token of each request that generates and a piece of the prompts
// of those that do not yet, so a long prompt holds up nobody for longer than its
// piece takes. Each step replays a region that was captured once for its number of
// rows: tokens, places, page tables and sampling parameters are device data.
//
// Keys and values lie in pages (nn.Pages). Requests whose prompts begin alike
// share the pages of that beginning, which is computed once, also if they come at the
// same moment; pages that nobody
// uses any more are kept until their memory is needed. Where pages run out, the
// request that came last gives its own up, waits, and is computed again later:
// nothing that was accepted fails for lack of memory. Where a device is lost, all of its
// requests do so, and go on where they were once it is replaced.
package engine
