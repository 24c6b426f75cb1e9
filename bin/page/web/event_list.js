// The list of all events, or of those that a search has found.
import { h } from "./dom.js"
import { visible } from "./text.js"
import { VirtualList } from "./virtual_list.js"

/** The concern of an event type, which has a colour. */
export function concern(type) {
  return type.split(".")[0]
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

  /** Shows these positions, or all. */
  filter(found) {
    this.found = found
    this.positions = found ?? this.shownPositions()
    this.list.setCount(this.positions.length)
    this.seek(this.position ?? 0)
  }

  /** Shows what has been added to the run, also during a search. */
  update() {
    if (this.found) return
    const [before, last] = [this.positions.length, this.positions.at(-1)]
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
    let [low, high] = [0, this.positions.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.positions[middle] <= position) low = middle + 1
      else high = middle
    }
    this.list.select(low - 1)
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
    const fill = ({ about }) => line.append(...visible(about.line ?? ""))
    if (read) fill(read)
    else this.run.event(log, index).then(fill)
    return [
      h("span", { class: "seq" }, String(log.seq(index))),
      h("span", { class: `dot ${concern(type)}` }),
      log.number > 0 && h("span", { class: "tag" }, log.tag),
      h("span", { class: "type" }, type),
      line,
    ]
  }
}
