// A run: its logs, and everything about an event or a request, read when it is needed.
import { patched } from "./patch.js"

// Decoded chunks that are kept. Each has at most 256 events and the states after them.
const CHUNKS_KEPT = 48

export class Run {
  static async open(source) {
    const run = new Run(source)
    run.add(await source.block("run"))
    return run
  }

  constructor(source) {
    Object.assign(this, { source, logs: [], order: [], starts: {}, blocks: new Map(), chunks: new Map() })
    this.decoded = { values: new Map(), messages: new Map() }
    // of each log, the events that are in the order; of each session, the last of them
    this.merged = []
    this.known = new Map()
  }

  /** Adds what is new: at first the whole run, later what has happened since. */
  add({ types, texts, values, messages, logs, other }) {
    this.other = other ?? undefined
    for (const [kind, starts] of Object.entries({ texts, values, messages })) {
      // the last block has grown
      this.blocks.delete(`${kind}-${(this.starts[kind]?.length ?? 0) - 1}`)
      this.starts[kind] = starts
    }
    for (const data of logs) {
      const log = (this.logs[data.number] ??= new RunLog(data.number))
      if (data.from !== log.length) throw new Error(`the page has ${log.length} events of a log, and gets those after ${data.from}`)
      if (data.from > 0) this.chunks.delete(log.chunkName(data.from - 1))
      log.add(data, types)
      // more follows from earlier events
      for (let index = data.from; index < log.length; index++) {
        const of = log.of(index)
        if (of !== undefined && log.has(of)) this.chunks.delete(log.chunkName(log.index(of)))
      }
    }
    nest(this.logs)
    this.merge()
  }

  get length() {
    return this.order.length
  }

  /** The log and the index in it of the event at this place of the run. */
  at(position) {
    const place = this.order.at(position)
    return { log: this.logs[place[0]], index: place[1] }
  }

  /** Everything about an event: `event` as exported, and `about` with its line, reasons and links. */
  async event(log, index) {
    const chunk = await this.chunk(log, index)
    const at = index - chunk.first
    return { event: chunk.events[at], about: chunk.about[at] }
  }

  /** The lines of an event, if its chunk is read already. */
  eventIfRead(log, index) {
    const chunk = this.chunks.get(log.chunkName(index))?.ready
    return chunk && { event: chunk.events[index - chunk.first], about: chunk.about[index - chunk.first] }
  }

  /** The state after an event, as `leftfold replay --at SEQ --state` prints it. Its messages are read with `messages`. */
  async state(log, index) {
    const chunk = await this.chunk(log, index)
    chunk.before ??= this.keyFrame(chunk.key_frame)
    const before = await chunk.before
    const last = index - chunk.first
    while (chunk.states.length <= last) {
      const at = chunk.states.length
      const { seq, at: time } = chunk.events[at]
      try {
        chunk.states.push(patched({ ...(chunk.states[at - 1] ?? before), seq, at: time }, chunk.patches[at]))
      } catch (unread) {
        // a message that changes is read first
        if (!(unread instanceof Unread)) throw unread
        await this.messages([unread])
      }
    }
    return chunk.states[last]
  }

  async keyFrame({ small, large, messages }) {
    const names = Object.keys(large)
    const parts = await this.values(names.map((name) => [large[name], 1]))
    const state = { ...(await this.withTexts(small)) }
    names.forEach((name, at) => { state[name] = parts[at] })
    state.messages = numbers(messages).map((number) => new Unread(number))
    return state
  }

  /** Messages of a state. A long conversation is read only where it is shown. */
  async messages(list) {
    const unread = list.filter((message) => message instanceof Unread && message.value === undefined)
    const found = await this.values(unread.map((message) => [message.number, 1]))
    unread.forEach((message, at) => { message.value = found[at] })
    return list.map((message) => (message instanceof Unread ? message.value : message))
  }

  chunk(log, index) {
    const name = log.chunkName(index)
    let entry = this.chunks.get(name)
    if (entry) this.chunks.delete(name)
    else {
      entry = { promise: this.readChunk(log, name).then((chunk) => (entry.ready = chunk)) }
      if (this.chunks.size >= CHUNKS_KEPT) this.chunks.delete(this.chunks.keys().next().value)
    }
    // the one used last is dropped last
    this.chunks.set(name, entry)
    return entry.promise
  }

  async readChunk(log, name) {
    const { first, key_frame, ...all } = await this.source.block(name)
    // a server may have more events by now, of which this page knows nothing yet
    const known = Object.entries(all).map(([part, items]) => [part, items.slice(0, log.length - first)])
    const { events, patches, about, then } = await this.withTexts(Object.fromEntries(known))
    then.forEach((seqs, at) => { about[at].then = seqs })
    return { first, key_frame, states: [], events: events.map((event, at) => ({ ...log.columnsOf(first + at), ...event })), patches, about }
  }

