// Each turn at a glance, the latest first: what was asked, what was out of the ordinary, what came of it, and what the
// model was given. Every line leads to its event.
import { button, h, opening } from "./dom.js"
import { count, dollars, duration, firstLine, textBlock, visible } from "./text.js"
import { diffBlock, splitDiff } from "./diff.js"
import { instructionsOf } from "./request_panel.js"

// Turns, and items of a list, that are shown at once.
const TURNS_SHOWN = 5
const ITEMS_SHOWN = 12
// Of a long turn, the last changes of files are read.
const CHANGES_READ = 100
// Characters of a prompt or an answer that are shown at once.
const SHORT_TEXT = 700

export class SummaryPanel {
  /** `look(log, seq, tab)` shows an event in another tab. */
  constructor(run, look) {
    Object.assign(this, { run, look, turnsShown: TURNS_SHOWN })
    this.element = h("div", { class: "panel" })
  }

  /** Reads what has been added when the panel is shown next. */
  update() {
    this.opened = undefined
  }

  async open() {
    this.opened ??= this.read()
    await this.opened
  }

  async read() {
    const root = this.run.logs[0]
    const turns = root.spans.filter((span) => span.kind === "turn")
    const first = Math.max(0, turns.length - this.turnsShown)
    const shown = await Promise.all(turns.slice(first).map((turn, at) => this.turn(root, turn, turns[first + at + 1], first + at + 1)))
    const more = first > 0 && button(`Show ${count(first, "earlier turn")}`, () => {
      this.turnsShown = Infinity
      this.update()
      this.open()
    }, { class: "more" })
    const none = shown.length === 0 && h("p", { class: "none" }, "No prompt was sent.")
    this.element.replaceChildren(...[none, shown.toReversed(), more].flat().filter(Boolean))
  }

  /** One turn, with what happened until the next one began. */
  async turn(root, turn, next, number) {
    const to = turn.to ?? root.seq(root.length - 1)
    const [first, last] = [number === 1 ? root.first_seq : turn.from, next ? next.from - 1 : root.seq(root.length - 1)]
    const isIn = (seq) => first <= seq && seq <= last
    const [began, ended] = [root.time(turn.from), root.time(to)]
    const found = this.run.logs.flatMap((log) => log.findings
      .filter(({ seq }) => (log === root ? isIn(seq) : log.isBelow(root) && began <= log.time(seq) && log.time(seq) <= ended))
      .map((finding) => ({ ...finding, log })))
    const [prompt, end, commands, given, changes, tasks] = await Promise.all([
      this.event(root, turn.from), turn.to && this.event(root, turn.to),
      this.commands(root, turn), this.given(root, turn, to), this.changes(root, first, last), this.tasks(root, isIn)])
    const outcome = end ? end.data.reason : turn.end === "open" ? "running" : turn.end
    return h("article", { class: "turn-summary" },
      h("h2", {}, `Turn ${number}`, h("span", { class: `outcome ${outcome}` }, outcome.replace("_", " ")),
        h("span", { class: "facts" }, duration(ended - began), end?.data.cost > 0 && ` · ${dollars(end.data.cost)}`, ` · events ${turn.from} to ${to}`)),
      this.block("Prompt", root, turn.from, promptText(prompt.data.parts)),
      this.list("The commands in the prompt printed", commands),
      found.length > 0
        ? this.list("Out of the ordinary", await Promise.all(found.map((finding) => this.finding(finding))), "findings")
        : h("p", { class: "none" }, "No finding: no call failed or was denied, and nothing was cut off, lost, retried, summarised or changed by a plugin."),
      end && this.block(end.data.error ? "Error" : "Answer", root, turn.to, end.data.error ?? end.data.text),
      this.list("Changed files", changes),
      this.list("Subagents", tasks),
      given)
  }

  async event(log, seq) {
    return (await this.run.event(log, log.index(seq))).event
  }

  block(title, log, seq, text) {
    return text !== "" && h("section", {}, h("h3", {}, `${title} `, button(String(seq), () => this.look(log, seq, "Event"), { class: "link" })), textBlock(text, "", SHORT_TEXT))
  }

  list(title, items, kind = "") {
    if (items.length === 0) return undefined
    const rest = items.slice(ITEMS_SHOWN)
    return h("section", { class: kind }, h("h3", {}, title), h("ul", { class: "links" }, items.slice(0, ITEMS_SHOWN)),
      rest.length > 0 && opening("", h("summary", {}, `${rest.length} more`), () => h("ul", { class: "links" }, rest)))
  }

  /** A line that leads to its event. */
  link(log, seq, line, tab = "Event") {
    return h("li", {}, h("button", { type: "button", class: "event-link whole-line", onclick: () => this.look(log, seq, tab) },
      h("span", { class: "seq" }, String(seq)), log.number > 0 && h("span", { class: "tag" }, log.tag), h("span", { class: "line" }, visible(line))))
  }

  /** A finding; that of a summary with its text and the prompts that it replaced. */
  async finding({ log, seq, what }) {
    const item = this.link(log, seq, what)
    if (log.type(log.index(seq)) !== "compaction.finished") return item
    const { data } = await this.event(log, seq)
    const replaced = log.spans.filter((span) => span.kind === "turn" && span.from < seq)
    item.append(h("div", { class: "evidence" }, h("h3", {}, "The summary"), textBlock(data.summary, "", SHORT_TEXT),
      h("h3", {}, "The prompts before it"), h("ul", { class: "links" }, replaced.slice(-ITEMS_SHOWN).map((turn) => this.link(log, turn.from, turn.label)))))
    return item
  }

