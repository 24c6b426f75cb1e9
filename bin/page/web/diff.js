// A unified diff as coloured lines.
import { h } from "./dom.js"
import { visible } from "./text.js"

const DIFF_LINES = 2000

/** The parts of a diff for each of its files. */
export function splitDiff(text) {
  const files = []
  let left = 0
  for (const line of text.split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line)
    const inHunk = left > 0
    if (hunk) left = Number(hunk[1] ?? 1) + Number(hunk[2] ?? 1)
    else if (inHunk) left -= line[0] === " " ? 2 : line[0] === "\\" ? 0 : 1
    if (files.length === 0 || (!inHunk && line.startsWith("--- "))) files.push({ name: "", lines: [] })
    const file = files.at(-1)
    const name = inHunk ? undefined : /^(?:---|\+\+\+) (?:[ab]\/)?(.+)$/.exec(line)?.[1]
    if (name && name !== "/dev/null") file.name = name
    file.lines.push({ text: line, kind: hunk ? "hunk" : !inHunk ? "names" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "context" })
  }
  return files
}

export function diffBlock(lines) {
  const shown = lines.slice(0, DIFF_LINES).filter((line) => line.text !== "" || line.kind === "context")
  const rows = shown.map(({ kind, text }) => h("div", { class: `diff-line ${kind}` }, visible(text)))
  const more = lines.length - shown.length
  return h("div", { class: "diff", tabindex: "0" }, rows, more > DIFF_LINES && h("div", {}, `${more} more lines`))
}