  /** Values of the pool, by runs of first and count. Each is decoded once: states share their messages. */
  async values(runs, kind = "values") {
    const wanted = numbers(runs)
    const known = this.decoded[kind]
    const missing = [...new Set(wanted)].filter((number) => !known.has(number))
    const found = await this.withTexts(await this.pooled(kind, missing))
    missing.forEach((number, at) => known.set(number, found[at]))
    return wanted.map((number) => known.get(number))
  }

  /** The value with its texts in place of their numbers. */
  async withTexts(value) {
    const used = new Set()
    collectTexts(value, used)
    const found = await this.pooled("texts", [...used])
    return withTexts(value, new Map([...used].map((number, at) => [number, found[at]])))
  }

  /** Items of the pool, by their numbers. */
  async pooled(kind, wanted) {
    const starts = this.starts[kind]
    const places = wanted.map((number) => lastAtMost(starts, number))
    const items = new Map()
    await Promise.all([...new Set(places)].map(async (block) => items.set(block, await this.block(`${kind}-${block}`))))
    return wanted.map((number, at) => items.get(places[at])[number - starts[places[at]]])
  }

  block(name) {
    if (!this.blocks.has(name)) this.blocks.set(name, this.source.block(name))
    return this.blocks.get(name)
  }

  /** Events whose text or line contains the words, chunk by chunk: positions in the run, with the text around the match. The system
   *  prompt and the tools of a request are found at the first request that has them. */
  async *search(words) {
    const wanted = words.toLowerCase()
    for (const log of this.logs) {
      let head
      for (const first of log.chunks) {
        const chunk = await this.chunk(log, first)
        const heads = new Map()
        for (const [at, { request }] of chunk.about.entries()) {
          if (request && request.head !== head) heads.set(at, await this.values([[(head = request.head), 1]]))
        }
        const found = chunk.events.flatMap((event, at) => {
          const position = log.positions[first + at]
          if (position < 0) return []
          const texts = [event.type, chunk.about[at].call ?? "", chunk.about[at].line ?? "", ...textsOf(event.data), ...textsOf(heads.get(at))]
          const text = texts.find((text) => text.toLowerCase().includes(wanted))
          return text === undefined ? [] : [{ position, hit: around(text, wanted) }]
        })
        yield found
      }
    }
  }

  /** Puts new events into their order by time; those of one log keep their order, and shared ones count once. */
  merge() {
    const places = []
    for (const log of this.logs) {
      const from = this.merged[log.number] ?? 0
      let index = 0
      for (const [session, count] of log.columns.sessions) {
        const before = this.known.get(session) ?? 0
        const end = index + count
        if (end > from) {
          for (index = Math.max(index, from); index < end; index++) if (log.seq(index) > before) places.push([log.number, index, 0])
          this.known.set(session, Math.max(before, log.seq(end - 1)))
        }
        index = end
      }
      this.merged[log.number] = log.length
    }
    for (const place of places) {
      const log = this.logs[place[0]]
      // a clock that was set back must not reorder the events of a log
      place[2] = log.latest = Math.max(log.latest, log.times[place[1]])
    }
    places.sort((a, b) => a[2] - b[2])
    let first = this.order.length
    const isLate = places.length > 0 && first > 0 && places[0][2] < this.order[first - 1][2]
    this.order = this.order.concat(places)
    if (isLate) {
      this.order.sort((a, b) => a[2] - b[2])
      first = 0
    }
    for (let position = first; position < this.order.length; position++) {
      const [log, index] = this.order[position]
      this.logs[log].positions[index] = position
    }
  }
}

/** A message of a state that is still to be read. Patches that change it throw it. */
class Unread {
  constructor(number) {
    this.number = number
  }

  /** The message as the patches know it. */
  read() {
    if (this.value === undefined) throw this
    return this.value
  }
}

/** One log: the columns of its events, and the bars of its timeline. */
class RunLog {
  constructor(number) {
    Object.assign(this, { number, children: [], depth: 0, length: 0, latest: 0, times: [], typeNumbers: [], back: [], bookkeeping: "", positions: [], spans: [], context: [], edits: [], findings: [] })
  }

  /** Adds events, and replaces what has changed. */
  add({ columns, spans, context, edits, findings, ...data }, types) {
    Object.assign(this, data)
    this.columns = { v: columns.v, sessions: columns.sessions }
    this.typeNames = types
    let time = this.times.at(-1) ?? 0
    for (const since of columns.at) this.times.push((time += since))
    for (const type of columns.type) this.typeNumbers.push(type)
    for (const of of columns.of) this.back.push(of)
    this.bookkeeping += columns.bookkeeping
    this.length = this.times.length
    while (this.positions.length < this.length) this.positions.push(-1)
    for (const [number, span] of spans) this.spans[number] = span
    this.context = this.context.concat(context)
    this.findings = this.findings.concat(findings)
    for (const edit of edits) {
      const known = this.edits.findIndex((one) => one.seq === edit.seq)
      if (known < 0) this.edits.push(edit)
      else this.edits[known] = edit
    }
  }

