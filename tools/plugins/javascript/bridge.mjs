// Loads plugins and tools that are written for OpenCode, and speaks Leftfold's plugin protocol for them. Node or Bun runs
// this text with `-e`. Standard output belongs to the protocol.
import fs from "node:fs"
import * as modules from "node:module"
import path from "node:path"
import readline from "node:readline"
import { fileURLToPath, pathToFileURL } from "node:url"

const isBun = typeof globalThis.Bun !== "undefined"
const write = process.stdout.write.bind(process.stdout)
process.stdout.write = process.stderr.write.bind(process.stderr)
for (const name of ["log", "info", "debug", "dir", "table"]) console[name] = console.error
const report = (error) => console.error(error?.stack ?? String(error))
process.on("unhandledRejection", report)
process.on("uncaughtException", report)

/** Asks Leftfold, and waits for its answer. */
function request(id, method, params) {
  const answer = new Promise((done, fail) => questions.set(id, { done, fail }))
  send({ id, method, params })
  return answer
}
const send = (message) => write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n")
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value)
const differ = (one, other) => JSON.stringify(one) !== JSON.stringify(other)
const copy = (value) => JSON.parse(JSON.stringify(value ?? null))

// ---- Modules: Node reads what Bun reads -------------------------------------------------------------------------------

