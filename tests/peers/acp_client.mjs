// An editor made of the Agent Client Protocol's own library, with files and terminals, which takes the
// steps it is given one after the other and holds every message of the agent's to the library's schema.
//
//   node acp_client.mjs FOLDER STEPS PROGRAM [ARGUMENT…]
//
// FOLDER has the library in its node_modules. STEPS is a list in JSON; each names a method and what goes
// with it: {"method": "session/prompt", "params": {…}, "answer": "allow_once", "cancelOn": "tool_call"}.
// "$N" as a session's id is the session of step N, counted from 0. What comes of it all is one object on
// standard output; whoever reads it judges that. The exit code is 0 if no problem was found.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [folder, given, program, ...programArguments] = process.argv.slice(2);
const steps = JSON.parse(given);
const load = createRequire(join(folder, 'package.json'));
const acp = await import(pathToFileURL(load.resolve('@agentclientprotocol/sdk/unstable')));
const library = join(folder, 'node_modules/@agentclientprotocol/sdk');
const schema = JSON.parse(readFileSync(join(library, 'schema/v1/schema.unstable.json'), 'utf8'));
const ajv = new (load('ajv/dist/2020').default)({ strict: false, validateFormats: false });
ajv.addSchema(schema, 'acp');

const report = { problems: [], results: [], updates: {}, asked: {}, written: {}, exit: null };
const problem = (what, about) => report.problems.push({ what, about: JSON.stringify(about)?.slice(0, 500) });
const count = (table, key) => { table[key] = (table[key] ?? 0) + 1; };

// ---- the schema: what each method of either side takes and answers ----
const shapes = new Map();
for (const [name, shape] of Object.entries(schema.$defs)) {
  if (!shape['x-method']) continue;
  const kind = name.endsWith('Response') ? 'result' : 'params';
  shapes.set(`${shape['x-side']} ${shape['x-method']} ${kind}`, ajv.compile({ $ref: `acp#/$defs/${name}` }));
}
function obeys(side, method, kind, value) {
  const fits = shapes.get(`${side} ${method} ${kind}`) ?? shapes.get(`protocol ${method} ${kind}`);
  if (!fits) { if (!method.startsWith('_')) problem('a method that is not in the schema', { side, method, kind }); return; }
  if (!fits(value)) problem(`${kind} of ${method}: ${ajv.errorsText(fits.errors)}`, value);
}

// ---- the agent: a line is a message, and every line is one ----
const agent = spawn(program, programArguments, { stdio: ['pipe', 'pipe', 'inherit'] });
agent.stdin.on('error', () => {});
const exited = new Promise((done) => agent.on('exit', (code, signal) => done(code ?? signal)));
const asked = new Map();
const calls = new Map();
let turns = 0;

function onUpdate({ sessionId, update }) {
  count(report.updates, update.sessionUpdate);
  const call = `${sessionId} ${update.toolCallId}`;
  if (update.sessionUpdate === 'tool_call') {
    if (calls.has(call)) problem('a call is told twice', update);
    calls.set(call, update.status ?? 'pending');
  } else if (update.sessionUpdate === 'tool_call_update') {
    const before = calls.get(call);
    if (before === undefined) problem('an update of a call that was never told', update);
    if (['completed', 'failed'].includes(before) && update.status && update.status !== before) problem('a call ends twice', update);
    calls.set(call, update.status ?? before);
    for (const content of update.content ?? []) {
      if (content.type === 'terminal') count(report.updates, 'terminal');
      if (content.type === 'diff' && !isAbsolute(content.path)) problem('a path that is not absolute', content);
    }
  }
  if (turns === 0 && /chunk|tool_call|plan/.test(update.sessionUpdate)) problem('an update outside of a turn', update);
}
function fromAgent(message) {
  if (message?.jsonrpc !== '2.0') return problem('no message of JSON-RPC 2.0', message);
  if (message.method) {
    obeys('client', message.method, 'params', message.params);
    if (message.id !== undefined) count(report.asked, message.method);
    if (message.method === 'session/update') onUpdate(message.params);
  } else if (!asked.has(message.id)) {
    problem('an answer to nothing', message);
  } else {
    const method = asked.get(message.id);
    asked.delete(message.id);
    if ('result' in message) obeys('agent', method, 'result', message.result);
    else if (!Number.isInteger(message.error?.code)) problem('an error without a code', message);
  }
}
const readable = new ReadableStream({
  start(into) {
    const lines = createInterface({ input: agent.stdout, crlfDelay: Infinity });
    lines.on('line', (line) => {
      try { const message = JSON.parse(line); fromAgent(message); into.enqueue(message); }
      catch { problem('a line that is no message', line); }
    });
    lines.on('close', () => into.close());
  },
});
const writable = new WritableStream({
  write(message) {
    if (message.method && message.id !== undefined) asked.set(message.id, message.method);
    agent.stdin.write(`${JSON.stringify(message)}\n`);
  },
});

