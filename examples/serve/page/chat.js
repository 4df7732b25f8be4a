"use strict";

const byID = (id) => document.getElementById(id);
const messages = byID("messages"), form = byID("form"), prompt = byID("prompt"), send = byID("send");
let history = []; // what the model is told, without the system message
let running = null; // the AbortController of the answer under way

// Settings stay in this browser; the key only as long as the tab.
const stores = { system: localStorage, temperature: localStorage, limit: localStorage, key: sessionStorage };
for (const [id, store] of Object.entries(stores)) {
  byID(id).value = store.getItem(id) ?? "";
  byID(id).addEventListener("change", () => store.setItem(id, byID(id).value));
}
byID("key").addEventListener("change", showModel);

function headers() {
  const key = byID("key").value;
  return { "Content-Type": "application/json", ...(key && { Authorization: "Bearer " + key }) };
}

// failure is what an answer that is no success says of the reason.
async function failure(response) {
  const body = await response.json().catch(() => null);
  return new Error(body?.error?.message ?? response.status + " " + response.statusText);
}

async function showModel() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    if (!response.ok) throw await failure(response);
    const name = (await response.json()).data[0].id;
    byID("model").textContent = document.title = name;
  } catch (error) {
    byID("model").textContent = error.message;
    if (!byID("key").value) byID("settings").open = true;
  }
}

function element(parent, tag, kind, text = "") {
  const e = document.createElement(tag);
  e.className = kind;
  e.textContent = text;
  parent.append(e);
  return e;
}

// events yields the JSON of a stream of server-sent events.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection ended before the answer did");
    held += value;
    const lines = held.split("\n");
    held = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

// Answer is one answer of the model on the page.
class Answer {
  constructor() {
    this.box = element(messages, "article", "answer busy");
    this.text = element(this.box, "div", "text");
    this.content = this.reasoning = "";
    this.tokens = 0;
  }

  // add takes in an event. It holds a token or more of thoughts or of the text.
  add({ choices: [choice] = [], usage, error }) {
    if (error) throw new Error(error.message);
    if (usage) this.tokens = usage.completion_tokens;
    const { reasoning_content: reasoning, content } = choice?.delta ?? {};
    if (!reasoning && !content) return;
    this.first ??= performance.now();
    if (!usage) this.tokens++;
    if (reasoning) this.think(reasoning);
    if (content) {
      this.thoughtsEnd();
      this.content += content;
      this.text.append(content);
    }
  }

  think(reasoning) {
    if (!this.thoughts) {
      this.thoughts = document.createElement("details");
      this.thoughts.className = "thoughts";
      element(this.thoughts, "summary", "", "Thinking…");
      element(this.thoughts, "div", "");
      this.box.prepend(this.thoughts);
    }
    this.reasoning += reasoning;
    this.thoughts.lastChild.append(reasoning);
  }

  thoughtsEnd() {
    if (this.thoughts) this.thoughts.firstChild.textContent = "Thoughts";
  }

  end(began, note) {
    this.thoughtsEnd();
    this.box.classList.remove("busy");
    const parts = [];
    if (this.first) {
      const seconds = (performance.now() - this.first) / 1000;
      parts.push(this.tokens + " tokens");
      if (this.tokens > 1) parts.push(((this.tokens - 1) / seconds).toFixed(1) + " tokens/s");
      parts.push("first after " + ((this.first - began) / 1000).toFixed(2) + " s");
    }
    if (note) parts.push(note);
    element(this.box, "div", "rate", parts.join(" · "));
  }
}

function request() {
  const system = byID("system").value.trim(), temperature = byID("temperature").valueAsNumber, limit = byID("limit").valueAsNumber;
  return {
    messages: [...(system ? [{ role: "system", content: system }] : []), ...history],
    stream: true,
    stream_options: { include_usage: true },
    ...(!byID("think").checked && { chat_template_kwargs: { enable_thinking: false } }),
    ...(!Number.isNaN(temperature) && { temperature }),
    ...(!Number.isNaN(limit) && { max_tokens: limit }),
  };
}

const atEnd = () => messages.scrollHeight - messages.scrollTop - messages.clientHeight < 40;
const toEnd = () => { messages.scrollTop = messages.scrollHeight; };

async function ask(text) {
  history.push({ role: "user", content: text });
  element(messages, "div", "user", text);
  const answer = new Answer(), began = performance.now();
  toEnd();
  const own = running = new AbortController();
  send.textContent = "Stop";
  let note = "";
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), body: JSON.stringify(request()), signal: own.signal,
    });
    if (!response.ok) throw await failure(response);
    for await (const event of events(response)) {
      const follow = atEnd(); // a reader who has scrolled up stays there
      answer.add(event);
      if (event.choices[0]?.finish_reason === "length") note = "cut at the limit";
      if (follow) toEnd();
    }
  } catch (error) {
    if (own.signal.aborted) note = "stopped";
    else element(answer.box, "div", "error", error.message);
  }
  if (running !== own) return; // the chat was cleared
  running = null;
  send.textContent = "Send";
  answer.end(began, note);
  // What was reached belongs to the conversation; a question without any answer does not.
  if (answer.content) history.push({ role: "assistant", content: answer.content });
  else history.pop();
  toEnd();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = prompt.value.trim();
  if (!text) return;
  prompt.value = "";
  grow();
  ask(text);
});

prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!running) form.requestSubmit();
  }
});

function grow() {
  prompt.style.height = "auto";
  prompt.style.height = prompt.scrollHeight + 2 + "px";
}
prompt.addEventListener("input", grow);

byID("new").addEventListener("click", () => {
  running?.abort();
  running = null;
  send.textContent = "Send";
  history = [];
  messages.replaceChildren();
  prompt.focus();
});

showModel();
