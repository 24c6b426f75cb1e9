// What filled the model's context from request to request, with the limit and the compactions.
import { button, colours, h } from "./dom.js"
import { tokens } from "./text.js"

const PARTS = ["system", "instructions", "tools", "messages", "results"]
const CHART_COLOURS = [...PARTS.map((name) => `part-${name}`), "compaction", "failed", "accent", "faint", "line"]
const CHART_HEIGHT = 240
const LEFT = 44
const ROWS_SHOWN = 200

export class ContextPanel {
  constructor(run, go) {
    Object.assign(this, { run, go })
    this.canvas = h("canvas", { class: "chart", role: "img", "aria-label": "Tokens in the context of each request; the table below has the numbers" })
    this.canvas.addEventListener("click", (event) => {
      const point = this.pointAt(event.offsetX)
      if (point) go(this.log, point.seq)
    })
    this.legend = h("ul", { class: "legend" }, PARTS.map((name) => h("li", {}, h("span", { class: `swatch ${name}` }), name)))
    this.table = h("div", {})
    this.title = h("h2", {})
    this.element = h("div", { class: "panel" }, this.title, this.canvas, this.legend, this.table)
    new ResizeObserver(() => this.draw()).observe(this.canvas)
  }

  /** Draws the chart of the log of this event. */
  show({ log, index }) {
    this.seq = log.seq(index)
    if (this.log !== log) {
      this.log = log
      this.fillTable()
    }
    const at = this.log.context.findLast((point) => point.seq <= this.seq)
    this.title.textContent = at ? `Context at request ${at.seq}: about ${tokens(sum(at.parts))} tokens` : "Context"
    this.draw()
  }

  update() {
    if (this.log) this.fillTable()
  }

  fillTable() {
    const points = this.log.context.slice(-ROWS_SHOWN)
    const row = (point) => h("tr", {},
      h("th", { scope: "row" }, button(String(point.seq), () => this.go(this.log, point.seq), { class: "link" })),
      point.parts.map((part) => h("td", {}, tokens(part))), h("td", {}, tokens(sum(point.parts))), h("td", {}, point.size > 0 ? `${Math.round((sum(point.parts) / point.size) * 100)} %` : ""))
    this.table.replaceChildren(points.length === 0 ? h("p", { class: "none" }, "No request was made.") : h("div", { class: "scroll", tabindex: "0" }, h("table", {},
      h("thead", {}, h("tr", {}, ["request", ...PARTS, "total", "of limit"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, points.toReversed().map(row)))))
  }

  pointAt(x) {
    const points = this.log?.context ?? []
    const at = Math.floor(((x - LEFT) / (this.canvas.clientWidth - LEFT)) * points.length)
    return points[Math.min(Math.max(at, 0), points.length - 1)]
  }

  draw() {
    const points = this.log?.context ?? []
    const width = this.canvas.clientWidth
    if (width === 0) return
    const ratio = devicePixelRatio || 1
    this.canvas.width = width * ratio
    this.canvas.height = CHART_HEIGHT * ratio
    this.canvas.style.height = `${CHART_HEIGHT}px`
    const pen = this.canvas.getContext("2d")
    pen.scale(ratio, ratio)
    if (points.length === 0) return
    const found = colours(CHART_COLOURS)
    const colour = (name) => found[name]
    const limit = points.at(-1).size
    const most = Math.max(...points.map((point) => sum(point.parts)), 1)
    // the limit is part of the picture unless the run never came near it
    const top = limit > 0 && most > limit / 8 ? Math.max(limit, most) * 1.05 : most * 1.15
    const y = (value) => CHART_HEIGHT - 20 - (value / top) * (CHART_HEIGHT - 32)
    const wide = (width - LEFT) / points.length
    this.drawGrid(pen, { top, y, width, faint: colour("faint"), line: colour("line"), font: getComputedStyle(this.canvas).fontFamily })
    points.forEach((point, at) => {
      let base = 0
      point.parts.forEach((part, number) => {
        pen.fillStyle = colour(`part-${PARTS[number]}`)
        const x = LEFT + at * wide
        const gap = wide > 5 ? 1 : 0
        pen.fillRect(x, y(base + part), wide - gap, Math.max(y(base) - y(base + part), 0))
        base += part
      })
    })
    for (const [of, name, text] of [["usable", "compaction", "compacts here"], ["size", "failed", "limit"]]) {
      pen.strokeStyle = pen.fillStyle = colour(name)
      // each model has its own
      for (let first = 0, end; first < points.length; first = end) {
        const value = points[first][of]
        for (end = first + 1; end < points.length && points[end][of] === value; end++);
        if (!value || value > top) continue
        pen.setLineDash([5, 4])
        line(pen, LEFT + first * wide, y(value), LEFT + end * wide, y(value))
        pen.setLineDash([])
        // the two lines may be close to each other
        pen.fillText(`${text} ${tokens(value)}`, LEFT + first * wide + 6, y(value) + (name === "failed" ? -7 : 9))
      }
    }
    for (const span of this.log.spans.filter((span) => span.kind === "compaction" && span.to !== span.from)) {
      const at = points.findIndex((point) => point.seq > span.from)
      const x = LEFT + (at < 0 ? points.length : at) * wide
      pen.strokeStyle = colour("compaction")
      line(pen, x, 12, x, CHART_HEIGHT - 20)
    }
    const here = points.findLastIndex((point) => point.seq <= this.seq)
    if (here >= 0) {
      pen.strokeStyle = colour("accent")
      pen.lineWidth = 2
      pen.strokeRect(LEFT + here * wide, 8, Math.max(wide - 1, 2), CHART_HEIGHT - 28)
    }
  }

  drawGrid(pen, { top, y, width, faint, line: rule, font }) {
    pen.font = `11px ${font}`
    pen.textBaseline = "middle"
    const step = niceStep(top / 4)
    for (let value = 0; value <= top; value += step) {
      pen.strokeStyle = rule
      line(pen, LEFT, y(value), width, y(value))
      pen.fillStyle = faint
      pen.fillText(tokens(value), 4, y(value))
    }
  }
}

function sum(parts) {
  return parts.reduce((total, part) => total + part, 0)
}

function line(pen, fromX, fromY, toX, toY) {
  pen.beginPath()
  pen.moveTo(fromX, Math.round(fromY) + 0.5)
  pen.lineTo(toX, Math.round(toY) + 0.5)
  pen.stroke()
}

/** 1, 2 or 5 times a power of ten. */
function niceStep(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return power * [1, 2, 5, 10].find((factor) => factor * power >= value)
}
