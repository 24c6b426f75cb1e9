// A list of any length of which only the rows in view exist.
import { h } from "./dom.js"

const ROWS_AROUND = 6

export class VirtualList {
  /** `row(index)` makes the content of a row, all of which have the same height. */
  constructor({ label, rowHeight, row, choose }) {
    // place and height are kept, as asking the browser for them makes it lay out the page each time
    Object.assign(this, { rowHeight, row, choose, count: 0, chosen: -1, shown: new Map(), top: 0, height: 0 })
    this.space = h("div", { class: "list-space", role: "presentation" })
    this.element = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": label }, this.space)
    this.element.addEventListener("scroll", () => {
      this.top = this.element.scrollTop
      this.draw()
    })
    this.element.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]")
      if (row) this.choose(Number(row.dataset.index))
    })
    new ResizeObserver(([{ contentRect }]) => {
      this.height = contentRect.height
      // it could not scroll before
      this.top = this.element.scrollTop
      if (this.chosen >= 0) this.select(this.chosen)
      else this.draw()
    }).observe(this.element)
    this.id = `list-${label.replace(/\W+/g, "-")}`
  }

  /** Draws the rows anew. */
  setCount(count) {
    this.grow(count)
    this.refresh()
  }

  /** Adds rows at the end. */
  grow(count) {
    this.count = count
    this.space.style.height = `${count * this.rowHeight}px`
    this.draw()
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
    const place = index * this.rowHeight
    if (place < this.top) this.scroll(place - this.height / 4)
    else if (place + this.rowHeight > this.top + this.height) this.scroll(place - this.height * 0.75)
    this.draw()
    this.shown.get(index)?.setAttribute("aria-selected", "true")
    this.element.setAttribute("aria-activedescendant", `${this.id}-${index}`)
  }

  scroll(top) {
    const most = Math.max(this.count * this.rowHeight - this.height, 0)
    this.top = Math.min(Math.max(top, 0), most)
    this.element.scrollTop = this.top
  }

  draw() {
    const from = Math.max(0, Math.floor(this.top / this.rowHeight) - ROWS_AROUND)
    const to = Math.min(this.count, Math.ceil((this.top + this.height) / this.rowHeight) + ROWS_AROUND)
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
