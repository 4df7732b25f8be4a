"""Asks a service that OPENAI_BASE_URL names, with OpenAI's client for Python."""

import json

import openai

NAME = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."
client = openai.OpenAI(max_retries=0)
model = client.models.list().data[0].id
ask = dict(model=model, messages=[{"role": "user", "content": "Hi what is your name"}], temperature=0)

whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
message = whole.choices[0].message
assert message.content == NAME, message
assert "asked for my name" in message.reasoning_content, message
assert whole.choices[0].finish_reason == "stop"
assert len(whole.choices[0].logprobs.content) == whole.usage.completion_tokens
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

text, usage, pieces = "", None, 0
for event in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
    usage = event.usage or usage
    pieces += 1
    for choice in event.choices:
        text += choice.delta.content or ""
assert text == NAME and usage == whole.usage and pieces > 20, (text, usage, pieces)

# The helper for streams puts the choices together from their pieces.
with client.chat.completions.stream(**ask, n=2) as events:
    for event in events:
        pass
    both = events.get_final_completion().choices
assert [(c.index, c.message.role, c.message.content) for c in both] == [(0, "assistant", NAME), (1, "assistant", NAME)], both

quick = client.chat.completions.create(**ask, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
assert quick.choices[0].message.content == NAME
assert not getattr(quick.choices[0].message, "reasoning_content", None)

texts = client.completions.create(model=model, prompt=["Hello", "One two"], max_tokens=5, temperature=0, n=2)
assert [c.index for c in texts.choices] == [0, 1, 2, 3] and texts.choices[0].text == texts.choices[1].text
streamed = "".join(e.choices[0].text for e in client.completions.create(model=model, prompt="Hello", max_tokens=5, temperature=0, stream=True))
assert streamed == texts.choices[0].text, streamed

schema = {"type": "object", "properties": {"size": {"enum": ["tiny", "huge"]}}, "required": ["size"]}
form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
sized = client.chat.completions.create(**ask, response_format=form)
assert json.loads(sized.choices[0].message.content)["size"] in ("tiny", "huge"), sized

said = dict(model=model, input="Hi what is your name", temperature=0)
response = client.responses.create(**said)
assert response.output_text == NAME and response.status == "completed", response
assert "asked for my name" in response.output[0].content[0].text, response
assert response.usage.total_tokens == whole.usage.total_tokens
# The helper for streams checks the order of events.
with client.responses.stream(**said) as events:
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == NAME and events.get_final_response().usage == response.usage
# The output of one response continues the conversation in the next.
later = [{"role": "user", "content": "Hi what is your name"}, *response.output, {"role": "user", "content": "What is 17 plus 25?"}]
assert "42" in client.responses.create(**{**said, "input": later}).output_text
size = client.responses.create(**said, text={"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}})
assert json.loads(size.output_text)["size"] in ("tiny", "huge"), size
cut = client.responses.create(**said, max_output_tokens=3)
assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens", cut

# The client asks for base64 unless it is told not to.
quick, plain = (client.embeddings.create(model=model, input=["What is your name?", "12345"], **more) for more in ({}, {"encoding_format": "float"}))
assert [e.index for e in quick.data] == [0, 1] and quick.usage == plain.usage and quick.usage.prompt_tokens > 2, quick.usage
for a, b in zip(quick.data, plain.data):
    assert max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6, "base64 and float differ"
    assert abs(sum(x * x for x in a.embedding) - 1) < 1e-5
short = client.embeddings.create(model=model, input=[1, 2, 3], dimensions=8)
assert len(short.data[0].embedding) == 8 and short.usage.prompt_tokens == 3

for error, more in (
    (openai.BadRequestError, {"temperature": -1}),
    (openai.BadRequestError, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}),
    (openai.NotFoundError, {"model": "other"}),
):
    try:
        client.chat.completions.create(**{**ask, **more})
        raise SystemExit(f"{more} was taken")
    except error as e:
        assert e.body["message"] and e.request_id, e
try:
    openai.OpenAI(api_key="wrong", max_retries=0).models.list()
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError as e:
    assert e.body["code"] == "invalid_api_key"
print("openai for Python", openai.__version__, "passed")
