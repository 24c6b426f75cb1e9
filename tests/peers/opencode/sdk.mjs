// OpenCode's SDK on a server, in its first or second version.
//
// node sdk.mjs FOLDER v1|v2 URL PROJECT TUNNEL
//
// TUNNEL is another URL of the same server. Prints one line of JSON for each step: `{"step", "error"?}`.
// Where the server is to be killed and started again it prints `{"restart"}`, where the tunnel is to be
// cut `{"cut"}`, and goes on when it reads a line. The last line is `{"done"}`.

import assert from "node:assert/strict"
import { appendFileSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const [folder, version, url, project, tunnel] = process.argv.slice(2)
const at = { v1: "dist/index.js", v2: "dist/v2/index.js" }[version]
const sdk = await import(pathToFileURL(`${folder}/node_modules/@opencode-ai/sdk/${at}`))
const sayJson = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

/** The methods under one form: `(session, body) => data`. */
function adapter(baseUrl) {
  const client = sdk.createOpencodeClient({ baseUrl, directory: project, throwOnError: true })
  const data = async (answer) => (await answer).data
  if (version === "v2") {
    const of = (name) => (sessionID, body) => data(client.session[name]({ sessionID, ...body }))
    const names = ["get", "update", "delete", "children", "todo", "diff", "messages", "message", "prompt", "promptAsync", "fork", "abort", "summarize", "command", "shell", "revert", "unrevert"]
    return {
      ...Object.fromEntries(names.map((name) => [name, of(name)])),
      create: (body) => data(client.session.create(body ?? {})),
      list: () => data(client.session.list()),
      status: () => data(client.session.status()),
      permit: (asked, reply) => data(client.permission.reply({ requestID: asked.id, reply })),
      answer: (asked, answers) => data(client.question.reply({ requestID: asked.id, answers })),
      dismiss: (asked) => data(client.question.reject({ requestID: asked.id })),
      subscribe: (options) => client.event.subscribe({}, options),
      client,
    }
  }
  const read = ["get", "delete", "children", "todo", "diff", "messages"]
  const of = (name) => (id, body) => {
    if (name === "message") return data(client.session.message({ path: { id, messageID: body.messageID } }))
    if (read.includes(name)) return data(client.session[name]({ path: { id }, query: body }))
    return data(client.session[name]({ path: { id }, body: body ?? {} }))
  }
  const names = ["get", "update", "delete", "children", "todo", "diff", "messages", "message", "prompt", "promptAsync", "fork", "abort", "summarize", "command", "shell", "revert", "unrevert"]
  return {
    ...Object.fromEntries(names.map((name) => [name, of(name)])),
    create: (body) => data(client.session.create({ body: body ?? {} })),
    list: () => data(client.session.list()),
    status: () => data(client.session.status()),
    permit: (asked, response) =>
      data(client.postSessionIdPermissionsPermissionId({ path: { id: asked.sessionID, permissionID: asked.id }, body: { response } })),
    subscribe: (options) => client.event.subscribe(options),
    client,
  }
}

const api = adapter(url)

/** The events of a stream, which arrive while other things happen. */
class Events {
  constructor() {
    this.all = []
    this.waiting = []
    this.stop = new AbortController()
  }

  async open(from = api) {
    const { stream } = await from.subscribe({ signal: this.stop.signal })
    const greeted = new Promise((resolve) => (this.greeted = resolve))
    this.pump(stream).catch(() => {})
    await greeted
    return this
  }

  async pump(stream) {
    for await (const event of stream) {
      if (event.type === "server.connected") this.greeted()
      this.all.push(event)
      this.waiting = this.waiting.filter(({ wants, resolve }) => !wants(event) || resolve(event))
    }
  }

  /** The first event from `from` on that is wanted, also if it was there before. */
  until(what, wants, from = 0) {
    const known = this.all.slice(from).find(wants)
    if (known) return Promise.resolve(known)
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no ${what} came: ${this.all.slice(from).map((event) => event.type)}`)), 30_000)
      this.waiting.push({ wants, resolve: (event) => (clearTimeout(late), resolve(event)) })
    })
  }

  of(type, session, from = 0) {
    return this.until(type, (event) => event.type === type && event.properties.sessionID === session, from)
  }
}

const text = (words) => [{ type: "text", text: words }]
const ask = (session, words, more) => api.prompt(session, { parts: text(words), ...more })
const textOf = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("")
const tool = (messages, name) => messages.flatMap((message) => message.parts).findLast((part) => part.type === "tool" && part.tool === name)
const file = (name) => readFileSync(`${project}/${name}`, "utf8")
const events = await new Events().open()

const steps = {
  async "prompt and its pieces"() {
    const session = await api.create({ title: "Streams" })
    assert.equal(session.title, "Streams")
    const from = events.all.length
    await api.promptAsync(session.id, { parts: text("say hello") })
    await events.of("session.idle", session.id, from)
    const deltas = events.all.filter((event) => event.type === "message.part.delta" && event.properties.sessionID === session.id)
    const whole = "Hello from the model, in several pieces."
    assert.equal(deltas.map((event) => event.properties.delta).join(""), whole)
    const messages = await api.messages(session.id)
    assert.deepEqual(messages.map((message) => message.info.role), ["user", "assistant"])
    assert.equal(textOf(messages[1]), whole)
    assert.ok(messages[0].info.id < messages[1].info.id)
    assert.equal(messages[1].info.finish, "stop")
    const one = await api.message(session.id, { messageID: messages[1].info.id })
    assert.deepEqual(one, messages[1])
  },

  async "permission once, always and reject"() {
    const session = (await api.create()).id
    const answered = async (words, reply) => {
      const from = events.all.length
      const running = ask(session, words)
      const asked = await events.of("permission.asked", session, from)
      assert.equal(asked.properties.permission, "bash")
      await api.permit(asked.properties, reply)
      const replied = await events.of("permission.replied", session, from)
      assert.equal(replied.properties.reply, reply)
      return running
    }
    await answered("run two", "reject")
    const rejected = tool(await api.messages(session), "bash")
    assert.equal(rejected.state.status, "error")
    assert.equal(textOf(await answered("run it", "once")), "It ran.")
    const done = tool(await api.messages(session), "bash")
    assert.equal(done.state.status, "completed")
    assert.match(done.state.metadata.output, /ran-one/)
    await answered("run three", "always")
    const from = events.all.length
    assert.equal(textOf(await ask(session, "and once more")), "It ran once more.")
    assert.ok(!events.all.slice(from).some((event) => event.type === "permission.asked"), "it is allowed from now on")
  },

  async question() {
    if (version === "v1") return
    const session = (await api.create()).id
    const from = events.all.length
    const running = ask(session, "ask me")
    const asked = (await events.of("question.asked", session, from)).properties
    assert.equal(asked.questions[0].question, "Which colour?")
    assert.deepEqual(asked.questions[0].options.map((option) => option.label), ["Red", "Blue"])
    const { data: open } = await api.client.question.list()
    assert.deepEqual(open.map((question) => question.id), [asked.id])
    await api.answer(asked, [["Blue"]])
    const replied = await events.of("question.replied", session, from)
    assert.deepEqual(replied.properties.answers, [["Blue"]])
    await running
    const { state } = tool(await api.messages(session), "question")
    assert.match(state.output, /Blue/)
    assert.deepEqual(state.metadata.answers, [["Blue"]])
    const other = (await api.create()).id
    const second = ask(other, "ask me")
    await api.dismiss((await events.of("question.asked", other)).properties)
    await events.of("question.rejected", other)
    await second
  },

  async "edit with its diff"() {
    const session = (await api.create()).id
    const from = events.all.length
    const running = ask(session, "edit it")
    const asked = (await events.of("permission.asked", session, from)).properties
    assert.equal(asked.permission, "edit")
    assert.match(asked.metadata.diff, /-beta\n\+gamma/)
    assert.match(asked.metadata.filepath, /known\.txt$/)
    await api.permit(asked, "once")
    await running
    assert.equal(file("known.txt"), "alpha\ngamma\n")
    const edited = tool(await api.messages(session), "edit")
    assert.match(edited.state.metadata.diff, /-beta\n\+gamma/)
    const { filediff } = edited.state.metadata
    assert.deepEqual([filediff.patch, filediff.additions, filediff.deletions], [edited.state.metadata.diff, 1, 1])
    const told = await events.of("session.diff", session, from)
    assert.deepEqual([told.properties.diff[0].file, told.properties.diff[0].additions, told.properties.diff[0].deletions], ["known.txt", 1, 1])
    const [changed] = await api.diff(session)
    assert.deepEqual([changed.file, changed.additions, changed.deletions, changed.status], ["known.txt", 1, 1, "modified"])
    assert.match(changed.patch, /-beta\n\+gamma/)
    const [question] = await api.messages(session)
    assert.equal(question.info.summary.diffs[0].file, "known.txt")
    const [ofTurn] = await api.diff(session, { messageID: question.info.id })
    assert.match(ofTurn.patch, /-beta\n\+gamma/)
    const summary = (await api.get(session)).summary
    assert.deepEqual([summary.additions, summary.deletions, summary.files], [1, 1, 1])
  },

  async "undo and redo"() {
    const session = (await api.create()).id
    appendFileSync(`${project}/undo.txt`, "one\n")
    const from = events.all.length
    const running = ask(session, "change the other")
    await api.permit((await events.of("permission.asked", session, from)).properties, "once")
    await running
    assert.equal(file("undo.txt"), "two\n")
    const [first] = await api.messages(session)
    const reverted = await api.revert(session, { messageID: first.info.id })
    assert.equal(reverted.revert.messageID, first.info.id)
    assert.equal(file("undo.txt"), "one\n")
    const back = await api.unrevert(session)
    assert.equal(back.revert, undefined)
    assert.equal(file("undo.txt"), "two\n")
    await api.revert(session, { messageID: first.info.id })
    const again = events.all.length
    await ask(session, "say hello")
    const removed = await events.of("message.removed", session, again)
    assert.equal(removed.properties.sessionID, session)
    const messages = await api.messages(session)
    assert.deepEqual(messages.map((message) => textOf(message)), ["say hello", "Hello from the model, in several pieces."])
  },

  async todo() {
    const session = (await api.create()).id
    const from = events.all.length
    await ask(session, "plan it")
    const told = (await events.of("todo.updated", session, from)).properties.todos
    assert.deepEqual(told.map((todo) => todo.content), ["first thing", "second thing"])
    assert.deepEqual(await api.todo(session), told)
    assert.deepEqual(tool(await api.messages(session), "todowrite").state.metadata.todos.map((todo) => todo.content), ["first thing", "second thing"])
  },

  async task() {
    const session = (await api.create()).id
    const from = events.all.length
    const answer = await ask(session, "delegate")
    assert.equal(textOf(answer), "It is delegated.")
    const part = tool(await api.messages(session), "task")
    const child = part.state.metadata.sessionId
    const created = await events.of("session.created", child, from)
    assert.equal(created.properties.info.parentID, session)
    assert.deepEqual((await api.children(session)).map((known) => known.id), [child])
    const messages = await api.messages(child)
    assert.equal(textOf(messages.at(-1)), "I looked around.")
  },

  /** The model never ends this answer, so only what is streamed can arrive. */
  async streaming() {
    const session = await api.create({})
    const from = events.all.length
    await api.promptAsync(session.id, { parts: text("say half") })
    await events.of("message.part.delta", session.id, from)
    assert.equal(await api.abort(session.id), true)
    await events.of("session.idle", session.id, from)
    assert.equal(textOf((await api.messages(session.id))[1]), "Half an answer")
  },

  async abort() {
    const session = (await api.create()).id
    const from = events.all.length
    const running = ask(session, "wait long")
    await api.permit((await events.of("permission.asked", session, from)).properties, "once")
    const isRunning = (event) => event.properties.part?.type === "tool" && event.properties.part.state.time && event.properties.part.sessionID === session
    await events.until("running call", isRunning, from)
    assert.equal((await api.status())[session].type, "busy")
    assert.equal(await api.abort(session), true)
    const { info } = await running
    assert.equal(info.error.name, "MessageAbortedError")
    await events.of("session.error", session, from)
    await events.of("session.idle", session, from)
    assert.equal(tool(await api.messages(session), "bash").state.status, "error")
    assert.deepEqual(await api.status(), {})
  },

  async shell() {
    const session = (await api.create()).id
    const from = events.all.length
    const answer = await api.shell(session, { agent: "build", command: "echo from-the-shell" })
    await events.of("session.idle", session, from)
    const replied = await events.of("permission.replied", session, from)
    assert.equal(replied.properties.reply, "once", "the person has typed the command")
    const messages = await api.messages(session)
    const part = tool(messages, "bash")
    assert.deepEqual([part.state.status, part.state.input.command], ["completed", "echo from-the-shell"])
    assert.match(part.state.metadata.output, /from-the-shell/)
    assert.equal(messages.length, 2, "the model is not asked")
    assert.deepEqual([answer.info.role, answer.info.id, typeof messages[1].info.time.completed], ["assistant", messages[1].info.id, "number"])
    assert.equal(messages[1].info.agent, "build")
    assert.ok(messages[0].parts.every((part) => part.synthetic), "the person has written nothing")
    assert.equal(textOf(await ask(session, "what did the shell say")), "It said so.")
  },

  async "a file of the project"() {
    const session = (await api.create()).id
    const path = `${project}/read.txt`
    const source = { type: "file", path: "read.txt", text: { start: 5, end: 14, value: "@read.txt" } }
    const part = { type: "file", mime: "text/plain", filename: "read.txt", url: pathToFileURL(path).href, source }
    const answer = await api.prompt(session, { parts: [...text("read @read.txt"), part] })
    assert.equal(textOf(answer), "I have read it.")
    const [first] = await api.messages(session)
    const shown = first.parts.find((part) => part.type === "file")
    assert.deepEqual([shown.filename, shown.mime], ["read.txt", "text/plain"])
  },

  async "model and agent"() {
    const session = (await api.create()).id
    const answer = await ask(session, "say hello", { agent: "plan", model: { providerID: "double", modelID: "n" } })
    assert.deepEqual([answer.info.agent, answer.info.modelID, answer.info.mode], ["plan", "n", "plan"])
    const [first] = await api.messages(session)
    assert.deepEqual([first.info.agent, first.info.model.modelID], ["plan", "n"])
    const next = await ask(session, "say hello", { agent: "build", model: { providerID: "double", modelID: "m" } })
    assert.deepEqual([next.info.agent, next.info.modelID], ["build", "m"])
  },

  async compact() {
    const session = (await api.create()).id
    await ask(session, "say hello")
    const from = events.all.length
    assert.equal(await api.summarize(session, { providerID: "double", modelID: "m" }), true)
    await events.of("session.compacted", session, from)
    const messages = await api.messages(session)
    assert.ok(messages.some((message) => message.parts.some((part) => part.type === "compaction")))
    const summary = messages.find((message) => message.info.summary === true)
    assert.equal(textOf(summary), "Everything so far went well.")
  },

  async fork() {
    const session = (await api.create()).id
    await ask(session, "say hello")
    const second = await ask(session, "say hello")
    const whole = await api.fork(session)
    assert.notEqual(whole.id, session)
    assert.equal((await api.messages(whole.id)).length, 4)
    const part = await api.fork(session, { messageID: second.info.parentID })
    assert.equal((await api.messages(part.id)).length, 2)
    assert.equal(textOf(await ask(part.id, "say hello")), "Hello from the model, in several pieces.")
    assert.equal((await api.messages(session)).length, 4)
  },

  async "rename and delete"() {
    const session = (await api.create()).id
    const from = events.all.length
    assert.equal((await api.update(session, { title: "Mine" })).title, "Mine")
    assert.equal((await events.of("session.updated", session, from)).properties.info.title, "Mine")
    assert.ok((await api.list()).some((known) => known.title === "Mine"))
    assert.equal(await api.delete(session), true)
    const gone = await events.of("session.deleted", session, from)
    assert.equal(gone.properties.info.id, session)
    await assert.rejects(api.get(session))
  },

  async "a command"() {
    const session = (await api.create()).id
    const { data: commands } = await api.client.command.list()
    const known = commands.find((command) => command.name === "greet")
    assert.match(known.template, /say hello/)
    const answer = await api.command(session, { command: "greet", arguments: "twice" })
    assert.equal(textOf(answer), "Hello from the model, in several pieces.")
  },

  async lists() {
    const { data: agents } = await api.client.app.agents()
    const build = agents.find((agent) => agent.name === "build")
    assert.deepEqual([build.mode, build.native], ["primary", true])
    assert.ok(build.permission.some((rule) => rule.permission === "bash" && rule.action === "ask"), JSON.stringify(build.permission))
    const { data: providers } = await api.client.config.providers()
    assert.deepEqual(Object.keys(providers.providers.find((known) => known.id === "double").models).sort(), ["m", "n"])
    const { data: servers } = await api.client.mcp.status()
    assert.equal(servers.off.status, "disabled")
    const off = version === "v2" ? { name: "off" } : { path: { name: "off" } }
    assert.equal((await api.client.mcp.connect(off)).data, true)
    assert.match((await api.client.mcp.status()).data.off.error, /nothing/)
    await api.client.mcp.disconnect(off)
    assert.equal((await api.client.mcp.status()).data.off.status, "disabled")
    const { data: found } = await api.client.find.files(version === "v2" ? { query: "known" } : { query: { query: "known" } })
    assert.deepEqual(found, ["known.txt"])
    const { data: health } = version === "v2" ? await api.client.global.health() : { data: { healthy: true } }
    assert.equal(health.healthy, true)
  },

  async "two clients"() {
    const second = await new Events().open()
    const session = (await api.create()).id
    const from = events.all.length
    const running = ask(session, "run it")
    const [one, two] = await Promise.all([events.of("permission.asked", session, from), second.of("permission.asked", session)])
    assert.deepEqual(two.properties, one.properties)
    await api.permit(one.properties, "once")
    await assert.rejects(api.permit(two.properties, "reject"), "the first answer counts")
    await running
    const mine = (known) => known.all.filter((event) => event.properties.sessionID === session).map((event) => event.id)
    await second.of("session.idle", session)
    await events.of("session.idle", session, from)
    assert.deepEqual(mine(second), mine(events))
    second.stop.abort()
  },

  async "a cut connection"() {
    const cut = await new Events().open(adapter(tunnel))
    const session = (await api.create()).id
    const from = events.all.length
    const running = ask(session, "run two")
    await cut.of("permission.asked", session)
    sayJson({ cut: true })
    await lines.next()
    await running
    await events.of("session.idle", session, from)
    // it connects again by itself, with Last-Event-ID: each event comes once, and none is missing
    const mine = (known) => known.all.filter((event) => event.properties.sessionID === session)
    const whole = mine(events)
    await cut.until("last event", (event) => event.id === whole.at(-1).id)
    assert.deepEqual(mine(cut).slice(0, whole.length), whole)
    assert.equal(cut.all.filter((event) => event.type === "server.connected").length, 2)
    cut.stop.abort()
  },

  async "kill and restart"() {
    const session = (await api.create()).id
    const from = events.all.length
    ask(session, "run it").catch(() => {})
    const asked = (await events.of("permission.asked", session, from)).properties
    events.stop.abort()
    sayJson({ restart: true })
    await lines.next()
    const later = await new Events().open()
    const open = await fetch(`${url}/permission?directory=${encodeURIComponent(project)}`).then((answer) => answer.json())
    assert.deepEqual(open.map((question) => question.id), [asked.id])
    await api.permit(asked, "once")
    await later.of("session.idle", session)
    assert.equal(textOf((await api.messages(session)).at(-1)), "It ran.")
    later.stop.abort()
  },
}

for (const [step, run] of Object.entries(steps)) {
  try {
    await run()
    sayJson({ step })
  } catch (error) {
    sayJson({ step, error: String(error.stack ?? error).slice(0, 2000), data: error.data ?? error.cause })
  }
}
sayJson({ done: true })
process.exit(0)
