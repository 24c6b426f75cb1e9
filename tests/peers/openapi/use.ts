// Uses the client that was generated from the server's document, and tells in JSON what it got: `node use.js URL`.
// The compiler checks that the types fit the uses.

import { client } from './client/client.gen.js';
import {
  eventSubscribe, sessionCreate, sessionGet, sessionMessages, sessionPrompt, type Event, type Message, type Part,
  type Session,
} from './client/index.js';

declare const process: { argv: string[] };
client.setConfig({ baseUrl: process.argv[2] });

const texts = (parts: Part[]): string[] => parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
const tokens = (info: Message): number => (info.role === 'assistant' ? info.tokens.output : 0);

const cut = new AbortController();
const feed: AsyncIterator<Event> = (await eventSubscribe({ signal: cut.signal })).stream;
const next = async (): Promise<Event> => (await feed.next()).value;
const first = await next();

const session: Session = (await sessionCreate({ body: { title: 'Typed' }, throwOnError: true })).data;
const path = { sessionID: session.id };
const body = { parts: [{ type: 'text' as const, text: 'go' }] };
const reply = (await sessionPrompt({ path, body, throwOnError: true })).data;
let streamed = '';
for (let event = await next(); event.type !== 'session.idle'; event = await next()) {
  if (event.type === 'message.part.delta') streamed += event.properties.delta;
}
const messages = (await sessionMessages({ path, throwOnError: true })).data;
const missing = await sessionGet({ path: { sessionID: 'ses_x' } });

console.log(JSON.stringify({
  first: first.type,
  title: session.title,
  reply: texts(reply.parts),
  streamed,
  messages: messages.map(({ info, parts }) => [info.role, ...texts(parts)]),
  tokens: messages.map(({ info }) => tokens(info)),
  missing: missing.error && 'data' in missing.error ? missing.error.data.message : null,
}));
cut.abort();
