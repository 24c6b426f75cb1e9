// All decisions of a run: what a rule or a person decided about a call, and why each turn ended.
import { button, h } from "./dom.js"
import { visible } from "./text.js"
import { VirtualList } from "./virtual_list.js"

const DECISIONS = new Set(["permission.ruled", "permission.asked", "permission.answered", "turn.ended", "turn.interrupted", "model.retry_scheduled", "tool.lost", "tool.cancelled", "session.resumed", "compaction.started"])

// With more decisions than this, those that a rule simply allowed are hidden at first.
const MANY = 60

export class DecisionsPanel {
  constructor(run, go) {
    Object.assign(this, { run, go, onlyExceptions: true })
    this.list = new VirtualList({
      label: "Decisions", rowHeight: 62,
      row: (at) => this.row(this.positions[at]),
      choose: (at) => {
        const { log, index } = run.at(this.positions[at])
        go(log, log.seq(index))
      },
    })
    this.only = button("Hide what a rule allowed", () => this.filter(!this.onlyExceptions))
    this.empty = h("p", { class: "none" })
    this.element = h("div", { class: "panel whole" }, h("div", { class: "choice" }, this.only), this.empty, this.list.element)
  }

  /** Reads the decisions that have been added when the panel is shown next. */
  update() {
    this.opened = undefined
  }

  /** Reads the verdicts of all rulings. */
  async open() {
    this.opened ??= (async () => {
      const all = []
      for (let position = 0; position < this.run.length; position++) {
        const { log, index } = this.run.at(position)
        if (!DECISIONS.has(log.type(index))) continue
        const isAllowed = log.type(index) === "permission.ruled" && (await this.run.event(log, index)).event.data.action === "allow"
        all.push({ position, isAllowed })
      }
      this.all = all
      this.filter(all.length > MANY && all.some((one) => !one.isAllowed))
    })()
    await this.opened
  }

  filter(onlyExceptions) {
    this.onlyExceptions = onlyExceptions
    this.only.setAttribute("aria-pressed", String(onlyExceptions))
    this.positions = this.all.filter((one) => !onlyExceptions || !one.isAllowed).map((one) => one.position)
    this.list.setCount(this.positions.length)
    this.empty.textContent = this.positions.length === 0 ? "No decision." : ""
  }

  row(position) {
    const { log, index } = this.run.at(position)
    const box = h("div", { class: "decision" })
    this.run.event(log, index).then(async ({ event, about }) => {
      const call = await this.call(log, index)
      const who = event.data.by ? `by ${event.data.by}` : ""
      box.append(
        h("div", {}, h("span", { class: "seq" }, String(event.seq)), h("span", { class: `verdict ${verdict(event)}` }, verdict(event)),
          h("span", { class: "line" }, visible(call ?? about.line ?? ""))),
        h("div", { class: "faint" }, visible([event.type, who, call && about.line, about.reason].filter(Boolean).join(" · "))),
        h("div", { class: "faint" }, about.rule_source ? h("code", {}, visible(about.rule_source)) : visible(event.data.feedback ?? event.data.error ?? "")))
    })
    return box
  }

  /** The line of the call that an event is about. */
  async call(log, index) {
    for (let at = index, of; (of = log.of(at)) !== undefined && log.has(of);) {
      at = log.index(of)
      if (log.type(at) === "tool.called" || log.type(at) === "tool.batched") return (await this.run.event(log, at)).about.line
    }
    return undefined
  }
}

function verdict({ type, data }) {
  if (type === "permission.ruled") return data.action
  if (type === "permission.asked") return "asked"
  if (type === "permission.answered") return data.reply
  if (type === "turn.ended") return data.reason
  return { "turn.interrupted": "interrupted", "model.retry_scheduled": "retry", "tool.lost": "lost", "tool.cancelled": "cancelled", "session.resumed": "resumed", "compaction.started": "compaction" }[type]
}
