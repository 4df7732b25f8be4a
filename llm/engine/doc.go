// Package engine generates for many requests at once with one model, on one device or on several that share the
// requests ([NewHosted]). It contains no server: a service calls [Engine.Submit] and reads tokens from the [Stream]
// that it returns.
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
// of those that do not yet, so a long prompt delays others by no more than the
// time of one piece. Each step replays a region that was captured once for its
// number of rows: tokens, places, page tables and sampling parameters are device
// data.
//
// Keys and values lie in pages (nn.Pages). Requests whose prompts begin alike share the
// pages of that beginning, which is computed only once, even if they arrive at the same
// moment; unused pages are kept until their memory is needed. If pages run out, the
// request that came last gives up its own, waits, and is computed again later: no
// accepted request fails for lack of memory. If a device is lost, the same happens to
// all of its requests, which continue where they were once it is replaced.
//
// A request has the same tokens whatever else runs, however its prompt is divided or shared,
// where the products of a row do not depend on other rows: with affine and mxfp4 weights, on
// CPUs with AVX-512 VNNI, and on GPUs with fast dot products of bytes in steps of up to 64 rows,
// or 16 without tensor cores for bytes (see Config.ChunkTokens), unless the device was opened
// with [kompute.WithoutBatchInvariance]. Otherwise the last bits of logits depend on how many
// rows are in a step, and with them, now and then, a token.
package engine
