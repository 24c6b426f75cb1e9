// Two sessions side by side, with the first difference marked. Rust has put their events beside each other.
import { button, h } from "./dom.js"
import { printedJson, visible } from "./text.js"
import { VirtualList } from "./virtual_list.js"

// How long after an event both sessions are put beside each other again, in milliseconds.
const ALIGNED_AFTER = 500

export class ComparePanel {
  constructor(run, go) {
    Object.assign(this, { run, go })
    this.sides = [run.logs[0], run.logs.find((log) => log.session === run.other)]
    this.list = new VirtualList({ label: "Both sessions", rowHeight: 26, row: (at) => this.row(this.rows[at]), choose: (at) => this.choose(this.rows[at]) })
    this.list.element.addEventListener("click", (event) => {
      const side = event.target.closest("[data-side]")
      const row = event.target.closest("[role=option]")
      const index = side && row && this.rows[Number(row.dataset.index)][Number(side.dataset.side)]
      if (index >= 0) this.go(this.sides[Number(side.dataset.side)], this.sides[Number(side.dataset.side)].seq(index))
    })
    this.head = h("div", { class: "compare-head" })
    this.element = h("div", { class: "panel whole" }, this.head, this.list.element)
  }

  /** Reads the comparison again soon: both logs are put beside each other anew, and not with each event. */
  update() {
    this.waiting ??= setTimeout(() => {
      this.waiting = undefined
      this.opened = undefined
      if (this.element.isConnected) this.open()
    }, ALIGNED_AFTER)
  }

  async open() {
    this.opened ??= (async () => {
      const { part, rows: all } = await this.run.source.block("compare")
      const [a, b] = this.sides
      // a server may have more events by now, of which this page knows nothing yet
      const rows = all.filter(([atA, atB]) => atA < a.length && atB < b.length)
      this.rows = rows
      const first = rows.findIndex(([, , isSame]) => !isSame)
      const value = (json) => h("code", {}, visible(printedJson(json ?? null).slice(0, 300)))
      this.head.replaceChildren(
        part ? h("p", {}, "They part at event ", button(String(part.seq), () => this.go(a, Math.min(part.seq, a.seq(a.length - 1))), { class: "link" }), ", ", h("b", {}, visible(part.field)), ".") : h("p", {}, "They are equal except for ids and times."),
        part ? h("dl", { class: "why" }, h("dt", {}, "left"), h("dd", {}, value(part.a)), h("dt", {}, "right"), h("dd", {}, value(part.b))) : "",
        h("div", { class: "compare-names" }, h("b", {}, visible(a.name), " ", h("code", { class: "faint" }, a.session)), h("b", {}, visible(b.name), " ", h("code", { class: "faint" }, b.session))))
      this.list.setCount(rows.length)
      if (first >= 0 && first !== this.first) this.list.select(first)
      this.first = first
    })()
    await this.opened
  }

  choose([a, b]) {
    const side = a >= 0 ? 0 : 1
    this.go(this.sides[side], this.sides[side].seq(side === 0 ? a : b))
  }

  row([a, b, isSame]) {
    const side = (number, index) => {
      const cell = h("span", { class: `compare-side ${isSame ? "" : "differs"}`, "data-side": number })
      if (index < 0) return cell
      const log = this.sides[number]
      const line = h("span", { class: "line" })
      cell.append(h("span", { class: "seq" }, String(log.seq(index))), h("span", { class: "type" }, log.type(index)), line)
      this.run.event(log, index).then(({ about }) => line.append(...visible(about.line ?? "")))
      return cell
    }
    return [side(0, a), side(1, b)]
  }
}
