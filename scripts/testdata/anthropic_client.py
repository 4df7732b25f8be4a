"""Asks a service that ANTHROPIC_BASE_URL names, with Anthropic's client for Python."""

import anthropic

NAME = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."
client = anthropic.Anthropic(max_retries=0)
question = {"model": "mote-4bit", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi what is your name"}]}
greedy = {"temperature": 0}  # which the newest clients have no parameter for

answer = client.messages.create(extra_body=greedy, **question)
assert answer.content[0].text == NAME, answer
assert answer.stop_reason == "end_turn" and answer.usage.output_tokens > 10, answer

answer = client.messages.create(thinking={"type": "enabled", "budget_tokens": 1024}, extra_body=greedy, **question)
assert [b.type for b in answer.content] == ["thinking", "text"], answer
assert "asked for my name" in answer.content[0].thinking, answer

with client.messages.stream(stop_sequences=["tiny"], extra_body=greedy, **question) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
assert text == "My name is Mote. I am a " == final.content[0].text, text
assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", "tiny"), final

assert client.messages.count_tokens(model=question["model"], messages=question["messages"]).input_tokens > 10

for wrong, kind in (
    ({"model": "other"}, anthropic.NotFoundError),
    ({"messages": []}, anthropic.BadRequestError),
):
    try:
        client.messages.create(**(question | wrong))
    except kind as e:
        assert e.body["type"] == "error", e.body
    else:
        raise AssertionError(wrong)
try:
    anthropic.Anthropic(api_key="wrong", max_retries=0).messages.create(**question)
except anthropic.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key")
print(f"anthropic {anthropic.__version__} for Python: passed")