  /** Whether the session was started by `other`, or by one below it. */
  isBelow(other) {
    return this.above !== undefined && (this.above === other || this.above.isBelow(other))
  }

  /** What was out of the ordinary at an event, if anything was. */
  findingsAt(index) {
    return this.findings.filter((finding) => finding.seq === this.seq(index)).map((finding) => finding.what)
  }

  get name() {
    return this.title ?? this.spans.find((span) => span.kind === "turn")?.label ?? this.agent
  }

  type(index) {
    return this.typeNames[this.typeNumbers[index]]
  }

  seq(index) {
    return this.first_seq + index
  }

  index(seq) {
    return seq - this.first_seq
  }

  has(seq) {
    return seq >= this.first_seq && seq < this.first_seq + this.length
  }

  time(seq) {
    return this.times[Math.min(Math.max(this.index(seq), 0), this.length - 1)]
  }

  /** The seq that an event is about, if there is one. */
  of(index) {
    return this.back[index] > 0 ? this.seq(index) - this.back[index] : undefined
  }

  /** The members of an event that are in the columns. */
  columnsOf(index) {
    const at = new Date(this.times[index]).toISOString()
    return { v: this.columns.v, session: this.sessionOf(index), seq: this.seq(index), at, type: this.type(index) }
  }

  /** The session of an event: shared events of a fork keep that of its parent. */
  sessionOf(index) {
    let first = 0
    for (const [session, count] of this.columns.sessions) {
      if (index < first + count) return session
      first += count
    }
    return this.session
  }

  chunkName(index) {
    return `chunk-${this.number}-${lastAtMost(this.chunks, index)}`
  }

  /** The request that an event belongs to: itself, one that it is about, or the last one before it. */
  requestOf(index) {
    for (let at = index; at !== undefined && at >= 0; at = this.of(at) === undefined ? undefined : this.index(this.of(at))) {
      if (this.type(at) === "model.requested") return at
    }
    for (let at = index; at >= 0; at--) if (this.type(at) === "model.requested") return at
    return undefined
  }
}

/** Links each log with those of its subagents, and names it by its agent. */
function nest(logs) {
  for (const log of logs) {
    log.children = []
    log.above = undefined
  }
  const bySession = new Map(logs.map((log) => [log.session, log]))
  for (const log of logs) {
    for (const span of log.spans) {
      const child = span.session && bySession.get(span.session)
      if (child && child !== logs[0] && !child.above) {
        child.above = log
        log.children.push(child)
      }
    }
  }
  const walk = (log, depth) => {
    log.depth = depth
    log.children.forEach((child) => walk(child, depth + 1))
  }
  logs.filter((log) => !log.above).forEach((log) => walk(log, 0))
  const agents = logs.slice(1).map((log) => log.agent)
  logs.forEach((log, at) => {
    const alike = agents.filter((agent) => agent === log.agent).length
    const number = agents.slice(0, at).filter((agent) => agent === log.agent).length
    log.tag = at === 0 ? "session" : !log.above ? "other" : alike > 1 ? `${log.agent} ${number}` : log.agent
  })
}

/** The index of the last item that is at most `wanted`, of items in order. */
export function lastAtMost(items, wanted) {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (items[middle] <= wanted) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** The numbers of runs of first and count. */
function numbers(runs) {
  return runs.flatMap(([first, count]) => Array.from({ length: count }, (_, at) => first + at))
}

/** All texts and numbers in a value. */
function textsOf(value) {
  if (typeof value === "string") return [value]
  if (value === null || value === undefined) return []
  return typeof value === "object" ? Object.entries(value).flatMap(([key, item]) => [key, ...textsOf(item)]) : [String(value)]
}

/** The match with the words around it. */
function around(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted)
  const [from, to] = [Math.max(0, at - 40), at + wanted.length + 120]
  return `${from > 0 ? "…" : ""}${text.slice(from, to)}${to < text.length ? "…" : ""}`.replace(/\s*\n\s*/g, " ⏎ ")
}

function collectTexts(value, numbers) {
  if (typeof value === "string") {
    if (value[0] === "$" && value[1] !== "$") numbers.add(Number(value.slice(1)))
  } else if (Array.isArray(value)) {
    for (const item of value) collectTexts(item, numbers)
  } else if (value !== null && typeof value === "object") {
    for (const key in value) collectTexts(value[key], numbers)
  }
}

function withTexts(value, texts) {
  if (typeof value === "string") {
    if (value[0] !== "$") return value
    return value[1] === "$" ? value.slice(1) : texts.get(Number(value.slice(1)))
  }
  if (Array.isArray(value)) return value.map((item) => withTexts(item, texts))
  if (value === null || typeof value !== "object") return value
  // a member named `__proto__` stays a member
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withTexts(item, texts)]))
}
