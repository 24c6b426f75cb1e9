// The session as it was after an event: conversation, todo, files, permissions, cost. Everything is
// read from the state that Rust has folded.
import { button, h, opening } from "./dom.js"
import { diffBlock, splitDiff } from "./diff.js"
import { ruleText } from "./event_panel.js"
import { lastAtMost } from "./run.js"
import { count, dollars, printedJson, textBlock, tokens, visible } from "./text.js"

const VIEWS = ["Conversation", "Todo", "Files", "Permissions", "Cost", "JSON"]
// Messages that are shown at once, of those at the end.
const LATEST_MESSAGES = 24
// Characters of a state's JSON that are shown at once.
const LONG_JSON = 100_000

export class StatePanel {
  constructor(run, go, changed) {
    Object.assign(this, { run, go, view: VIEWS[0] })
    this.element = h("div", { class: "panel" })
    this.choice = h("div", { class: "choice", role: "group", "aria-label": "Part of the state" }, VIEWS.map((name) => button(name, () => {
      this.view = name
      changed()
    })))
  }

  get endsWithLatest() {
    return this.view === "Conversation"
  }

  async show({ log, index }) {
    const state = await this.run.state(log, index)
    for (const choice of this.choice.children) choice.setAttribute("aria-pressed", String(choice.textContent === this.view))
    const seq = log.seq(index)
    const views = {
      Conversation: () => conversation(this.run, state, (to) => this.go(log, to)),
      Todo: () => todos(state),
      Files: () => this.files(state, log, seq),
      Permissions: () => permissions(state),
      Cost: () => costs(state, log, seq),
      JSON: async () => textBlock(printedJson({ ...state, messages: await this.run.messages(state.messages) }), "code state-json", LONG_JSON),
    }
    return [
      h("h2", {}, `State after event ${seq}`, log.depth > 0 && h("span", { class: "facts" }, `subagent ${log.tag}`)),
      this.choice,
      await views[this.view](),
    ]
  }

  /** What the session had changed by then, with the diffs of its calls. */
  async files(state, log, seq) {
    const edits = log.edits.filter((edit) => edit.seq <= seq && lastAtMost(edit.moved, seq) % 2 === 0)
    const byFile = new Map()
    for (const edit of edits) {
      const { event } = await this.run.event(log, log.index(edit.seq))
      for (const file of splitDiff(event.data.metadata?.diff ?? "")) {
        if (!byFile.has(file.name)) byFile.set(file.name, [])
        byFile.get(file.name).push({ seq: edit.seq, lines: file.lines })
      }
    }
    const counted = state.files.changes.flatMap((change) => change.files)
    const more = [...new Set(counted.map((file) => file.path))].filter((path) => ![...byFile.keys()].some((name) => name === path || path.endsWith(`/${name}`) || name.endsWith(`/${path}`)))
    if (byFile.size + more.length === 0) return h("p", { class: "none" }, "No file was changed up to here.")
    return [
      state.files.revert && h("p", { class: "facts" }, `Messages since ${state.files.revert.to} are reverted.`),
      [...byFile].map(([name, changes]) => h("details", { class: "file", open: true },
        h("summary", {}, h("code", {}, visible(name)), h("span", { class: "facts" }, count(changes.length, "change"))),
        changes.map((change) => [button(`event ${change.seq}`, () => this.go(log, change.seq), { class: "link" }), diffBlock(change.lines)]))),
      more.length > 0 && h("section", {}, h("h3", {}, "Changed by commands"), h("ul", { class: "plain" }, more.map((path) => {
        const all = counted.filter((file) => file.path === path)
        const sum = (of) => all.reduce((total, file) => total + file[of], 0)
        return h("li", {}, h("code", {}, visible(path)), ` ${all.at(-1).change} +${sum("additions")} −${sum("deletions")}`)
      }))),
    ]
  }
}

async function conversation(run, state, go) {
  const { messages } = state
  if (messages.length === 0) return h("p", { class: "none" }, "No message yet.")
  const first = Math.max(0, messages.length - LATEST_MESSAGES)
  const list = h("div", { class: "conversation" }, (await run.messages(messages.slice(first))).map((message) => messageOf(message, go)))
  if (first === 0) return list
  const more = button(`Show ${count(first, "earlier message")}`, async () => {
    list.prepend(...(await run.messages(messages.slice(0, first))).map((message) => messageOf(message, go)))
    more.remove()
  }, { class: "more" })
  return [more, list]
}

