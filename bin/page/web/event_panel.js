// Everything about one event: why it happened, what led to it and what came of it, and its data.
import { button, h, opening } from "./dom.js"
import { diffBlock, splitDiff } from "./diff.js"
import { concern, rowLine } from "./event_list.js"
import { clock, duration, printedJson, textBlock, visible } from "./text.js"

export class EventPanel {
  /** `go(log, seq)` shows another event, `look(log, seq, tab)` shows it in another tab. */
  constructor(run, go, look, operations) {
    Object.assign(this, { run, go, look, operations })
    this.element = h("div", { class: "panel" })
  }

  async show({ log, index }) {
    const { event, about } = await this.run.event(log, index)
    const links = await Promise.all([about.from ?? [], about.then ?? []].map((seqs) => eventLinks(this.run, log, seqs, this.go)))
    const since = log.times[index] - log.times[0]
    const deadline = event.until && h("span", {}, `deadline ${event.until}`)
    const diff = event.data?.metadata?.diff
    return [
      h("h2", {}, h("span", { class: `dot ${concern(event.type)}` }), event.type),
      h("p", { class: "facts" },
        h("span", {}, `event ${event.seq}`), h("span", { title: clock(log.times[index]) }, `after ${duration(since)}`),
        log.depth > 0 && h("span", {}, `subagent ${log.tag}`), deadline),
      this.operations && h("div", { class: "answers" }, this.operations.at(log, event)),
      log.findingsAt(index).map((what) => h("p", { class: "finding" }, visible(what))),
      about.call && h("p", { class: "summary", dir: "auto" }, visible(about.call)),
      content(event) ?? (about.line && h("p", { class: "summary", dir: "auto" }, visible(about.line))),
      typeof diff === "string" && h("section", {}, h("h3", {}, "Change"), splitDiff(diff).map((file) => diffBlock(file.lines))),
      event.type === "model.requested" && h("div", {}, button("Open this request", () => this.look(log, event.seq, "Request"))),
      decision(about, log, this.go),
      section("Follows from", links[0]),
      section("Led to", links[1]),
      h("section", {}, h("h3", {}, "Data"), fields(event.data ?? {})),
      opening("", h("summary", {}, "As JSON"), () => textBlock(printedJson(event), "code")),
    ]
  }
}

/** The text that an event is about, as it is: a prompt, an answer, an output, a command, a summary. */
function content({ type, data }) {
  const text = {
    "turn.prompted": () => data.parts.filter((part) => part.type !== "media").map((part) => part.text).join("\n"),
    "turn.ended": () => data.error ?? data.text,
    "tool.called": () => data.call.input.command ?? data.call.input.prompt,
    "tool.finished": () => data.output,
    "compaction.finished": () => data.summary,
    "model.streamed": () => data.parts.map((part) => part.text).join(""),
    "model.failed": () => data.message,
  }[type]?.()
  return typeof text === "string" && text !== "" ? textBlock(text) : undefined
}

/** Why an event was decided: the reason, and the rule with its file and line. */
export function decision(about, log, go) {
  const rows = []
  const took = /^after ([\d.]+ s)$/.exec(about.reason ?? "")
  if (took) rows.push(["Took", took[1]])
  else if (about.reason) rows.push(["Because", visible(about.reason)])
  if (about.rule) rows.push(["Rule", ruleText(about.rule)])
  if (about.rule_source) rows.push(["From", h("code", {}, visible(about.rule_source))])
  if (about.decided_on) rows.push(["Decided on", button(`event ${about.decided_on}`, () => go(log, about.decided_on), { class: "link" })])
  return rows.length > 0 && h("dl", { class: "why" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))
}

export function ruleText({ action, permission, pattern }) {
  return h("span", { class: `rule ${action}` }, h("b", {}, action), " ", visible(permission), " ", h("code", {}, visible(pattern)))
}

/** Links to events, each with its line. */
export async function eventLinks(run, log, seqs, go) {
  const known = seqs.filter((seq) => log.has(seq))
  return Promise.all(known.map(async (seq) => {
    const index = log.index(seq)
    const { about } = await run.event(log, index)
    return h("li", {}, h("button", { type: "button", class: "event-link", onclick: () => go(log, seq) },
      h("span", { class: "seq" }, String(seq)), h("span", { class: `dot ${concern(log.type(index))}` }),
      h("span", { class: "type" }, log.type(index)), h("span", { class: "line" }, visible(rowLine(log.type(index), about)))))
  }))
}

function section(title, items) {
  return items.length > 0 && h("section", {}, h("h3", {}, title), h("ul", { class: "links" }, items))
}

const LIST_ITEMS = 100

/** A value as fields: names with short values beside them, long ones below. */
export function fields(value) {
  const entries = Object.entries(value)
  if (entries.length === 0) return h("p", { class: "none" }, "none")
  const shown = entries.slice(0, LIST_ITEMS)
  const more = entries.length - shown.length
  return [
    h("dl", { class: "fields" }, shown.map(([name, item]) => {
      const term = h("dt", {}, visible(name))
      if (item !== null && typeof item === "object") {
        const isEmpty = Object.keys(item).length === 0
        return [term, h("dd", { class: isEmpty ? "" : "below" }, isEmpty ? h("code", {}, Array.isArray(item) ? "[]" : "{}") : fields(item))]
      }
      if (typeof item === "string" && (item.length > 80 || item.includes("\n"))) return [term, h("dd", { class: "below" }, textBlock(item))]
      return [term, h("dd", {}, h("code", {}, typeof item === "string" ? visible(item) : String(item)))]
    })),
    more > 0 && h("p", { class: "none" }, `and ${more} more: see the JSON`),
  ]
}