const ENDS = ["", ".ts", ".js", ".mjs", "/index.ts", "/index.js"]
const isModule = (source) => /^\s*(?:import[\s{*"']|export[\s{*])/m.test(source)
const isInstalled = (file) => file.includes("/node_modules/")

/** The code of a file of TypeScript. Newer versions of Node take out types, and leave enums and the like as they are. */
function stripped(source) {
  try {
    return modules.stripTypeScriptTypes(source, { mode: "transform" })
  } catch (error) {
    if (error.code !== "ERR_INVALID_ARG_VALUE") throw error
    return modules.stripTypeScriptTypes(source)
  }
}

function resolve(specifier, context, next) {
  try {
    return next(specifier, context)
  } catch (error) {
    if (!/^(\.|\/|file:)/.test(specifier)) throw error
    const others = [specifier.replace(/\.js$/, ".ts"), ...ENDS.map((end) => specifier + end)]
    for (const other of others) {
      try {
        return next(other, context)
      } catch {}
    }
    throw error
  }
}

function load(url, context, next) {
  if (!url.startsWith("file:")) return next(url, context)
  const file = fileURLToPath(url)
  const end = path.extname(file)
  const text = () => fs.readFileSync(file, "utf8")
  if ([".ts", ".mts", ".cts"].includes(end)) {
    const source = stripped(text())
    const format = end === ".mts" || (end === ".ts" && isModule(source)) ? "module" : "commonjs"
    return { format, source, shortCircuit: true }
  }
  if (end === ".js" && !isInstalled(file) && isModule(text())) {
    return { format: "module", source: text(), shortCircuit: true }
  }
  if (end === ".json" && context.conditions?.includes("import") && !context.importAttributes?.type) {
    return { format: "module", source: `export default ${text()}`, shortCircuit: true }
  }
  return next(url, context)
}

if (!isBun) modules.registerHooks({ resolve, load })

/** The folder of an installed package, as `from` finds it. */
function findPackage(from, name) {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const found = path.join(folder, "node_modules", name)
    if (fs.existsSync(found)) return fs.realpathSync(found)
    if (folder === path.dirname(folder)) return undefined
  }
}

/** The file that a file, or the folder of a package, stands for. A package of a plugin may have one entry for each side. */
function entry(target, side) {
  if (!fs.statSync(target).isDirectory()) return target
  const about = path.join(target, "package.json")
  const { exports = {}, main } = fs.existsSync(about) ? JSON.parse(fs.readFileSync(about, "utf8")) : {}
  const conditions = [isBun ? "bun" : "node", "import", "module", "default", "require"]
  const pick = (value) => {
    if (typeof value === "string") return value
    return isObject(value) ? conditions.map((name) => pick(value[name])).find(Boolean) : undefined
  }
  const whole = isObject(exports) && Object.keys(exports).some((key) => key.startsWith(".")) ? exports["."] : exports
  for (const named of [pick(exports[side]), pick(whole), main, "index"]) {
    if (typeof named !== "string") continue
    const file = path.resolve(target, named)
    const found = ENDS.map((end) => file + end).find((file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile())
    if (found && found.startsWith(target + path.sep)) return found
  }
  throw new Error(`${target} is a package without an entry`)
}

const open = (target) => import(pathToFileURL(entry(target)).href)

/** Says how to mend a module that cannot be loaded. */
function explained(error, file, folder) {
  const text = String(error?.message ?? error)
  const missing = /(?:Cannot find (?:package|module)|Could not resolve:?) ['"]([^'"]+)['"]/.exec(text)?.[1]
  if (missing === "bun" || missing?.startsWith("bun:") || /\bBun is not defined/.test(text)) {
    return new Error(`${file} needs Bun, and Node runs it: install Bun, so that \`bun\` is in PATH`)
  }
  if (missing && !/^([./]|file:|node:)/.test(missing)) {
    const name = missing.split("/").slice(0, missing.startsWith("@") ? 2 : 1).join("/")
    return new Error(`${file} needs the package "${name}", which is not installed: run \`npm install ${name}\` in ${folder}`)
  }
  return new Error(`${file}: ${text}`)
}

// ---- The input of plugins ---------------------------------------------------------------------------------------------

/** A session's id as OpenCode's clients write it; Leftfold reads both. */
function sessionID(ulid) {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
  let bits = 0n
  for (const digit of ulid) bits = bits * 32n + BigInt(digits.indexOf(digit))
  const sorted = ~(bits >> 68n) & 0xffffffffffffn
  let rest = ((bits >> 116n) << 68n) | (bits & ((1n << 68n) - 1n))
  const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  let tail = ""
  for (; tail.length < 14; rest /= 62n) tail = letters[Number(rest % 62n)] + tail
  return `ses_${sorted.toString(16).padStart(12, "0")}${tail}`
}

/** A client that fails with `why`, except for lines that a plugin wants to show. */
function noClient(why, name = []) {
  return new Proxy(() => {}, {
    get: (_, key) => (typeof key === "symbol" || key === "then" ? undefined : noClient(why, [...name, key])),
    apply: (_, self, [asked]) => {
      const called = name.join(".")
      if (called === "app.log" || called === "tui.showToast") {
        console.error(asked?.body?.message ?? asked?.message ?? "")
        return Promise.resolve({ data: true })
      }
      return Promise.reject(new Error(`client.${called}: ${why}`))
    },
  })
}

/** The client of a plugin. Credentials go to Leftfold without a server. */
async function client(file, params) {
  const found = await serverClient(file, params)
  const replaced = (target, name, value) => new Proxy(target, {
    get: (target, key) => (key === name ? value : target[key]),
  })
  return replaced(found, "auth", replaced(found.auth ?? {}, "set", setCredential))
}

async function serverClient(file, params) {
  const { server, directory } = params
  if (!server) return noClient("there is no server: start Leftfold with `leftfold serve`, without a password")
  const sdk = findPackage(file, "@opencode-ai/sdk")
  if (!sdk) return noClient(`run \`npm install @opencode-ai/sdk\` in ${params.javascript.folder}`)
  return (await open(sdk)).createOpencodeClient({ baseUrl: server, directory })
}

/** Bun's shell, whose commands print nothing into the protocol. */
function shell() {
  if (isBun) return new Proxy(Bun.$, { apply: (run, self, line) => Reflect.apply(run, self, line).quiet() })
  const fail = () => {
    throw new Error("$ is Bun's shell, and Node runs this plugin: install Bun, so that `bun` is in PATH")
  }
  return new Proxy(fail, { get: fail })
}

// ---- Tools ------------------------------------------------------------------------------------------------------------

const tools = new Map()
const isTool = (value) => isObject(value) && "args" in value && "execute" in value
const isZod = (value) => isObject(value) && ("_zod" in value || typeof value._def?.typeName === "string")

/** The zod whose types a tool's arguments have. */
async function zodOf(file) {
  for (const from of [file, findPackage(file, "@opencode-ai/plugin")]) {
    const folder = from && findPackage(from, "zod")
    if (folder) return open(folder)
  }
}

/** A type of zod 3, which has no schema of its own. */
function olderSchema(type) {
  const { typeName, innerType, type: item, values } = type._def
  if (innerType) return { ...olderSchema(innerType), description: type.description }
  const name = { ZodString: "string", ZodNumber: "number", ZodBoolean: "boolean", ZodObject: "object" }[typeName]
  const schema = typeName === "ZodArray" ? { type: "array", items: olderSchema(item) } : name ? { type: name } : {}
  if (typeName === "ZodEnum") schema.enum = values
  return { ...schema, description: type.description }
}

async function parameters(args, file) {
  const properties = {}
  const required = []
  for (const [name, type] of Object.entries(args ?? {})) {
    let schema = type
    if (isZod(type)) {
      const zod = "_zod" in type ? await zodOf(file) : undefined
      const { $schema, ...rest } = zod?.toJSONSchema ? zod.toJSONSchema(type, { io: "input", unrepresentable: "any" })
        : olderSchema(type)
      schema = rest
    }
    properties[name] = schema
    if (!isZod(type) || !(await type.safeParseAsync(undefined)).success) required.push(name)
  }
  return { type: "object", properties, required }
}

async function addTool(name, definition, file) {
  tools.set(name, definition)
  const description = definition.description ?? name
  return { name, description, parameters: await parameters(definition.args, file) }
}

async function parsed(definition, args) {
  if (!Object.values(definition.args ?? {}).every(isZod)) return args
  const values = {}
  const wrong = []
  for (const [name, type] of Object.entries(definition.args ?? {})) {
    const { success, data, error } = await type.safeParseAsync(args[name])
    if (success && data !== undefined) values[name] = data
    for (const issue of error?.issues ?? []) wrong.push(`${[name, ...issue.path].join(".")}: ${issue.message}`)
  }
  if (wrong.length > 0) throw new Error(`The arguments are wrong: ${wrong.join("; ")}`)
  return values
}

const questions = new Map()
const running = new Map()

async function callTool(params, id) {
  const definition = tools.get(params.tool)
  const args = await parsed(definition, params.args)
  const abort = new AbortController()
  running.set(id, abort)
  const shown = {}
  let last = Promise.resolve()
  const ask = ({ permission, patterns, always = [], metadata }) => {
    // Leftfold takes one question of a call at a time
    last = last.catch(() => {}).then(async () => {
      const question = `ask-${id}-${questions.size}-${Date.now()}`
      const message = metadata ? JSON.stringify(metadata).slice(0, 900) : ""
      const answer = request(question, "ask", { request: id, permission, patterns, always, message })
      if ((await answer).status !== "allow") throw new Error(`The permission "${permission}" was denied.`)
    })
    return last
  }
  const context = {
    sessionID: sessionID(params.session), messageID: `msg_${params.message}`, callID: params.call, agent: params.agent,
    directory: params.directory, worktree: params.worktree, abort: abort.signal,
    metadata: (said) => Object.assign(shown, said), ask,
  }
  try {
    const result = await definition.execute(args, context)
    if (typeof result === "string") return { ...shown, output: result }
    const { title = shown.title, output, metadata } = result ?? {}
    return { title, output: String(output ?? ""), metadata: { ...shown.metadata, ...metadata } }
  } finally {
    running.delete(id)
  }
}

// ---- Hooks ------------------------------------------------------------------------------------------------------------

let hooks = []
const run = async (name, input, output) => {
  for (const hook of hooks) await hook[name]?.(input, output)
  return output
}

const modelOf = ({ model }) => ({ id: model?.id, providerID: model?.provider, modelID: model?.id, name: model?.id })
const userMessage = (params) => ({
  id: `msg_${params.message}`, sessionID: sessionID(params.session), role: "user", time: { created: Date.now() },
  agent: params.agent, model: { providerID: params.model?.provider, modelID: params.model?.id },
})
const ofRequest = (params) => ({
  sessionID: sessionID(params.session), agent: params.agent, model: modelOf(params), message: userMessage(params),
  provider: { source: "config", info: { id: params.model?.provider, models: {} }, options: {} },
})
const ofCall = (params) => ({ tool: params.tool, sessionID: sessionID(params.session), callID: params.call })

/** The members of `after` that differ from `before`; `gone` stands for those that are missing. */
function changed(before, after, gone) {
  const answer = {}
  for (const key of Object.keys(after)) {
    if (isObject(before?.[key]) && isObject(after[key])) {
      const inner = changed(before[key], after[key], gone)
      if (Object.keys(inner).length > 0) answer[key] = inner
    } else if (after[key] !== undefined && differ(before?.[key], after[key])) {
      answer[key] = after[key]
    }
  }
  if (gone !== undefined) for (const key of Object.keys(before ?? {})) if (!(key in after)) answer[key] = gone
  return answer
}

/** For each hook of Leftfold: its name in OpenCode, and how it is called. */
const HOOKS = {
  config: ["config", async ({ settings }) => {
    const before = copy(settings)
    for (const hook of hooks) await hook.config?.(settings)
    const answer = changed(before, copy(settings))
    // lists of instructions are joined
    if (answer.instructions) answer.instructions = answer.instructions.filter((it) => !before.instructions?.includes(it))
    return answer
  }],
  "chat.message": ["chat.message", async (params) => {
    const message = userMessage(params)
    const ids = { sessionID: message.sessionID, messageID: message.id }
    const parts = params.parts.map((part, at) => ({
      ...part, id: `prt_${params.message}_${at}`, ...ids, type: part.type === "media" ? "file" : part.type,
    }))
    const texts = () => parts.filter(({ type }) => type === "text").map(({ text }) => ({ text: String(text) }))
    const before = texts()
    await run("chat.message", { ...ids, agent: params.agent, model: message.model }, { message, parts })
    return differ(before, texts()) ? { parts: texts() } : {}
  }],
  "chat.params": ["chat.params", async (params) => {
    const { temperature, top_p: topP, top_k: topK } = params.options ?? {}
    const before = { temperature, topP, topK, maxOutputTokens: params.maxOutputTokens, options: params.options ?? {} }
    return changed(before, await run("chat.params", ofRequest(params), { ...before, options: copy(before.options) }))
  }],
  "chat.headers": ["chat.headers", async (params) => run("chat.headers", ofRequest(params), { headers: {} })],
  "chat.system.transform": ["experimental.chat.system.transform", async (params) => {
    const output = { system: [...params.system] }
    await run("experimental.chat.system.transform", ofRequest(params), output)
    return changed({ system: params.system }, output)
  }],
  "session.compacting": ["experimental.session.compacting", async (params) => {
    const output = { context: [], prompt: undefined }
    return changed({}, await run("experimental.session.compacting", { sessionID: sessionID(params.session) }, output))
  }],
  "tool.definition": ["tool.definition", async (params) => {
    const answer = {}
    for (const { name, description, parameters } of params.tools) {
      const output = await run("tool.definition", { toolID: name }, copy({ description, parameters }))
      const said = {}
      if (differ(description, output.description)) said.description = output.description
      if (differ(parameters, output.parameters)) said.parameters = output.parameters
      if (Object.keys(said).length > 0) answer[name] = said
    }
    return { tools: answer }
  }],
  "tool.execute.before": ["tool.execute.before", async (params) => {
    const output = { args: copy(params.args) }
    try {
      await run("tool.execute.before", ofCall(params), output)
    } catch (error) {
      return { deny: String(error?.message ?? error) }
    }
    return differ(params.args, output.args) ? { args: output.args } : {}
  }],
  "tool.execute.after": ["tool.execute.after", async (params) => {
    const before = { title: params.title ?? "", output: params.output, metadata: params.metadata ?? {} }
    const output = await run("tool.execute.after", { ...ofCall(params), args: params.args }, copy(before))
    const answer = changed(before, { title: output.title, output: output.output })
    const metadata = changed(before.metadata, output.metadata ?? {}, null)
    return Object.keys(metadata).length > 0 ? { ...answer, metadata } : answer
  }],
  "permission.ask": ["permission.ask", async (params) => {
    const { permission, patterns = [], always, call } = params
    const asked = {
      id: `per_${call}`, type: permission, permission, pattern: patterns, patterns, always, callID: call, metadata: {},
      sessionID: sessionID(params.session), messageID: `msg_${params.message}`, title: permission, time: { created: Date.now() },
    }
    const { status } = await run("permission.ask", asked, { status: "ask" })
    return status === "ask" ? {} : { status }
  }],
  "shell.env": ["shell.env", async (params) =>
    run("shell.env", { cwd: params.cwd, sessionID: sessionID(params.session), callID: params.call }, { env: {} })],
}
/** Hooks that Leftfold knows by this name, or that it warns of. */
const OTHERS = [
  "event", "provider", "command.execute.before", "experimental.chat.messages.transform", "experimental.text.complete",
  "experimental.compaction.autocontinue", "experimental.provider.small_model",
]

// ---- Signing in -------------------------------------------------------------------------------------------------------

/** The part of a plugin that signs in. */
const signIn = () => hooks.find((hook) => hook.auth)?.auth
/** Asks the plugin for the credential of the sign-in that was begun last. */
let callback

function setCredential(asked) {
  const provider = asked.path?.id ?? asked.providerID ?? asked.path?.providerID
  const said = asked.body ?? asked.auth ?? {}
  return request(`auth-${questions.size}-${Date.now()}`, "auth.set", { provider, credential: credential(said) })
    .then(() => ({ data: true }))
}

/** A credential of a plugin, in whole milliseconds. */
function credential(said) {
  const { key, access, refresh, expires, accountId, enterpriseUrl } = said
  return { key, access, refresh, expires: expires && Math.floor(expires), accountId, enterpriseUrl }
}

const obtained = (result) => ({ type: result?.type ?? "failed", provider: result?.provider, ...credential(result ?? {}) })

Object.assign(HOOKS, {
  auth: ["auth", async ({ credential: stored }) => {
    const { provider, loader } = signIn()
    if (!stored || !loader) return {}
    const about = { id: provider, name: provider, source: "config", env: [], options: {}, models: {} }
    const { apiKey, headers, fetch } = await loader(async () => copy(stored), about) ?? {}
    const answer = {}
    if (apiKey) answer.apiKey = apiKey
    if (Object.keys(headers ?? {}).length > 0) answer.headers = headers
    if (fetch && Object.keys(answer).length === 0) {
      throw new Error(`the sign-in at ${provider} sends requests by its own \`fetch\`, which Leftfold does not use`)
    }
    return answer
  }],
  "auth.authorize": [undefined, async ({ method: at, inputs, key }) => {
    const method = signIn().methods[at]
    for (const prompt of method.prompts ?? []) {
      const wrong = prompt.key in inputs ? prompt.validate?.(inputs[prompt.key]) : undefined
      if (wrong) throw new Error(`${prompt.message}: ${wrong}`)
    }
    if (method.type === "api") {
      return obtained(method.authorize ? await method.authorize({ ...inputs, key }) : { type: "success" })
    }
    const { url, instructions, method: kind, callback: finish } = await method.authorize(inputs)
    callback = finish
    return { url, instructions, method: kind }
  }],
  "auth.callback": [undefined, async ({ code }) => obtained(await callback(code))],
})

// ---- Events -----------------------------------------------------------------------------------------------------------

const sessions = new Map()

/** The events of OpenCode that an event of Leftfold stands for. */
function translated({ session, seq, of, at, type, data }) {
  const id = sessionID(session)
  const time = Date.parse(at)
  const known = sessions.get(session) ?? { replies: new Map(), calls: new Map() }
  sessions.set(session, known)
  const say = (type, properties) => ({ type, properties: { sessionID: id, ...properties } })
  const part = (reply, member) => say("message.part.updated", { part: { sessionID: id, messageID: `msg_${reply}`, ...member } })
  const message = (reply, info) => say("message.updated", { info: { id: `msg_${reply}`, sessionID: id, ...info } })
  const call = (state) => {
    const { request, call, tool, input } = known.calls.get(data.call) ?? {}
    return part(request, { id: `prt_${call}`, type: "tool", callID: call, tool, state: { input, ...state } })
  }
  switch (type) {
    case "session.created": {
      const parentID = data.parent ? sessionID(data.parent) : undefined
      return [say(type, { info: { id, parentID, directory: data.directory, title: "", time: { created: time, updated: time } } })]
    }
    case "session.titled":
      return [say("session.updated", { info: { id, title: data.title, time: { updated: time } } })]
    case "turn.prompted": {
      const model = data.model && { providerID: data.model.provider, modelID: data.model.id }
      const texts = data.parts.filter((it) => typeof it.text === "string")
      return [
        say("session.status", { status: { type: "busy" } }),
        message(seq, { role: "user", agent: data.agent, model, time: { created: time } }),
        ...texts.map((it, n) => part(seq, { id: `prt_${seq}_${n}`, type: "text", text: it.text })),
      ]
    }
    case "model.requested": {
      if (data.purpose !== "turn") return []
      const info = { role: "assistant", providerID: data.model?.provider, modelID: data.model?.id, time: { created: time } }
      known.replies.set(seq, { info, texts: new Map() })
      return [message(seq, info)]
    }
    case "model.streamed": {
      const reply = known.replies.get(of)
      return (reply ? data.parts : []).map((it) => {
        const text = (reply.texts.get(it.id) ?? "") + (it.text ?? "")
        reply.texts.set(it.id, text)
        return part(of, { id: `prt_${of}_${it.id}`, type: it.kind, text })
      })
    }
    case "model.finished": {
      const reply = known.replies.get(of)
      if (!reply) return []
      const { usage = {}, cost, finish } = data
      const cache = { read: usage.cache_read ?? 0, write: usage.cache_write ?? 0 }
      const tokens = { input: usage.input ?? 0, output: usage.output ?? 0, reasoning: usage.reasoning ?? 0, cache }
      return [message(of, { ...reply.info, finish, cost, tokens, time: { ...reply.info.time, completed: time } })]
    }
    case "tool.called":
      known.calls.set(data.call.id, { request: of, call: data.call.id, tool: data.call.name, input: data.call.input })
      data = { call: data.call.id }
      return [call({ status: "pending" })]
    case "tool.started":
      return [call({ status: "running", time: { start: time } })]
    case "tool.finished": {
      const { title, output, metadata, is_error: failed } = data
      const state = failed ? { status: "error", error: output } : { status: "completed", output, title, metadata }
      const { tool, input } = known.calls.get(data.call) ?? {}
      const edited = !failed && ["edit", "write"].includes(tool) && input?.filePath
      return [call({ ...state, time: { end: time } }), ...(edited ? [{ type: "file.edited", properties: { file: edited } }] : [])]
    }
    case "permission.asked": {
      const { permission, patterns, always, call: callID } = data
      const asked = { id: `per_${seq}`, permission, patterns, always, metadata: {}, tool: { callID } }
      const older = { id: asked.id, type: permission, pattern: patterns, callID, title: permission, metadata: {}, time: { created: time } }
      return [say(type, asked), say("permission.updated", older)]
    }
    case "permission.answered":
      return [say("permission.replied", { permissionID: `per_${of}`, requestID: `per_${of}`, response: data.reply, reply: data.reply })]
    case "todo.updated":
      return [say(type, { todos: data.todos })]
    case "compaction.finished":
      return [say("session.compacted", {})]
    case "turn.ended": {
      sessions.delete(session)
      const error = data.reason === "error" && { name: "UnknownError", data: { message: data.error ?? "" } }
      const ended = [say("session.status", { status: { type: "idle" } }), say("session.idle", {})]
      return error ? [say("session.error", { error }), ...ended] : ended
    }
    default:
      return []
  }
}

function tell(event) {
  for (const it of event.type ? translated(event) : []) {
    for (const hook of hooks) Promise.resolve().then(() => hook.event?.({ event: it })).catch(report)
  }
}

// ---- The protocol -----------------------------------------------------------------------------------------------------

async function initialize(params) {
  const { name, module, tools: files, options, folder } = params.javascript
  const offered = []
  for (const file of files) {
    const found = await open(file).catch((error) => Promise.reject(explained(error, file, folder)))
    const own = path.basename(file, path.extname(file))
    for (const [key, value] of Object.entries(found)) {
      if (isTool(value)) offered.push(await addTool(key === "default" ? own : `${own}_${key}`, value, file))
    }
  }
  if (module) {
    const file = fs.realpathSync(entry(module, "./server"))
    const loaded = await open(file).catch((error) => Promise.reject(explained(error, file, folder)))
    const found = isObject(loaded.default) && "server" in loaded.default ? [loaded.default.server] : Object.values(loaded)
    const plugins = [...new Set(found)].filter((it) => typeof it === "function")
    if (plugins.length === 0) throw new Error(`${file} exports no function, so it is no plugin`)
    const { directory, worktree, server } = params
    const input = {
      client: await client(file, params), project: { id: params.project.name, worktree, time: { created: Date.now() } }, directory,
      worktree, serverUrl: new URL(server ?? "http://leftfold.invalid"), $: shell(),
      experimental_workspace: { register: () => console.error("Leftfold has no workspaces of plugins") },
    }
    for (const plugin of plugins) {
      const said = await Promise.resolve(plugin(input, options)).catch((error) => Promise.reject(explained(error, file, folder)))
      if (isObject(said)) hooks.push(said)
    }
    for (const hook of hooks) {
      for (const [key, value] of Object.entries(hook.tool ?? {})) offered.push(await addTool(key, value, file))
    }
  }
  const has = (name) => hooks.some((hook) => name in hook)
  const ours = Object.entries(HOOKS).filter(([, [name]]) => name && has(name)).map(([name]) => name)
  const { provider, methods = [] } = signIn() ?? {}
  const auth = provider && { provider, methods: methods.map(({ type, label, prompts }) => ({ type, label, prompts })) }
  return { name, toolPrefix: false, hooks: [...ours, ...OTHERS.filter(has)], tools: offered, auth }
}

async function answer(method, params, id) {
  if (method === "initialize") return initialize(params)
  if (method === "tool") return callTool(params, id)
  if (method in HOOKS) return HOOKS[method][1](params)
  throw new Error(`there is no method ${method}`)
}

const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
lines.on("line", (line) => {
  const { id, method, params, result, error } = JSON.parse(line)
  if (method === "cancel") running.get(params.id)?.abort()
  else if (method === "event") tell(params)
  else if (method && id !== undefined) {
    answer(method, params, id).then((result) => send({ id, result: result ?? {} }), (error) => {
      report(error)
      send({ id, error: { code: -32000, message: String(error?.message ?? error) } })
    })
  } else if (questions.has(id)) {
    const { done, fail } = questions.get(id)
    questions.delete(id)
    error ? fail(new Error(error.message)) : done(result)
  }
})
lines.on("close", async () => {
  for (const hook of hooks) await Promise.resolve().then(() => hook.dispose?.()).catch(report)
  process.exit(0)
})