function messageOf(message, go) {
  const [[kind, body]] = Object.entries(message)
  const origin = (seq) => seq > 0 && button(String(seq), () => go(seq), { class: "link", title: `Event ${seq}` })
  const box = (name, seq, ...content) => h("article", { class: `message ${kind}` }, h("header", {}, h("b", {}, name), origin(seq)), content)
  if (kind === "user") {
    return box("Prompt", body.seq, body.parts.map((part) => part.type === "media"
      ? h("p", { class: "none" }, `${part.mime ?? "media"} ${part.name ?? ""}`)
      : textBlock(part.text)), body.reminder && folded("Reminder", body.reminder))
  }
  if (kind === "assistant") {
    const end = body.end === "open" ? "streaming" : typeof body.end === "string" ? body.end : ""
    return box(`Reply ${end && `(${end})`}`, body.asked, body.parts.map((part) => replyPart(part, go)))
  }
  if (kind === "summary") return box("Summary of everything before", 0, textBlock(body.text))
  return box("Note", body.of ?? 0, textBlock(body.text ?? printedJson(body)))
}

function replyPart(part, go) {
  const [[kind, body]] = Object.entries(part)
  if (kind === "text") return textBlock(body.text)
  if (kind === "reasoning") return folded("Reasoning", body.text || (body.redacted ? "redacted" : ""))
  return callBox(body, go)
}

function callBox(call, go) {
  const phase = typeof call.phase === "string" ? call.phase : Object.keys(call.phase)[0]
  const outcome = call.phase.done
  const status = outcome ? (outcome.is_error ? "failed" : "done") : phase.replace("_", " ")
  const output = outcome?.output ?? call.tail
  const summary = h("summary", {}, h("b", {}, visible(call.name)), h("span", { class: "line" }, visible(mainArgument(call.input))), h("span", { class: "status" }, call.pruned ? `${status}, pruned` : status))
  return opening(`call ${status.replace(" ", "-")}`, summary, () => [
    h("p", { class: "facts" }, "call ", button(String(call.seq), () => go(call.seq), { class: "link", title: `Event ${call.seq}` })),
    textBlock(printedJson(call.input), "code"),
    output && textBlock(output),
  ])
}

function mainArgument(input) {
  const names = ["command", "filePath", "pattern", "url", "description"]
  const name = names.find((key) => typeof input?.[key] === "string")
  return name ? input[name].split("\n", 1)[0].slice(0, 160) : ""
}

function folded(title, text) {
  return opening("folded", h("summary", {}, title), () => textBlock(text))
}

const TODO_MARKS = { completed: "✓", in_progress: "▸", cancelled: "×" }

function todos({ todos: items }) {
  if (items.length === 0) return h("p", { class: "none" }, "The todo list is empty.")
  return h("ul", { class: "todos" }, items.map((item) => h("li", { class: item.status },
    h("span", { class: "mark", "aria-hidden": "true" }, TODO_MARKS[item.status] ?? "○"), h("span", {}, visible(item.content)), h("span", { class: "faint" }, item.status.replace("_", " ")))))
}

function permissions(state) {
  const { config, approved, turn } = state
  const rules = config.rules ?? []
  const sources = config.options?.sources?.rules ?? []
  const source = (at) => sources.find((range) => range.from <= at && at < range.to)?.source
  const restrictions = (config.options?.restrictions ?? []).flat()
  const list = (title, items, from = () => undefined) => items.length > 0 && h("section", {}, h("h3", {}, title),
    h("ol", { class: "rules" }, items.map((rule, at) => h("li", {}, ruleText(rule), from(at) && h("code", { class: "faint" }, visible(from(at)))))))
  const denials = turn?.denials ?? []
  return [
    denials.length > 0 && h("section", {}, h("h3", {}, "Denied in this turn"), h("ul", { class: "plain" }, denials.map((denial) => h("li", {},
      h("b", {}, visible(denial.permission)), " ", h("code", {}, visible(denial.patterns.join(", "))), " ", visible(denial.reason))))),
    list("Allowed by answers in this session", approved),
    list("The session's own rules", state.rules ?? []),
    list("Restrictions, which only make verdicts stricter", restrictions),
    list("Rules, of which the last match wins", rules, source),
    rules.length + approved.length === 0 && h("p", { class: "none" }, "No rules yet."),
  ]
}

function costs(state, log, seq) {
  const { usage, cost, delegated, config } = state
  const used = log.context.findLast((point) => point.seq <= seq)
  const context = used ? used.parts.reduce((sum, part) => sum + part, 0) : 0
  const size = config.model?.limit?.context ?? 0
  const rows = [
    ["Cost", cost > 0 ? dollars(cost) : "unknown, or nothing"], ["Cost of subagents, this turn", delegated.cost > 0 ? dollars(delegated.cost) : "none"],
    ["Input", tokens(usage.input)], ["From the cache", tokens(usage.cache_read)], ["To the cache", tokens(usage.cache_write)],
    ["Output", tokens(usage.output)], ["Reasoning", tokens(usage.reasoning)],
    ["Context of the last request", size > 0 ? `about ${tokens(context)} of ${tokens(size)} tokens` : `about ${tokens(context)} tokens`],
  ]
  const bar = size > 0 && h("div", { class: "meter", role: "img", "aria-label": `${Math.round((context / size) * 100)} % of the context` },
    h("span", { style: { width: `${Math.min((context / size) * 100, 100)}%` } }))
  return [h("dl", { class: "figures" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))), bar]
}
