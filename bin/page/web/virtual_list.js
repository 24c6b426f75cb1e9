// A list of any length of which only the rows in view exist.
import { h } from "./dom.js"

const ROWS_AROUND = 6

export class VirtualList {
  /** `row(index)` makes the content of a row, all of which have the same height. */
  constructor({ label, rowHeight, row, choose }) {
    Object.assign(this, { rowHeight, row, choose, count: 0, chosen: -1, shown: new Map() })
    this.space = h("div", { class: "list-space", role: "presentation" })
    this.element = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": label }, this.space)
    this.element.addEventListener("scroll", () => this.draw())
    this.element.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]")
      if (row) this.choose(Number(row.dataset.index))
    })
    new ResizeObserver(() => this.draw()).observe(this.element)
    this.id = `list-${label.replace(/\W+/g, "-")}`
  }

  /** Draws the rows anew. */
  setCount(count) {
    this.count = count
    this.space.style.height = `${count * this.rowHeight}px`
    this.refresh()
  }

  refresh() {
    this.shown.forEach((row) => row.remove())
    this.shown.clear()
    this.draw()
  }

  select(index) {
    this.shown.get(this.chosen)?.setAttribute("aria-selected", "false")
    this.chosen = index
    if (index < 0) return
    const top = index * this.rowHeight
    const { scrollTop, clientHeight } = this.element
    if (top < scrollTop) this.element.scrollTop = Math.max(0, top - clientHeight / 4)
    else if (top + this.rowHeight > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight * 0.75
    this.draw()
    this.shown.get(index)?.setAttribute("aria-selected", "true")
    this.element.setAttribute("aria-activedescendant", `${this.id}-${index}`)
  }

  draw() {
    const { scrollTop, clientHeight } = this.element
    const from = Math.max(0, Math.floor(scrollTop / this.rowHeight) - ROWS_AROUND)
    const to = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + ROWS_AROUND)
    for (const [index, row] of this.shown) {
      if (index >= from && index < to) continue
      row.remove()
      this.shown.delete(index)
    }
    for (let index = from; index < to; index++) {
      if (this.shown.has(index)) continue
      const row = h("div", {
        role: "option", class: "list-row", id: `${this.id}-${index}`, "data-index": index,
        "aria-selected": String(index === this.chosen), "aria-posinset": index + 1, "aria-setsize": this.count,
        style: { top: `${index * this.rowHeight}px`, height: `${this.rowHeight}px` },
      }, this.row(index))
      this.shown.set(index, row)
      this.space.append(row)
    }
  }
}
