"""Writes vectors.json and expressions.json: what Jinja, set up as Hugging Face transformers does, makes
of chat templates, and of the lines of expressions.txt. An "error" stands for a template that fails.

    pip install jinja2==3.1.6
    python llm/chat/testdata/vectors.py      (from the root of the repository)
"""

import datetime
import json

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 3, 5, 7, 8, 9, 123456)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def user(text):
    return dict(role="user", content=text)


short = [user("Hi")]
long = [dict(role="system", content="Be brief."), user("a  b\n"), dict(role="assistant", content="<think>\nhm\n</think>\n\nYes."), user("你好 {{ x }} {% y %}")]
tool = [user("weather?"), dict(role="assistant", content="", tool_calls=[dict(function=dict(name="w", arguments=dict(city="Köln", n=3)))]),
        dict(role="tool", content="rain")]
tools = [dict(type="function", function=dict(name="w", parameters=dict(zeta=1, alpha=[1.5, None, True, "<&>\"'"])))]

mote = json.load(open("llm/demomodel/mote-4bit/tokenizer_config.json"))["chat_template"]

thinking = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- set call = call.function if call.function else call %}
                {{- '<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' }}
                {%- if call.arguments is string %}
                    {{- call.arguments }}
                {%- else %}
                    {{- call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

templates = {
    "mote": mote,
    "thinking": thinking,
    "plain lines": "{% for m in messages %}\n  {{ m.role }}: {{ m.content }}\n  {% if loop.last %}\nend\n  {% endif %}\n{% endfor %}\n\n",
    "text between tags": "{% for m in messages %}[ {{ m.role }} {{ m.content }}{%- if true %}!{% endif -%}  ]  {% endfor %}",
    "adjacent": "a {{ 'x' }}{%- if true -%}  b  {%- endif %} c {#- note -#} d\n{# note #}\ne",
    "plus": "  {%+ if true +%}\n x\n  {%+ endif %}\ny",
    "lstrip": "x   {% if true %} y {% endif %}\n\t {% if true %}\n z{% endif %}",
    "lstrip after tag": "{% if true %}\n   {% if true %}q{% endif %}\n   {% endif %}\nr",
    "comment": "a\n   {# one\n two #}   \nb {#- three -#} c",
    "raw": "  {% raw %}\n {{ x }} {% if %}\n  {% endraw %}\n b {%- raw -%}  {# c #} {%- endraw -%}  d",
    "strings": """{{ "a'b" }}{{ 'c"d' }}{{ '}}' }}{{ '%}' }}{{ '\\\\' }}{{ '\\x41\\u4f60\\t\\q\\'' }}{{ "{% if %}" }}""",
    "braces": "{{ {'a': {'b': 1}}['a']['b'] }}{% set d = {'k': {'z': 'v'}} %}{{ d.k.z }}",
    "macro": "{% macro f(x, sep=', ', end='.') %}{{ x }}{{ sep }}{{ end }}{% endmacro %}{{ f('a') }}{{ f('b', end='!') }}{{ f('c', '-') }}",
    "macro empty": "{%- macro g() -%}  hi  {%- endmacro -%}{{ g() }}{{ g() }}",
    "recursion": "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(5) }}",
    "endless": "{% macro r(n) %}{{ r(n) }}{% endmacro %}{{ r(1) }}",
    "date": "{{ strftime_now('%d %b %Y %A %H:%M:%S %j %y %p %I %% %f %U %W %w %u %-d %-m') }}",
    "date in GNU's C library": "{{ strftime_now('%V %G %g %C %k %l %P|%z|%Z|%-Z|%_d %0e %^a %-j %_H %c %D') }}",
    "date with flags of no use": "{{ strftime_now('%^P %P %-X %_X %-T %0T %-r %_r %-D %_F %-R %-c %_x %^c %^r %-f %_f %^f %^q %-q %-%') }}",
    "raise": "{% if messages|length > 1 %}{{ raise_exception('too long') }}{% endif %}ok",
    "loop controls": "{% for m in messages %}{% if m.role == 'assistant' %}{% continue %}{% endif %}{{ loop.index }}{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}",
    "range": "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{{ range(2, 4)|list }}",
    "big range": "{% for i in range(1000000) %}{% endfor %}",
    "unclosed": "{% if x %}",
    "unclosed string": "{{ 'abc }}",
    "unclosed tag": "{{ x ",
    "bad bracket": "{{ (x] }}",
    "bad character": "{{ x ? y }}",
    "unknown statement": "{% nonsense %}",
    "carriage returns": "a\r\n{% if true %}\r\nb\r{% endif %}\r\n",
    "filters": "{{ ' x '|trim }}{{ 'ab'|upper }}{{ messages|map(attribute='role')|join(', ') }}{{ none|default('d', true) }}{{ [1,2,3]|last }}",
    "default": "{{ none|default('d', true) }}{{ nope|d('e') }}{{ ''|default('f', boolean=true) }}{{ nope | default }}{{ 0|default(default_value=1, boolean=true) }}",
    "tojson": "{{ messages|tojson(indent=2) }}{{ tools|tojson }}{{ [1.0, 0.5, 1.0e22, 12345678901234567.0, 0.00001, 3, 'a\\u2028\\n\\x01\\x7f<>&é', none, true, {}, []]|tojson }}{{ {'b': [], 'a': {}}|tojson(indent=4) }}",
    "tojson undefined": "{{ nope|tojson }}",
    "tests": "{{ x is defined }}{{ messages is iterable }}{{ 'a' is string }}{{ none is none }}{{ 3 is odd }}{{ {} is mapping }}",
    "documents": "{{ documents is none }}{{ tools is none }}{{ tools is defined }}{{ bos_token }}",
    "set block": "{% set a %}\n  x{{ 1 }}\n{% endset %}[{{ a }}]",
    "white space of Python": "a\x1c{{- 1 -}}\x1d\x1f b {%- set x = 1 -%}\x1e c\n\x1f{% if true %}\nd{% endif %}{{\u00a01\x1c\u2003}}{%\x1draw\x1e%}x{% endraw %}",
    "empty": "",
    "newlines": "a\n\n",
}
runs = [
    dict(messages=short, add_generation_prompt=True, variables={}),
    dict(messages=long, add_generation_prompt=True, variables=dict(enable_thinking=False)),
    dict(messages=tool, add_generation_prompt=False, variables={}, tools=tools),
]

out = []
for name, source in templates.items():
    rows = []
    for run in runs:
        try:
            text = environment().from_string(source).render(
                messages=run["messages"], add_generation_prompt=run["add_generation_prompt"], tools=run.get("tools"), documents=None,
                bos_token="<s>", **run["variables"])
            rows.append(dict(text=text))
        except Exception as e:
            rows.append(dict(error=str(e)[:80]))
    out.append(dict(name=name, source=source, results=rows))

with open("llm/chat/testdata/vectors.json", "w", encoding="ascii") as f:
    json.dump(dict(now=NOW.isoformat(), runs=runs, templates=out), f, indent=1)
    f.write("\n")

variables = dict(
    n=7, f=2.5, s="Hello, w\u00f6rld  x", l=[3, 1, 2], d={"b": 1, "a": [1, 2], "items": 5}, u=None, t=True, e="",
    ms=[user("hi"), dict(role="assistant", content="Yo", n={"k": 2}), user("bye")],
    nested=[[1, [2, 3]], [4]], tree=[{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}])

lines = []
for source in open("llm/chat/testdata/expressions.txt", encoding="utf-8").read().splitlines():
    try:
        lines.append(dict(source=source, text=environment().from_string(source).render(**json.loads(json.dumps(variables)))))
    except Exception as e:
        lines.append(dict(source=source, error=str(e)[:80]))

with open("llm/chat/testdata/expressions.json", "w", encoding="ascii") as f:
    json.dump(dict(variables=variables, lines=lines), f, indent=0)
    f.write("\n")
