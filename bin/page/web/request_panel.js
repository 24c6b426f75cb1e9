// A model's request, opened up: its pieces in order, where each is from, its size, and what was left out.
import { button, h, opening } from "./dom.js"
import { bytes, count, dollars, firstLine, printedJson, textBlock, tokens, visible } from "./text.js"
import { eventLinks } from "./event_panel.js"

// Bytes of text in a token, roughly.
const BYTES_IN_TOKEN = 4
// Messages that are shown at once, of those at the end.
const MESSAGES_SHOWN = 60

export class RequestPanel {
  constructor(run, go) {
    Object.assign(this, { run, go })
    this.element = h("div", { class: "panel" })
  }

  async show({ log, index }) {
    const at = log.requestOf(index)
    if (at === undefined) return [h("p", { class: "none" }, "No request was made up to here.")]
    const { event, about } = await this.run.event(log, at)
    const request = about.request
    const [[head, leftOut], outcome] = await Promise.all([this.run.values([[request.head, 1], [request.left_out, 1]]), this.outcome(log, about)])
    const numbers = request.messages.flatMap(([first, length]) => Array.from({ length }, (_, at) => first + at))
    const read = (from, to) => this.run.values(numbers.slice(from, to).map((number) => [number, 1]), "messages")
    const messages = await messageList(numbers.length, read, (seqs) => from(seqs))
    const parts = sizes(head, request.sizes)
    const total = parts.reduce((sum, part) => sum + part.bytes, 0)
    const from = (seqs) => seqs.map((seq) => button(String(seq), () => this.go(log, seq), { class: "link", title: `Event ${seq}` }))
    return [
      h("h2", {}, `Request ${event.seq}`, h("span", { class: "facts" }, visible(`${request.purpose.replace("_", " ")} to ${request.model}`))),
      h("p", { class: "facts" },
        h("span", {}, `step ${event.data.step}`), event.data.attempt > 1 && h("span", {}, `attempt ${event.data.attempt}`),
        h("span", {}, `${bytes(total)}, about ${tokens(Math.ceil(total / BYTES_IN_TOKEN))} tokens`),
        h("span", {}, `answer of at most ${tokens(request.max_output)} tokens`),
        !request.as_logged && h("span", { class: "bad" }, "this version rebuilds another request than the one that was sent")),
      sizeBar(parts, total),
      outcome,
      h("section", {}, h("h3", {}, "System prompt"), head.system.map((block, number) => systemBlock(block, number))),
      h("section", {}, h("h3", {}, count(head.tools.length, "tool")), toolList(head.tools)),
      h("section", {}, h("h3", {}, count(numbers.length, "message")), messages),
      h("section", {}, h("h3", {}, "Left out"), leftOut.length === 0
        ? h("p", { class: "none" }, "nothing")
        : h("ul", { class: "plain" }, leftOut.map(({ seq, what }) => h("li", {}, from([seq]), " ", what)))),
      h("details", {}, h("summary", {}, "Options"), textBlock(printedJson(head.options), "code")),
    ]
  }

  /** The reply or the failure, with the tokens that the provider counted. */
  async outcome(log, about) {
    const ends = (about.then ?? []).filter((seq) => ["model.finished", "model.failed"].includes(log.type(log.index(seq))))
    if (ends.length === 0) return h("p", { class: "none" }, "No outcome.")
    const { event } = await this.run.event(log, log.index(ends[0]))
    const links = h("ul", { class: "links" }, await eventLinks(this.run, log, ends, this.go))
    const { usage, cost } = event.data
    if (!usage) return links
    const taken = usage.input + usage.cache_read + usage.cache_write
    const hit = taken > 0 ? Math.round((usage.cache_read / taken) * 100) : 0
    const figures = [
      ["input", tokens(usage.input)], ["from the cache", `${tokens(usage.cache_read)} (${hit} %)`], ["to the cache", tokens(usage.cache_write)],
      ["output", tokens(usage.output)], ["reasoning", tokens(usage.reasoning)], ["cost", cost > 0 ? dollars(cost) : "unknown"],
    ]
    return [h("dl", { class: "figures" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))), links]
  }
}

/** Whether a piece of the system prompt is from the project or the user. */
function isInstruction({ source }) {
  return /^\/|^https?:|^skill/.test(source)
}