// ---- the editor ----
const editor = acp.client({ name: 'peer' });
let now = {};
const sent = (method, params) => connection.agent.notify(method, params);
editor.onNotification('session/update', ({ params }) => {
  if (now.cancelOn === params.update.sessionUpdate) { now.cancelOn = null; sent('session/cancel', { sessionId: params.sessionId }); }
});
editor.onRequest('session/request_permission', ({ params }) => {
  const option = params.options.find(({ kind }) => kind === now.answer);
  return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } };
});
editor.onRequest('fs/read_text_file', ({ params }) => ({ content: readFileSync(params.path, 'utf8') }));
editor.onRequest('fs/write_text_file', ({ params }) => {
  report.written[params.path] = params.content;
  writeFileSync(params.path, params.content);
  return {};
});

const terminals = new Map();
editor.onRequest('terminal/create', ({ params }) => {
  const { command, args = [], env = [], cwd } = params;
  const more = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const child = spawn(command, args, { cwd, env: { ...process.env, ...more }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const terminal = { child, output: '', status: null };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { terminal.output += bytes; });
  terminal.end = new Promise((done) => child.on('close', (exitCode, signal) => { terminal.status = { exitCode, signal }; done(terminal.status); }));
  const terminalId = `terminal ${terminals.size}`;
  terminals.set(terminalId, terminal);
  return { terminalId };
});
const terminal = ({ terminalId }) => terminals.get(terminalId) ?? problem('an unknown terminal', terminalId);
const end = ({ child }) => { try { process.kill(-child.pid, 'SIGKILL'); } catch { /* it has ended */ } };
editor.onRequest('terminal/output', ({ params }) => {
  const { output, status } = terminal(params);
  return { output, truncated: false, exitStatus: status };
});
editor.onRequest('terminal/wait_for_exit', ({ params }) => terminal(params).end);
editor.onRequest('terminal/kill', ({ params }) => { end(terminal(params)); return {}; });
editor.onRequest('terminal/release', ({ params }) => {
  end(terminal(params));
  terminals.delete(params.terminalId);
  return {};
});
const connection = editor.connect({ readable, writable });

// ---- the steps ----
function filled(params) {
  const meant = /^\$(\d+)$/.exec(params?.sessionId ?? '');
  return meant ? { ...params, sessionId: report.results[meant[1]].sessionId } : params;
}
for (const step of steps) {
  now = { ...step };
  const params = filled(step.params);
  const shows = ['session/prompt', 'session/load'].includes(step.method);
  turns += shows ? 1 : 0;
  try {
    const result = await connection.agent.request(step.method, params);
    report.results.push({ ...result, sessionId: result?.sessionId ?? params.sessionId });
  } catch (error) {
    report.results.push({ error: { code: error.code, message: error.message } });
  }
  turns -= shows ? 1 : 0;
}
agent.stdin.end();
report.exit = await exited;
for (const open of terminals.values()) end(open);
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(report.problems.length === 0 ? 0 : 1));
