// A run: its logs, and everything about an event or a request, read when it is needed.
import { patched } from "./patch.js"

// Decoded chunks that are kept. Each has at most 256 events and the states after them.
const CHUNKS_KEPT = 48

export class Run {
  static async open(source) {
    return new Run(source, await source.block("run"))
  }

  constructor(source, { types, texts, values, logs }) {
    Object.assign(this, { source, types, textStarts: texts, valueStarts: values })
    this.blocks = new Map()
    this.decodedValues = new Map()
    this.chunks = new Map()
    this.logs = logs.map((log, at) => new RunLog(log, at, types))
    nest(this.logs)
    this.order = merge(this.logs)
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

  /** The state after an event, as `leftfold replay --at SEQ --state` prints it. */
  async state(log, index) {
    const chunk = await this.chunk(log, index)
    chunk.before ??= this.keyFrame(chunk.key_frame)
    const before = await chunk.before
    const last = index - chunk.first
    for (let at = chunk.states.length; at <= last; at++) {
      const { seq, at: time } = chunk.events[at]
      chunk.states.push(patched({ ...(chunk.states[at - 1] ?? before), seq, at: time }, chunk.patches[at]))
    }
    return chunk.states[last]
  }

  async keyFrame({ small, large, messages }) {
    const names = Object.keys(large)
    const parts = await this.values([...names.map((name) => [large[name], 1]), ...messages])
    const state = { ...(await this.decoded(small)) }
    names.forEach((name, at) => { state[name] = parts[at] })
    state.messages = parts.slice(names.length)
    return state
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
    const { first, key_frame, ...encoded } = await this.source.block(name)
    const { events, patches, about } = await this.decoded(encoded)
    return { first, key_frame, states: [], events: events.map((event, at) => ({ ...log.columnsOf(first + at), ...event })), patches, about }
  }

  /** Values of the pool, by runs of first and count. Each is decoded once: states share their messages. */
  async values(runs) {
    const numbers = runs.flatMap(([first, count]) => Array.from({ length: count }, (_, at) => first + at))
    const missing = numbers.filter((number) => !this.decodedValues.has(number))
    const found = await this.decoded(await this.pooled("values", this.valueStarts, missing))
    missing.forEach((number, at) => this.decodedValues.set(number, found[at]))
    return numbers.map((number) => this.decodedValues.get(number))
  }

  /** The value with its texts in place of their numbers. */
  async decoded(value) {
    const numbers = new Set()
    collectTexts(value, numbers)
    const found = await this.pooled("texts", this.textStarts, [...numbers])
    return withTexts(value, new Map([...numbers].map((number, at) => [number, found[at]])))
  }

  /** Items of the pool, by their numbers. */
  async pooled(kind, starts, numbers) {
    const places = numbers.map((number) => lastAtMost(starts, number))
    const items = new Map()
    await Promise.all([...new Set(places)].map(async (block) => items.set(block, await this.block(`${kind}-${block}`))))
    return numbers.map((number, at) => items.get(places[at])[number - starts[places[at]]])
  }

  block(name) {
    if (!this.blocks.has(name)) this.blocks.set(name, this.source.block(name))
    return this.blocks.get(name)
  }

  /** Events whose text or line contains the words, chunk by chunk: positions in the run. */
  async *search(words) {
    const wanted = words.toLowerCase()
    for (const log of this.logs) {
      for (const first of log.chunks) {
        const chunk = await this.chunk(log, first)
        const found = chunk.events.flatMap((event, at) => {
          const position = log.positions[first + at]
          const text = `${event.type} ${chunk.about[at].line ?? ""} ${JSON.stringify(event.data)}`
          return position >= 0 && text.toLowerCase().includes(wanted) ? [position] : []
        })
        yield found
      }
    }
  }
}

/** One log: the columns of its events, and the bars of its timeline. */
class RunLog {
  constructor(data, number, types) {
    Object.assign(this, data)
    this.number = number
    this.children = []
    this.depth = 0
    const { at, type, of, bookkeeping } = data.columns
    this.length = at.length
    this.times = new Float64Array(at.length)
    let time = 0
    for (let index = 0; index < at.length; index++) this.times[index] = time += at[index]
    this.typeNumbers = type
    this.typeNames = types
    this.back = of
    this.bookkeeping = bookkeeping
    this.positions = new Int32Array(at.length).fill(-1)
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
    log.tag = at === 0 ? "session" : alike > 1 ? `${log.agent} ${number}` : log.agent
  })
}

/** All events by time; those of one log keep their order, and shared ones count once. */
function merge(logs) {
  const known = new Map()
  const places = []
  for (const log of logs) {
    let index = 0
    for (const [session, count] of log.columns.sessions) {
      const before = known.get(session) ?? 0
      for (const end = index + count; index < end; index++) if (log.seq(index) > before) places.push([log.number, index, log.times[index]])
      known.set(session, Math.max(before, log.seq(index - 1)))
    }
  }
  // a clock that was set back must not reorder the events of a log
  const latest = logs.map(() => 0)
  for (const place of places) place[2] = latest[place[0]] = Math.max(latest[place[0]], place[2])
  places.sort((a, b) => a[2] - b[2])
  places.forEach(([log, index], position) => { logs[log].positions[index] = position })
  return places
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
