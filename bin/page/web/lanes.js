// Puts the bars of all logs into rows: what ran at the same time stands in rows of its own.

// The rows of a log, from top to bottom.
const ROWS = [
  { name: "turns", kinds: ["turn", "mark"] },
  { name: "model", kinds: ["request", "retry", "compaction"] },
  { name: "calls", kinds: ["call"] },
  { name: "files, hooks", kinds: ["files", "hook"] },
]

/** The rows that are shown; the logs in `folded` have only one. Each row is
 *  `{ log, name, spans, breaks, head }`; in its breaks nothing could run. */
export function laneRows(run, folded) {
  const rows = []
  const add = (log) => {
    const isFolded = folded.has(log)
    const shown = isFolded ? [ROWS[0]] : ROWS
    const breaks = log.spans.filter((span) => span.kind === "crash").map((span) => bar(log, span))
    let head = true
    for (const { name, kinds } of shown) {
      const spans = log.spans.filter((span) => kinds.includes(span.kind) && !isIdle(log, span))
      const waits = name === "calls" ? log.spans.filter((span) => span.kind === "wait") : []
      const packed = pack(log, spans, waits)
      if (packed.length === 0 && head) packed.push([])
      packed.forEach((row, at) => {
        rows.push({ log, name: at === 0 ? name : "", spans: row, breaks, head })
        head = false
      })
    }
    if (!isFolded) log.children.forEach(add)
  }
  run.logs.filter((log) => !log.above).forEach(add)
  return rows
}

/** Whether nothing came of it: a snapshot without a change, a hook that said nothing. */
function isIdle(log, { kind, to, end }) {
  return (kind === "files" || kind === "hook") && end === "ok" && log.bookkeeping[log.index(to)] === "1"
}

/** Spans in as few rows as possible, so that none overlaps another. Questions join their call. */
function pack(log, spans, waits) {
  const ends = []
  const rows = []
  const rowOfCall = new Map()
  for (const span of spans) {
    // by seqs and not by times: several events may share a millisecond
    let at = ends.findIndex((end) => end <= span.from)
    if (at < 0) at = ends.length
    ends[at] = span.to ?? Infinity
    rows[at] ??= []
    rows[at].push(bar(log, span))
    rowOfCall.set(span.from, rows[at])
  }
  for (const wait of waits) (rowOfCall.get(wait.call) ?? rows[0])?.push(bar(log, wait))
  return rows
}

function bar(log, span) {
  const end = span.to ?? log.seq(log.length - 1)
  return { span, from: log.time(span.from), ran: span.ran && log.time(span.ran), to: log.time(end) }
}