  /** The calls that the prompt itself made, for its command lines, with what they printed. */
  async commands(root, turn) {
    const calls = root.spans.filter((span) => span.kind === "call" && root.of(root.index(span.from)) === turn.from)
    return Promise.all(calls.map(async (call) => {
      const result = call.to && await this.event(root, call.to)
      const output = result?.data.output ?? ""
      return this.link(root, call.to ?? call.from, `${call.label} → ${firstLine(output) || call.end}`)
    }))
  }

  /** The changes that the snapshots after each step found. */
  async changes(root, from, to) {
    const found = []
    for (let index = root.index(from); index <= root.index(to); index++) {
      if (root.type(index) === "files.snapshotted" && root.bookkeeping[index] === "0") found.push(index)
    }
    return Promise.all(found.slice(-CHANGES_READ).map(async (index) => {
      const { about } = await this.run.event(root, index)
      const seq = root.seq(index)
      // the calls that ended since the snapshot before
      let since = index - 1
      while (since > 0 && root.type(since) !== "files.snapshotted") since -= 1
      const calls = root.spans.filter((span) => span.kind === "call" && root.seq(since) < span.to && span.to < seq)
      const edits = root.edits.filter((edit) => root.seq(since) < edit.seq && edit.seq < seq)
      const by = calls.length > 0 ? ` by ${calls.slice(0, 3).map((call) => call.label).join(" and ")}${calls.length > 3 ? " and others" : ""}` : ""
      const item = this.link(root, seq, `${about.line ?? ""}${by}`)
      if (edits.length > 0) item.append(opening("evidence", h("summary", {}, "the changes of its edits"), () => this.diffs(root, edits)))
      return item
    }))
  }

  diffs(log, edits) {
    const place = h("div", {})
    Promise.all(edits.map((edit) => this.event(log, edit.seq))).then((events) => {
      place.append(...events.flatMap(({ data }) => splitDiff(data.metadata?.diff ?? "").map((file) => diffBlock(file.lines))))
    })
    return place
  }

  /** The subagents that began in the turn: their tasks and answers. */
  async tasks(root, isIn) {
    const began = root.spans.filter((span) => span.kind === "subagent" && isIn(span.from))
    const children = began.map((span) => this.run.logs.find((log) => log.session === span.session)).filter(Boolean)
    return (await Promise.all(children.map(async (child) => {
      const turn = child.spans.find((span) => span.kind === "turn")
      if (!turn) return []
      const [prompt, end] = await Promise.all([this.event(child, turn.from), turn.to && this.event(child, turn.to)])
      return [
        this.link(child, turn.from, `asked: ${promptText(prompt.data.parts)}`),
        end && this.link(child, turn.to, `${end.data.reason.replace("_", " ")}${child.findings.length > 0 ? `, ${count(child.findings.length, "finding")}` : ""}: ${end.data.error ?? end.data.text}`),
      ]
    }))).flat().filter(Boolean)
  }

  /** Instructions and skills that the model got with the results of calls. */
  async foundOnTheWay(root, turn, to) {
    const calls = root.spans.filter((span) => span.kind === "call" && turn.from < span.from && span.to && span.to <= to && /^(read|skill)\b/.test(span.label))
    const items = await Promise.all(calls.slice(0, CHANGES_READ).map(async (call) => {
      const { data } = await this.event(root, call.to)
      const files = data.metadata?.instructions ?? []
      if (call.label.startsWith("skill") && data.metadata?.directory) return this.link(root, call.to, `skill ${data.metadata.name} of ${data.metadata.directory}`)
      return files.length > 0 && this.link(root, call.to, `${files.join(", ")} with ${call.label}`)
    }))
    return items.filter(Boolean)
  }

  /** The model of the turn's first request, and whose instructions it had. */
  async given(root, turn, to) {
    for (let index = root.index(turn.from); index <= root.index(to); index++) {
      if (root.type(index) !== "model.requested") continue
      const { about } = await this.run.event(root, index)
      if (about.request.purpose !== "turn") continue
      const [head] = await this.run.values([[about.request.head, 1]])
      const sources = instructionsOf(head).map((piece) => h("li", {}, opening("", h("summary", {}, h("code", {}, visible(piece.source))), () => textBlock(piece.text))))
      const later = await this.foundOnTheWay(root, turn, to)
      return h("section", {}, h("h3", {}, "Given to the model"), h("dl", { class: "why" },
        h("dt", {}, "Model"), h("dd", {}, visible(about.request.model)),
        h("dt", {}, "Instructions"), h("dd", {}, sources.length > 0 ? h("ul", { class: "plain" }, sources) : "none of the project or the user",
          sources.length > 1 && h("p", { class: "faint" }, "in this order: the model reads the last ones last")),
        later.length > 0 && [h("dt", {}, "Found on the way"), h("dd", {}, h("ul", { class: "links" }, later))],
        h("dt", {}, "Request"), h("dd", {}, button(`all of request ${root.seq(index)}`, () => this.look(root, root.seq(index), "Request"), { class: "link" }))))
    }
    return undefined
  }
}

/** A prompt as it was typed: command lines as they stand in a template. */
function promptText(parts) {
  return parts.map((part) => (part.type === "command" ? `!\`${part.text}\`` : part.type === "media" ? `[${part.mime ?? "media"} ${part.name ?? ""}]` : part.text)).join("")
}
