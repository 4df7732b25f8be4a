// Package engine answers many requests at once with one model, on one device or on several that share the
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
// step feeds one token of each request that generates, and a piece of the prompts
// of those that do not generate yet. So a long prompt delays others by no more than
// the time of one piece. Each step replays a region that was captured once for its
// number of rows; what differs from step to step (tokens, positions, page tables,
// sampling parameters) is device data.
//
// Keys and values are in pages (nn.Pages). Requests whose prompts begin alike share the
// pages of that beginning, which is computed only once, even if they arrive at the same
// moment. Unused pages are kept until their memory is needed. If pages run out, the
// request that came last gives up its own, waits, and is computed again later: no
// accepted request fails for lack of pages. If a device is lost, the same happens to
// all of its requests, which continue where they were once it is replaced.
//
// # Batch invariance
//
// A row is one token's activations in a step. Where the products of a row do not depend on
// the other rows, a request gets the same tokens whatever else runs, and however its prompt
// is divided or shared. That is so with affine and mxfp4 weights on
//
//   - CPUs with AVX-512 VNNI, and
//   - GPUs with fast dot products of bytes, in steps of up to 64 rows, or 16 without tensor
//     cores for bytes (see Config.BatchInvariant), unless the device was opened with
//     [kompute.WithoutBatchInvariance].
//
// Otherwise the last bits of logits depend on how many rows are in a step, and so, now and
// then, does a token. With Config.BatchInvariant, steps have at most as many rows as keep
// their bits: 64 or 16 on those GPUs, 8 on other CPUs, and 1 on other devices.
package engine