/** The instructions in a request, in their order: each with its file or address and its text. */
export function instructionsOf({ system }) {
  return system.flatMap(piecesOf).filter(isInstruction)
}

/** The pieces of a block of the system prompt, each with its source and its text. */
function piecesOf({ bytes: size, sources, text }) {
  const all = new TextEncoder().encode(text)
  const known = sources ?? []
  // masked text can be shorter or longer than the pieces are
  if (all.length !== known.reduce((sum, piece) => sum + piece.bytes, 0)) return known.length === 0 ? [{ source: "", bytes: size, text }] : known.map((piece) => ({ ...piece, text: "" }))
  let at = 0
  return known.map((piece) => ({ ...piece, text: new TextDecoder().decode(all.slice(at, (at += piece.bytes))) }))
}

/** The bytes of a request by kind. */
function sizes({ system, tools }, messages) {
  const sum = (items) => items.reduce((total, item) => total + item.bytes, 0)
  const pieces = system.flatMap((block) => block.sources ?? [{ source: "", bytes: block.bytes }])
  return [
    { name: "system", bytes: sum(pieces.filter((piece) => !isInstruction(piece))) },
    { name: "instructions", bytes: sum(pieces.filter(isInstruction)) },
    { name: "tools", bytes: sum(tools) },
    { name: "prompts", bytes: messages.user },
    { name: "replies", bytes: messages.assistant },
    { name: "results", bytes: messages.tool },
  ]
}

function sizeBar(parts, total) {
  const shown = parts.filter((part) => part.bytes > 0)
  return h("div", { class: "size-bar" },
    h("div", { class: "bar", role: "img", "aria-label": shown.map((part) => `${part.name} ${bytes(part.bytes)}`).join(", ") },
      shown.map((part) => h("span", { class: `part ${part.name}`, style: { flexGrow: String(part.bytes / Math.max(total, 1)) } }))),
    h("ul", { class: "legend" }, shown.map((part) => h("li", {}, h("span", { class: `swatch ${part.name}` }), `${part.name} ${bytes(part.bytes)}`))))
}

function systemBlock(block, number) {
  const { bytes: size, sources, text } = block
  const pieces = sources && piecesOf(block).map((piece) => h("li", {}, piece.text === "" ? h("code", {}, visible(piece.source))
    : opening("", h("summary", {}, h("code", {}, visible(piece.source)), ` ${bytes(piece.bytes)}`), () => textBlock(piece.text))))
  const name = sources?.some(isInstruction) ? "Environment, instructions, skills" : `Block ${number + 1}`
  const summary = h("summary", {}, name, h("span", { class: "size" }, bytes(size)), h("span", { class: "line" }, visible(firstLine(text))))
  return opening("piece", summary, () => [
    pieces ? h("ul", { class: "plain" }, pieces) : h("p", { class: "none" }, "changed by a plugin"),
    textBlock(text),
  ])
}

function toolList(tools) {
  return h("ul", { class: "plain tools-of-request" }, tools.map((tool) => h("li", {},
    h("code", {}, visible(tool.name)), ` ${bytes(tool.bytes)}`, tool.source && h("span", { class: "faint" }, " ", visible(tool.source)))))
}

/** The messages at the end; `read(from, to)` reads some, and the others are read on request. */
async function messageList(length, read, from) {
  const row = ({ role, from: seqs, bytes: size, text }, number) => {
    const summary = h("summary", {}, h("span", { class: `role ${role}` }, role), h("span", { class: "size" }, bytes(size)), h("span", { class: "line" }, visible(firstLine(text))))
    return opening("piece", summary, () => [
      h("p", { class: "facts" }, `message ${number + 1}, `, seqs.length > 0 ? ["from ", from(seqs)] : "written for this request"),
      textBlock(text),
    ])
  }
  const first = Math.max(0, length - MESSAGES_SHOWN)
  const list = h("div", {}, (await read(first, length)).map((message, at) => row(message, first + at)))
  if (first === 0) return list
  const more = button(`Show ${count(first, "earlier message")}`, async () => {
    list.prepend(...(await read(0, first)).map(row))
    more.remove()
  }, { class: "more" })
  return [more, list]
}
