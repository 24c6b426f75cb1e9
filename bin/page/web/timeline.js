// The timeline: a map of the whole run, and the lanes of the part in view. Both are drawn on a canvas,
// so that their cost does not grow with the number of events outside of the view.
import { button, colours, h } from "./dom.js"
import { laneRows } from "./lanes.js"
import { TimeScale } from "./time_scale.js"
import { duration } from "./text.js"

const ROW = 22
const BAR = 15
const AXIS = 20
const MAP = 40
// Room at the right, for the playhead at the last event.
const EDGE = 8
// The narrowest view: a thousandth of a thousandth of the run.
const NARROWEST = 1e-6
// The least distance between two words of the axis, in pixels.
const TICK = 100
// Pixels that a pointer moves before a click becomes a drag.
const DRAG = 4
const COLOURS = ["turn", "request", "call", "wait", "retry", "compaction", "hook", "files", "failed", "denied", "lost", "ink", "faint", "line", "accent", "surface", "on-bar"]
const ENDS = { open: "still open", ok: "ok", failed: "failed", denied: "denied", cancelled: "cancelled", lost: "lost", partial: "incomplete" }

export class Timeline {
  /** `choose(log, seq)` is called with the event of a bar that was clicked. */
  constructor(run, choose) {
    Object.assign(this, { run, choose, view: [0, 1], folded: new Set(), byEvents: false })
    this.build()
    this.update()
    new ResizeObserver(() => this.draw()).observe(this.element)
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour())
  }

  build() {
    this.map = h("canvas", { class: "map", "aria-hidden": "true" })
    this.canvas = h("canvas", { class: "bars" })
    this.names = h("div", { class: "lane-names" })
    this.space = h("div", { class: "lane-space" }, this.names, this.canvas)
    this.lanes = h("div", {
      class: "lanes", tabindex: "0", role: "slider", "aria-label": "Place in the run",
      "aria-valuemin": "1",
    }, this.space)
    this.tip = h("div", { class: "tip", role: "presentation", hidden: true })
    this.element = h("section", { class: "timeline", "aria-label": "Timeline" }, this.map, this.lanes, this.tip)
    this.lanes.addEventListener("scroll", () => this.draw())
    this.lanes.addEventListener("wheel", (event) => this.wheel(event), { passive: false })
    this.listen(this.canvas, this.dragView, (x, y) => this.click(x, y))
    this.listen(this.map, this.dragMap, (x) => this.dragMap(0, x))
    this.canvas.addEventListener("pointermove", (event) => this.hover(event))
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true })
    this.tools = h("div", { class: "tools", role: "group", "aria-label": "Timeline" },
      button("−", () => this.zoom(2), { "aria-label": "Zoom out", title: "Zoom out (-)" }),
      button("+", () => this.zoom(0.5), { "aria-label": "Zoom in", title: "Zoom in (+)" }),
      button("Fit", () => this.show(0, 1), { title: "Show the whole run (0)" }),
      this.axisButton = button("Axis: time", () => this.switchAxis(), { title: "Time, or every event alike (t)", "aria-pressed": "false" }))
  }

  /** Shows what has been added to the run. */
  update() {
    this.times = Float64Array.from(this.run.order, (place) => place[2])
    this.scale = new TimeScale(this.times)
    this.lanes.setAttribute("aria-valuemax", this.run.length)
    this.fold()
  }

  /** Folds or unfolds the lanes of a log. */
  fold(log) {
    if (log) this.folded.has(log) ? this.folded.delete(log) : this.folded.add(log)
    this.rows = laneRows(this.run, this.folded)
    this.place()
    this.space.style.height = `${this.rows.length * ROW + AXIS}px`
    this.draw()
  }

  switchAxis() {
    this.byEvents = !this.byEvents
    this.axisButton.textContent = this.byEvents ? "Axis: events" : "Axis: time"
    this.axisButton.setAttribute("aria-pressed", String(this.byEvents))
    this.place()
    this.show(0, 1)
  }

  /** Computes the place of each bar. */
  place() {
    this.mapBars = this.lanesKey = undefined
    for (const { log, spans, breaks } of this.rows) {
      for (const bar of [...spans, ...breaks]) {
        const end = bar.span.to ?? log.seq(log.length - 1)
        bar.left = this.placeOf(log, bar.span.from)
        bar.right = this.placeOf(log, end)
        bar.begun = bar.span.ran ? this.placeOf(log, bar.span.ran) : bar.left
      }
    }
  }

  placeOf(log, seq) {
    if (!this.byEvents) return this.scale.place(log.time(seq))
    const position = log.positions[Math.min(Math.max(log.index(seq), 0), log.length - 1)]
    return Math.max(position, 0) / Math.max(this.run.length - 1, 1)
  }

  /** Moves the playhead to an event, and shows its surroundings. */
  seek(position, description) {
    const { log, index } = this.run.at(position)
    this.head = this.placeOf(log, log.seq(index))
    this.here = log
    const [left, right] = this.view
    if (this.head < left || this.head > right) {
      const width = right - left
      const start = Math.min(Math.max(this.head - width / 2, 0), 1 - width)
      this.view = [start, start + width]
    }
    this.lanes.setAttribute("aria-valuenow", position + 1)
    this.lanes.setAttribute("aria-valuetext", description)
    this.draw()
  }

  show(left, right) {
    const width = Math.min(Math.max(right - left, NARROWEST), 1)
    const start = Math.min(Math.max(left, 0), 1 - width)
    this.view = [start, start + width]
    this.draw()
  }

  /** Shows `factor` as much, around the playhead or the place `at`. */
  zoom(factor, at) {
    const [left, right] = this.view
    const centre = at ?? (this.head >= left && this.head <= right ? this.head : (left + right) / 2)
    this.show(centre - (centre - left) * factor, centre + (right - centre) * factor)
  }

  pan(part) {
    const [left, right] = this.view
    this.show(left + (right - left) * part, right + (right - left) * part)
  }

  wheel(event) {
    const overflows = this.lanes.scrollHeight > this.lanes.clientHeight + 1
    const zooms = event.ctrlKey || event.metaKey
    if (!zooms && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      this.pan((event.deltaX || event.deltaY) / this.width)
    } else if (zooms || !overflows) {
      this.zoom(Math.exp(event.deltaY / 300), this.placeAt(event.offsetX))
    } else return
    event.preventDefault()
  }

  /** Tells a drag from a click. */
  listen(canvas, drag, click) {
    let start
    canvas.addEventListener("pointerdown", (event) => {
      start = { x: event.offsetX, y: event.offsetY, moved: false }
      canvas.setPointerCapture(event.pointerId)
    })
    canvas.addEventListener("pointermove", (event) => {
      if (!start || (!start.moved && Math.abs(event.offsetX - start.x) < DRAG)) return
      start.moved = true
      drag.call(this, start.x, event.offsetX)
      start.x = event.offsetX
    })
    canvas.addEventListener("pointerup", (event) => {
      if (start && !start.moved) click(event.offsetX, event.offsetY)
      start = undefined
    })
    canvas.addEventListener("pointercancel", () => { start = undefined })
  }

  dragView(from, to) {
    this.pan((from - to) / this.width)
  }

  dragMap(_, to) {
    const [left, right] = this.view
    const centre = to / (this.map.clientWidth - EDGE)
    this.show(centre - (right - left) / 2, centre + (right - left) / 2)
  }

  click(x, y) {
    const bar = this.barAt(x, y)
    if (bar) this.choose(bar.log, bar.span.from)
    else this.choose(...this.nearest(x, y))
  }

  /** The last event before a place, of the log in whose row it is. */
  nearest(x, y) {
    const place = this.placeAt(x)
    const log = this.rowAt(y)?.log ?? this.run.logs[0]
    let [low, high] = [0, log.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.placeOf(log, log.seq(middle)) <= place) low = middle + 1
      else high = middle
    }
    return [log, log.seq(Math.max(low - 1, 0))]
  }

  rowAt(y) {
    return this.rows[Math.floor((y - AXIS + this.lanes.scrollTop) / ROW)]
  }

  barAt(x, y) {
    const row = this.rowAt(y)
    const reach = 3 / this.width * (this.view[1] - this.view[0])
    const place = this.placeAt(x)
    const isAt = (bar) => bar.left - reach <= place && place <= bar.right + reach
    const bar = row?.spans.findLast(isAt) ?? row?.breaks.find(isAt)
    return bar && { log: row.log, ...bar }
  }

  hover(event) {
    const bar = this.barAt(event.offsetX, event.offsetY)
    this.canvas.classList.toggle("on-bar", Boolean(bar))
    this.tip.hidden = !bar
    if (!bar) return
    const { span } = bar
    const ran = span.ran ? `, began after ${duration(bar.ran - bar.from)}` : ""
    this.tip.replaceChildren(
      h("b", {}, `${span.kind} ${span.from}`), ` ${span.label}`,
      h("div", {}, `${ENDS[span.end]}, ${duration(bar.to - bar.from)}${ran}`))
    const box = this.element.getBoundingClientRect()
    this.tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 8)}px`
    this.tip.style.top = `${event.clientY - box.top + 16}px`
  }

  placeAt(x) {
    const [left, right] = this.view
    return left + (x / this.width) * (right - left)
  }

  x(place) {
    const [left, right] = this.view
    return ((place - left) / (right - left)) * this.width
  }

  /** Draws in the colours of the theme, after it has changed. */
  recolour() {
    this.colours = undefined
    this.mapBars = this.lanesKey = undefined
    this.draw()
  }

  /** Draws with the next frame, once for any number of changes. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined
      this.colours ??= colours(COLOURS)
      this.font ??= getComputedStyle(this.element).fontFamily
      this.drawMap()
      this.drawLanes()
    })
  }

  /** The lanes, which are kept as a picture while only the playhead moves: a long run has many bars. */
  drawLanes() {
    const { clientHeight: height, scrollTop } = this.lanes
    const wide = this.canvas.clientWidth
    const pen = this.pen(this.canvas, height)
    this.width = wide - EDGE
    const key = [wide, height, scrollTop, ...this.view].join()
    if (this.lanesKey === key) pen.drawImage(this.lanesPicture, 0, 0, wide, height)
    else {
      this.drawAllLanes(pen, height, scrollTop)
      this.lanesPicture = h("canvas", { width: this.canvas.width, height: this.canvas.height })
      if (this.lanesPicture.width > 0 && this.lanesPicture.height > 0) {
        this.lanesPicture.getContext("2d").drawImage(this.canvas, 0, 0)
        this.lanesKey = key
      }
    }
    if (this.head !== undefined) this.drawHead(pen, this.x(this.head), height)
  }

  drawAllLanes(pen, height, scrollTop) {
    const first = Math.max(0, Math.floor(scrollTop / ROW))
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + height) / ROW) + 1)
    const tops = (at) => AXIS + at * ROW - scrollTop
    this.nameRows(first, last, tops)
    const ticks = this.ticks()
    this.drawGrid(pen, ticks, height)
    pen.save()
    pen.beginPath()
    pen.rect(0, AXIS, this.width + EDGE, height)
    pen.clip()
    for (let at = first; at < last; at++) {
      if (this.rows[at].head && at > 0) this.rule(pen, tops(at), this.colours.line)
      for (const gap of this.rows[at].breaks) this.drawBreak(pen, gap, tops(at), this.rows[at - 1]?.head)
      this.drawRow(pen, this.rows[at], tops(at) + (ROW - BAR) / 2)
    }
    pen.restore()
    this.drawAxis(pen, ticks, height)
  }

  drawRow(pen, row, top) {
    // bars narrower than this are drawn as one with those beside them
    const least = 1.5
    let drawnTo = -Infinity
    for (const [at, bar] of row.spans.entries()) {
      const [left, right] = [this.x(bar.left), this.x(bar.right)]
      if (right < 0 || left > this.width) continue
      const width = Math.max(right - left, least)
      if (left + width <= drawnTo && width <= least * 2 && bar.span.end === "ok") continue
      const next = row.spans[at + 1]
      this.drawBar(pen, bar, left, width, top, next ? this.x(next.left) : this.width)
      drawnTo = left + width
    }
  }

  /** `free` is where the next bar of the row begins. */
  drawBar(pen, { span, begun }, left, width, top, free) {
    const { colours } = this
    const colour = this.colourOf(span)
    if (span.kind === "mark") return this.drawMark(pen, left, top, colour)
    if (span.kind === "wait") {
      this.hatch(pen, left, top, width, BAR, colours[span.end === "denied" ? "denied" : "wait"])
      return
    }
    const waited = Math.min(Math.max(this.x(begun) - left, 0), width)
    pen.fillStyle = colour
    if (waited > 1) {
      pen.globalAlpha = 0.3
      pen.fillRect(left, top, waited, BAR)
      pen.globalAlpha = 1
    }
    if (width > 6) {
      pen.beginPath()
      pen.roundRect(left + waited, top, Math.max(width - waited, 1.5), BAR, 3)
      pen.fill()
    } else pen.fillRect(left + waited, top, Math.max(width - waited, 1.5), BAR)
    if (span.end === "denied" || span.end === "lost") this.hatch(pen, left, top, width, BAR, colours.surface, 0.35)
    this.drawLabel(pen, span.label || span.kind, { from: Math.max(left + waited, 0), to: Math.min(left + width, this.width), free }, top + BAR / 2)
  }

  /** In the bar if there is room, or beside it. */
  drawLabel(pen, text, { from, to, free }, y) {
    const isInside = to - from > 40
    const [x, room] = isInside ? [from + 6, to - from - 10] : [to + 5, Math.min(free, this.width) - to - 10]
    if (room < 30) return
    pen.fillStyle = this.colours[isInside ? "on-bar" : "faint"]
    pen.font = `11px ${this.font}`
    pen.textBaseline = "middle"
    pen.fillText(shortened(pen, text, room), x, y + 0.5)
  }

  /** The time from a crash to the resume, through all rows of the log. */
  drawBreak(pen, { left, right, span }, top, isNamed) {
    const [from, to] = [this.x(left), this.x(right)]
    this.hatch(pen, from, top, Math.max(to - from, 3), ROW, this.colours.failed, 0.45)
    if (!isNamed || to - from < 50) return
    pen.font = `11px ${this.font}`
    pen.textBaseline = "middle"
    const text = shortened(pen, `crash, ${span.label}`, to - from - 12)
    const wide = pen.measureText(text).width + 8
    pen.fillStyle = this.colours.surface
    pen.fillRect((from + to - wide) / 2, top + 3, wide, ROW - 6)
    pen.fillStyle = this.colours.failed
    pen.fillText(text, (from + to - wide) / 2 + 4, top + ROW / 2)
  }

  colourOf({ kind, end }) {
    const { colours } = this
    if (end === "failed") return colours.failed
    if (end === "denied") return colours.denied
    if (end === "lost" || end === "cancelled") return colours.lost
    return colours[kind] ?? colours.faint
  }

  drawMark(pen, x, top, colour) {
    pen.fillStyle = colour
    pen.beginPath()
    pen.moveTo(x, top + 2)
    pen.lineTo(x + 5, top + BAR / 2)
    pen.lineTo(x, top + BAR - 2)
    pen.lineTo(x - 5, top + BAR / 2)
    pen.fill()
  }

  /** Stripes, which tell apart what has no colour of its own. */
  hatch(pen, left, top, width, height, colour, alpha = 1) {
    pen.save()
    pen.beginPath()
    pen.rect(left, top, width, height)
    pen.clip()
    pen.globalAlpha = alpha * 0.25
    pen.fillStyle = colour
    pen.fillRect(left, top, width, height)
    pen.globalAlpha = alpha
    pen.strokeStyle = colour
    pen.lineWidth = 1.5
    pen.beginPath()
    const [from, to] = [Math.max(left, 0), Math.min(left + width, this.width)]
    for (let x = from - height - ((from - height) % 6); x < to; x += 6) {
      pen.moveTo(x, top + height)
      pen.lineTo(x + height, top)
    }
    pen.stroke()
    pen.restore()
  }

  drawGrid(pen, ticks, height) {
    pen.fillStyle = this.colours.line
    pen.globalAlpha = 0.6
    for (const { x } of ticks) pen.fillRect(Math.round(x), AXIS, 1, height)
    pen.globalAlpha = 1
  }

  drawAxis(pen, ticks, height) {
    const { colours, width } = this
    pen.clearRect(0, 0, width, AXIS)
    this.rule(pen, AXIS - 0.5, colours.line)
    pen.font = `11px ${this.font}`
    pen.textBaseline = "middle"
    pen.fillStyle = colours.faint
    for (const { x, text } of ticks) {
      if (x + 4 + pen.measureText(text).width <= width) pen.fillText(text, x + 4, AXIS / 2)
    }
    if (!this.byEvents) this.drawPauses(pen, height)
  }

  /** Where the axis has its words: at round times, or at equal distances if the time between them differs. */
  ticks() {
    const [left, right] = this.view
    const start = this.times[0] ?? 0
    const [from, to] = [this.scale.time(left) - start, this.scale.time(right) - start]
    const isEven = !this.byEvents && !this.scale.pauses.some((pause) => pause.to - start > from && pause.from - start < to)
    if (isEven) {
      const step = roundStep(((to - from) / this.width) * TICK)
      const first = Math.ceil(from / step)
      const ticks = Array.from({ length: Math.max(Math.floor(to / step) - first + 1, 0) }, (_, at) => (first + at) * step)
      return ticks.map((time) => ({ x: this.x(this.scale.place(start + time)), text: duration(time) }))
    }
    const places = Array.from({ length: Math.ceil(this.width / TICK) }, (_, at) => at * TICK)
    return places.map((x) => {
      const place = this.placeAt(x)
      return { x, text: this.byEvents ? `event ${Math.round(place * (this.run.length - 1)) + 1}` : duration(this.scale.time(place) - start) }
    })
  }

  /** Pauses take up less room than their time, so they are marked. */
  drawPauses(pen, height) {
    for (const { from, to } of this.scale.pauses) {
      const [left, right] = [this.x(this.scale.place(from)), this.x(this.scale.place(to))]
      if (right < 0 || left > this.width || right - left < 24) continue
      pen.strokeStyle = this.colours.faint
      pen.setLineDash([2, 4])
      pen.beginPath()
      pen.moveTo((left + right) / 2, AXIS)
      pen.lineTo((left + right) / 2, height)
      pen.stroke()
      pen.setLineDash([])
      const text = duration(to - from)
      const wide = pen.measureText(text).width + 10
      pen.fillStyle = this.colours.surface
      pen.fillRect((left + right - wide) / 2, 2, wide, AXIS - 4)
      pen.fillStyle = this.colours.ink
      pen.fillText(text, (left + right - wide) / 2 + 5, AXIS / 2)
    }
  }

  drawHead(pen, x, height) {
    pen.fillStyle = this.colours.accent
    pen.fillRect(Math.round(x) - 1, 0, 2, height)
    pen.beginPath()
    pen.moveTo(x - 6, 0)
    pen.lineTo(x + 6, 0)
    pen.lineTo(x, 8)
    pen.fill()
  }

  rule(pen, y, colour) {
    pen.fillStyle = colour
    pen.fillRect(0, Math.round(y), this.width, 1)
  }

  /** The names of rows in view, with the buttons that fold subagents. */
  nameRows(first, last, tops) {
    const names = []
    for (let at = first; at < last; at++) {
      const { log, name, head } = this.rows[at]
      if (!head && !name) continue
      const top = `${tops(at) + this.lanes.scrollTop}px`
      const indent = `${8 + log.depth * 12}px`
      if (!head) {
        names.push(h("div", { class: "lane-name", style: { top, paddingLeft: indent } }, name))
        continue
      }
      const isFolded = this.folded.has(log)
      names.push(h("button", {
        type: "button", class: "lane-name head", style: { top, paddingLeft: indent }, title: log.name,
        "aria-expanded": String(!isFolded), onclick: () => this.fold(log),
      }, `${isFolded ? "▸" : "▾"} ${log.tag}`))
    }
    const key = names.map((name) => name.style.top + name.textContent).join()
    if (key !== this.namesKey) this.names.replaceChildren(...names)
    this.namesKey = key
  }

  drawMap() {
    const pen = this.pen(this.map, MAP)
    const width = this.map.clientWidth - EDGE
    const { colours } = this
    if (this.mapBars?.width !== this.map.width) this.mapBars = this.drawMapBars(width)
    if (this.mapBars.width > 0) pen.drawImage(this.mapBars, 0, 0, this.map.clientWidth, MAP)
    const [left, right] = this.view
    pen.fillStyle = colours.surface
    pen.globalAlpha = 0.72
    pen.fillRect(0, 0, left * width, MAP)
    pen.fillRect(right * width, 0, width, MAP)
    pen.globalAlpha = 1
    pen.strokeStyle = colours.accent
    if (right - left < 1) pen.strokeRect(left * width + 0.5, 0.5, Math.max((right - left) * width - 1, 3), MAP - 1)
    if (this.head !== undefined) {
      pen.fillStyle = colours.accent
      pen.fillRect(this.head * width - 1, 0, 2, MAP)
    }
  }

  /** All bars of the run in a picture, which is kept: a long run has more of them than are drawn in a frame. */
  drawMapBars(width) {
    const { colours } = this
    const picture = h("canvas", { width: this.map.width, height: this.map.height })
    const ratio = devicePixelRatio || 1
    const pen = picture.getContext("2d")
    pen.scale(ratio, ratio)
    const rowsOf = { turn: 0, request: 1, retry: 1, compaction: 1, call: 2, wait: 2 }
    const lines = [6, 14, 24]
    const heights = [4, 6, 8]
    const taken = lines.map(() => -1)
    for (const { spans } of this.rows) {
      for (const { span, left, right } of spans) {
        const row = rowsOf[span.kind]
        if (row === undefined) continue
        const from = Math.round(left * width)
        const wide = Math.max(Math.round((right - left) * width), 1)
        if (span.end === "ok" && from === taken[row] && wide === 1) continue
        pen.fillStyle = this.colourOf(span)
        pen.fillRect(from, lines[row], wide, heights[row])
        taken[row] = from
      }
    }
    // the findings, below all
    pen.fillStyle = colours.failed
    for (const log of this.run.logs) {
      for (const { seq } of log.findings) pen.fillRect(Math.round(this.placeOf(log, seq) * width) - 1, MAP - 6, 3, 5)
    }
    return picture
  }

  /** A cleared canvas of this height, sharp on every display. */
  pen(canvas, height) {
    const ratio = devicePixelRatio || 1
    const width = canvas.clientWidth
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)]
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide
      canvas.height = high
      canvas.style.height = `${height}px`
    }
    const pen = canvas.getContext("2d")
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.clearRect(0, 0, width, height)
    return pen
  }
}

/** The text, or as much of it as has room. */
function shortened(pen, text, room) {
  const wide = pen.measureText(text).width
  return wide <= room ? text : `${text.slice(0, Math.max(Math.floor((text.length * room) / wide) - 2, 1))}…`
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 144e5, 432e5, 864e5]

/** A round number of milliseconds, at least `least`. */
function roundStep(least) {
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / 864e5) * 864e5
}
