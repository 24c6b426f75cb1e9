// Texts and numbers for people.
import { h } from "./dom.js"

// Characters that change how the text around them is shown, or that are not shown at all.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]/

/** Text as nodes, in which every invisible character is named: no text can reorder or hide another. */
export function visible(text) {
  if (!INVISIBLE.test(text)) return [text]
  const pieces = text.split(new RegExp(`(${INVISIBLE.source})`))
  return pieces.filter(Boolean).map((piece) => {
    if (piece.length > 1 || !INVISIBLE.test(piece)) return piece
    const code = piece.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")
    return h("span", { class: "invisible" }, `U+${code}`)
  })
}

/** JSON in which every invisible character is an escape, so that it still is the same JSON. */
export function printedJson(value) {
  const every = new RegExp(`(?!\n)${INVISIBLE.source}`, "g")
  return JSON.stringify(value, null, 2).replace(every, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

/** The line of an event for a row: quoted text as it reads, with a sign for line ends. */
export function rowText(line) {
  let text = line
  if (/^".*"$/s.test(line)) {
    try {
      text = JSON.parse(line)
    } catch {
      // it has escapes that JSON does not know
    }
  }
  return text.trim().replace(/\s*\n\s*/g, " ⏎ ")
}

export function firstLine(text) {
  return text.trimStart().split("\n", 1)[0].slice(0, 200)
}

const LONG_TEXT = 6000

/** A text as it is, in a box of its own. A long one is shown in full on request. */
export function textBlock(text, kind = "", most = LONG_TEXT) {
  const block = h("pre", { class: `text ${kind}`, dir: "auto", tabindex: "0" }, visible(text.slice(0, most)))
  if (text.length <= most) return block
  const more = h("button", { type: "button", class: "more" }, `Show all ${count(text.length, "character")}`)
  more.addEventListener("click", () => {
    block.replaceChildren(...visible(text))
    more.remove()
  })
  return h("div", {}, block, more)
}

export function duration(ms) {
  if (ms < 1) return "0 ms"
  if (ms < 1000) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 60) return `${Number(seconds.toFixed(seconds < 10 ? 2 : 1))} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

export function clock(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC")
}

export function tokens(number) {
  if (number < 1000) return `${number}`
  return number < 1e6 ? `${(number / 1000).toFixed(number < 1e4 ? 1 : 0)}k` : `${(number / 1e6).toFixed(2)}M`
}

export function bytes(number) {
  if (number < 1000) return `${number} B`
  return number < 1e6 ? `${(number / 1000).toFixed(1)} kB` : `${(number / 1e6).toFixed(1)} MB`
}

export function dollars(cost) {
  return `$${cost < 0.1 ? cost.toFixed(4) : cost.toFixed(2)}`
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`
}
