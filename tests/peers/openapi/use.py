"""Uses the client that was generated from the server's document, and tells in JSON what it got: `use.py URL`."""

import json
import sys

from client import Client
from client.api.terminal import session_create, session_get, session_messages, session_prompt
from client.models import (
    AssistantMessage,
    EventMessagePartDelta,
    EventSessionIdle,
    GlobalEvent,
    NewSession,
    NotFoundError,
    PromptBody,
    TextPart,
    TextPartInput,
)

client = Client(base_url=sys.argv[1])


def events(response):
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield GlobalEvent.from_dict(json.loads(line.removeprefix("data: "))).payload


def texts(message):
    return [part.text for part in message.parts if isinstance(part, TextPart)]


def tokens(message):
    return message.info.tokens.output if isinstance(message.info, AssistantMessage) else 0


with client.get_httpx_client().stream("GET", "/global/event") as response:
    feed = events(response)
    first = next(feed)
    session = session_create.sync(client=client, body=NewSession(title="Typed"))
    body = PromptBody(parts=[TextPartInput(type_="text", text="go")])
    reply = session_prompt.sync(session.id, client=client, body=body)
    streamed = ""
    for event in feed:
        if isinstance(event, EventMessagePartDelta):
            streamed += event.properties.delta
        if isinstance(event, EventSessionIdle):
            break
messages = session_messages.sync(session.id, client=client)
missing = session_get.sync("ses_x", client=client)

print(
    json.dumps(
        {
            "first": first.type_,
            "title": session.title,
            "reply": texts(reply),
            "streamed": streamed,
            "messages": [[message.info.role, *texts(message)] for message in messages],
            "tokens": [tokens(message) for message in messages],
            "missing": missing.data.message if isinstance(missing, NotFoundError) else None,
        }
    )
)
