// Asks a service that OPENAI_BASE_URL names, with OpenAI's client for JavaScript.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const NAME = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan.";
const client = new OpenAI({ maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = { model, messages: [{ role: "user", content: "Hi what is your name" }], temperature: 0 };

const whole = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
assert.equal(whole.choices[0].message.content, NAME);
assert.match(whole.choices[0].message.reasoning_content, /asked for my name/);
assert.equal(whole.choices[0].logprobs.content.length, whole.usage.completion_tokens);

let text = "", usage;
for await (const event of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
  text += event.choices[0]?.delta.content ?? "";
  usage = event.usage ?? usage;
}
assert.equal(text, NAME);
assert.deepEqual(usage, whole.usage);

// The client's own way to gather a stream, left in the middle.
const stream = client.chat.completions.stream({ ...ask });
assert.equal(await stream.finalContent(), NAME);
const left = await client.chat.completions.create({ ...ask, stream: true });
for await (const event of left) {
  if (event.choices[0].delta.reasoning_content) break;
}

const schema = { type: "object", properties: { size: { enum: ["tiny", "huge"] } }, required: ["size"] };
const form = { type: "json_schema", json_schema: { name: "x", schema, strict: true } };
const sized = await client.chat.completions.parse({ ...ask, response_format: form });
assert.ok(["tiny", "huge"].includes(JSON.parse(sized.choices[0].message.content).size));

const said = { model, input: "Hi what is your name", temperature: 0 };
const response = await client.responses.create(said);
assert.equal(response.output_text, NAME);
let pieces = "", final;
for await (const event of await client.responses.create({ ...said, stream: true })) {
  if (event.type === "response.output_text.delta") pieces += event.delta;
  if (event.type === "response.completed") final = event.response;
}
assert.equal(pieces, NAME);
assert.deepEqual(final.usage, response.usage);
assert.equal((await client.responses.stream(said).finalResponse()).output_text, NAME);

const embedded = await client.embeddings.create({ model, input: ["What is your name?", "12345"], dimensions: 32 });
assert.equal(embedded.data.length, 2);
for (const { embedding } of embedded.data) {
  assert.equal(embedding.length, 32);
  assert.ok(Math.abs(embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
}
await assert.rejects(client.embeddings.create({ model, input: "x", dimensions: 1 << 20 }), (e) => e.param === "dimensions");

const texts = await client.completions.create({ model, prompt: "Hello", max_tokens: 5, temperature: 0, n: 2 });
assert.equal(texts.choices.length, 2);
await assert.rejects(client.chat.completions.create({ ...ask, top_p: 2 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "top_p");
await assert.rejects(client.chat.completions.create({ ...ask, model: "other" }), OpenAI.NotFoundError);
await assert.rejects(new OpenAI({ apiKey: "wrong", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
const { version } = JSON.parse(readFileSync("node_modules/openai/package.json"));
console.log("openai for JavaScript", version, "passed");
