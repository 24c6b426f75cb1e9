// The list of all events, or of those that a search has found.
import { h } from "./dom.js"
import { rowText, visible } from "./text.js"
import { VirtualList } from "./virtual_list.js"

/** The concern of an event type, which has a colour. */
export function concern(type) {
  return type.split(".")[0]
}

/** An event in a row: the call that it is about, what happened, or else why. */
export function rowLine(type, { call, line, reason }) {
  const said = rowText(line ?? reason ?? "")
  return call && type !== "tool.called" ? `${call}${said === "" ? "" : ` → ${said}`}` : said
}

export class EventList {
  constructor(run, choose) {
    this.run = run
    this.showsBookkeeping = false
    this.list = new VirtualList({
      label: "Events", rowHeight: 26,
      row: (index) => this.row(this.positions[index]),
      choose: (index) => choose(this.positions[index]),
    })
    this.element = this.list.element
    this.filter()
  }

  /** Shows these positions, or all. `hits` has the text around the match of each position. */
  filter(found, hits = new Map()) {
    this.found = found
    this.hits = hits
    this.added = undefined
    this.positions = found ?? this.shownPositions()
    this.list.setCount(this.positions.length)
    this.seek(this.position ?? 0)
  }

  /** Shows what has been added to the run, also during a search. */
  update() {
    if (this.found) return
    const [before, last] = [this.positions.length, this.positions.at(-1)]
    this.added = undefined
    this.positions = this.shownPositions()
    // unless events came late, the rows that are there stay
    if (this.positions[before - 1] === last) this.list.grow(this.positions.length)
    else this.list.setCount(this.positions.length)
  }

  shownPositions() {
    const shown = (position) => {
      const { log, index } = this.run.at(position)
      return this.showsBookkeeping || log.bookkeeping[index] === "0"
    }
    return Array.from({ length: this.run.length }, (_, at) => at).filter(shown)
  }

  switchBookkeeping() {
    this.showsBookkeeping = !this.showsBookkeeping
    this.filter(this.found)
  }

  seek(position) {
    this.position = position
    let low = this.lastUpTo(position)
    // a bookkeeping event that is shown has its row, until another one is
    if (this.added !== undefined && this.added !== position) {
      this.positions.splice(this.lastUpTo(this.added), 1)
      this.added = undefined
      this.list.setCount(this.positions.length)
      low = this.lastUpTo(position)
    }
    if (!this.found && this.positions[low] !== position && position < this.run.length) {
      this.positions.splice(low + 1, 0, position)
      this.added = position
      this.list.setCount(this.positions.length)
      low += 1
    }
    this.list.select(low)
  }

  /** The index of the last shown event up to this position. */
  lastUpTo(position) {
    let [low, high] = [0, this.positions.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.positions[middle] <= position) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  /** The position of the shown event that is `by` steps away. */
  step(by) {
    const at = this.list.chosen
    const exact = this.positions[at] === this.position
    const next = at + by + (!exact && by < 0 ? 1 : 0)
    return this.positions[Math.min(Math.max(next, 0), this.positions.length - 1)]
  }

  row(position) {
    const { log, index } = this.run.at(position)
    const type = log.type(index)
    const line = h("span", { class: "line" })
    const read = this.run.eventIfRead(log, index)
    const found = log.findingsAt(index)
    const fill = ({ about }) => line.append(...visible(this.hits.get(position) ?? rowLine(type, about)))
    if (read) fill(read)
    else this.run.event(log, index).then(fill)
    return [
      log.number > 0 && h("span", { class: "tag" }, log.tag),
      h("span", { class: "seq" }, String(log.seq(index))),
      found.length > 0 && h("span", { class: "flag", title: found.join("\n"), role: "img", "aria-label": "out of the ordinary" }, "!"),
      h("span", { class: `dot ${concern(type)}` }),
      h("span", { class: "type" }, type),
      line,
    ]
  }
}
