// Puts the page of a run together: the place in the run, the keys, and which panel is shown.
import { button, byId, h } from "./dom.js"
import { count, dollars, duration, tokens, visible } from "./text.js"
import { Timeline } from "./timeline.js"
import { EventList } from "./event_list.js"
import { EventPanel } from "./event_panel.js"
import { RequestPanel } from "./request_panel.js"
import { StatePanel } from "./state_panel.js"
import { DecisionsPanel } from "./decisions_panel.js"
import { ContextPanel } from "./context_panel.js"
import { ComparePanel } from "./compare_panel.js"
import { SummaryPanel } from "./summary_panel.js"

const SPEEDS = [1, 2, 5, 10, 20, 50]
// No pause between two events takes longer than this when a run is played.
const LONGEST_PAUSE = 1500
const TABS = ["Events", "Summary", "Event", "State", "Request", "Decisions", "Context", "Compare"]
// Panels that show the whole run, and not one event.
const WHOLE = ["Summary", "Decisions", "Compare"]
const KEYS = [
  ["↓ ↑ or → ←", "next and previous event"], ["PgDn PgUp", "twenty events on or back"], ["Home End", "first and last event"],
  ["Space", "play, pause"], ["[ ]", "slower, faster"], ["/", "search"], ["Enter, n, N", "next and previous match"], ["Esc", "end the search"],
  ["+ − 0", "zoom in, out, whole run"], ["Shift ← →", "move the view"], ["t", "by time or by event"], ["f", "fold subagents"],
  ["b", "show bookkeeping events"], ["!", "next event that was out of the ordinary"], ["1 to 7", "summary, event, state, request, decisions, context, and comparison if there is one"], ["d", "light or dark"], ["?", "this help"],
]

export class Page {
  /** `operations` are what a person can do in a run that goes on while it is shown. */
  constructor(run, operations) {
    Object.assign(this, { run, operations, position: 0, tab: "Event", speed: 5, follows: Boolean(operations) })
    const go = (log, seq) => this.go(log, seq)
    // what is chosen in a list or on the timeline is shown
    const pick = (log, seq) => {
      this.leaveSummary()
      this.go(log, seq)
    }
    this.timeline = new Timeline(run, pick)
    this.list = new EventList(run, (position) => {
      this.leaveSummary()
      this.show(position)
    })
    const look = (log, seq, tab) => {
      this.go(log, seq)
      this.choose(tab)
    }
    this.panels = {
      Summary: new SummaryPanel(run, look), Event: new EventPanel(run, go, look, operations), State: new StatePanel(run, go, () => this.fill()), Request: new RequestPanel(run, go),
      Decisions: new DecisionsPanel(run, go), Context: new ContextPanel(run, go),
      ...(run.other && { Compare: new ComparePanel(run, go) }),
    }
    byId("timeline").append(this.timeline.element)
    byId("events").append(this.list.element)
    this.tools()
    this.head()
    this.makeTabs()
    this.help()
    document.addEventListener("keydown", (event) => this.key(event))
    addEventListener("hashchange", (event) => {
      if (this.fromAddress(new URL(event.newURL).hash)) this.leaveSummary()
    })
    this.choose(run.other ? "Compare" : "Summary")
    if (this.fromAddress(location.hash)) this.leaveSummary()
    else this.show(operations ? run.length - 1 : this.firstOfInterest())
  }

  /** What is known about the whole run. */
  head() {
    const root = this.run.logs[0]
    const all = (of) => this.run.logs.reduce((total, log) => total + of(log), 0)
    const cost = all((log) => log.cost)
    document.title = `${root.name} · Leftfold`
    byId("title").replaceChildren(...visible(root.name))
    const times = this.timeline.times
    const how = root.running ? (this.operations ? "running" : "unfinished") : (root.ended ?? "no turn")
    const children = this.run.logs.filter((log) => log.above).length
    const findings = all((log) => log.findings.length)
    const facts = [
      h("span", { class: `outcome ${how}` }, how.replace("_", " ")),
      findings > 0 && button(count(findings, "finding"), () => this.nextFinding(), { class: "link", title: "Show the next event that was out of the ordinary (!)" }), root.model, duration((times.at(-1) ?? 0) - (times[0] ?? 0)), count(this.run.length, "event"),
      children > 0 && count(children, "subagent"),
      `${tokens(all((log) => log.usage.input + log.usage.cache_read + log.usage.cache_write))} tokens in, ${tokens(all((log) => log.usage.output))} out`,
      cost > 0 && dollars(cost), h("code", {}, root.session),
    ]
    byId("facts").replaceChildren(...facts.filter(Boolean).map((fact) => (typeof fact === "string" ? h("span", {}, visible(fact)) : fact)))
  }

  tools() {
    this.playButton = button("▶", () => this.play(), { "aria-label": "Play", title: "Play (Space)" })
    this.speedChoice = h("select", { "aria-label": "Speed of playing", onchange: () => { this.speed = Number(this.speedChoice.value) } },
      SPEEDS.map((speed) => h("option", { value: speed, selected: speed === this.speed }, `${speed}×`)))
    this.searchField = h("input", { type: "search", placeholder: "Search  /", "aria-label": "Search in all events", oninput: () => this.searchSoon() })
    this.found = h("span", { class: "found", role: "status" })
    this.bookkeepingButton = button("All events", () => this.switchBookkeeping(), { "aria-pressed": "false", title: "Show bookkeeping events too (b)" })
    if (this.operations) {
      this.followButton = button("Live", () => this.show(this.run.length - 1), { "aria-pressed": "true", class: "live", title: "Follow new events (End)" })
      byId("tools").append(button("Sessions", () => location.assign("/"), { title: "All sessions" }), this.followButton)
    }
    byId("tools").append(this.searchField, this.found, this.playButton, this.speedChoice, this.timeline.tools, this.bookkeepingButton,
      button("◐", () => this.switchTheme(), { "aria-label": "Light or dark", title: "Light or dark (d)" }),
      button("?", () => byId("help").showModal(), { "aria-label": "Help", title: "Help (?)" }))
  }

  makeTabs() {
    const tabs = TABS.filter((name) => name === "Events" || this.panels[name]).map((name) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, class: name === "Events" ? "narrow-only" : "", "aria-controls": "panel", onclick: () => this.choose(name),
    }, name))
    byId("tabs").append(...tabs)
    byId("tabs").addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (!by) return
      event.stopPropagation()
      event.preventDefault()
      const shown = tabs.filter((tab) => tab.offsetParent !== null)
      const next = shown[(shown.indexOf(document.activeElement) + by + shown.length) % shown.length]
      next.focus()
      next.click()
    })
  }

  help() {
    byId("help").append(
      h("h2", { id: "help-title" }, "Keys"),
      h("dl", { class: "keys" }, KEYS.map(([keys, what]) => [h("dt", {}, keys.split(" ").map((key) => (/^(or|to|and|in|out)$/.test(key) ? ` ${key} ` : [h("kbd", {}, key.replace(",", "")), " "]))), h("dd", {}, what)])),
      h("p", { class: "faint" }, "On the timeline: drag to move, Ctrl and the wheel to zoom, click a bar to see its event. A striped bar waits for a person; a striped band is a crash."),
      h("form", { method: "dialog" }, h("button", {}, "Close")))
  }

  /** Shows a tab. */
  choose(name) {
    this.tab = name
    for (const tab of byId("tabs").children) {
      const isChosen = tab.textContent === name
      tab.setAttribute("aria-selected", String(isChosen))
      tab.tabIndex = isChosen ? 0 : -1
    }
    document.body.dataset.tab = name
    byId("panel").setAttribute("aria-labelledby", `tab-${name}`)
    const panel = this.panels[name]
    if (!panel) return
    byId("panel").replaceChildren(panel.element)
    this.fill()
  }

  /** Fills the panel for the current event. */
  async fill() {
    const { tab, position, run } = this
    const panel = this.panels[tab]
    if (!panel) return
    if (run.length === 0) return undefined
    const place = run.at(position)
    if (WHOLE.includes(tab)) {
      await panel.open()
      if (this.tab === tab) document.body.dataset.shown = tab
      return
    }
    if (tab === "Context") return panel.show(place)
    const content = await panel.show(place)
    // another event or tab was chosen in the meantime
    if (this.tab !== tab || this.position !== position) return
    panel.element.replaceChildren(...content.flat(Infinity).filter(Boolean))
    // of a conversation, the last words are those that belong to the event
    byId("panel").scrollTop = panel.endsWithLatest ? byId("panel").scrollHeight : 0
    this.markMatches(true)
    document.body.dataset.shown = `${placeName(place.log, place.index)} ${tab}`
  }

  go(log, seq) {
    const position = log.positions[log.index(seq)]
    if (position >= 0) this.show(position)
  }

  /** Goes to a place in the run. */
  show(position) {
    if (this.run.length === 0) return undefined
    this.position = Math.min(Math.max(position, 0), this.run.length - 1)
    this.setFollows(this.position === this.run.length - 1)
    const { log, index } = this.run.at(this.position)
    const description = `event ${log.seq(index)}, ${log.type(index)}`
    this.timeline.seek(this.position, description)
    this.list.seek(this.position)
    byId("spoken").textContent = this.timer ? "" : description
    // a page that follows the run shows its end when it is loaded again; browsers refuse to change the address with every key
    clearTimeout(this.naming)
    this.naming = setTimeout(() => history.replaceState(null, "", this.follows ? location.pathname + location.search : `#${placeName(log, index)}`), 300)
    return this.fill()
  }

  /** The first thing that was out of the ordinary in the last turn, or else its prompt. */
  firstOfInterest() {
    const [root] = this.run.logs
    const turn = root.spans.findLast((span) => span.kind === "turn")
    if (!turn) return this.run.length - 1
    const found = root.findings.find(({ seq }) => seq >= turn.from)
    return root.positions[root.index(found?.seq ?? turn.from)]
  }

  setFollows(isLast) {
    this.follows = Boolean(this.operations) && isLast
    this.followButton?.setAttribute("aria-pressed", String(this.follows))
  }

  /** Shows what has been added to the run. */
  update() {
    this.timeline.update()
    this.list.update()
    this.head()
    this.panels.Summary.update()
    this.panels.Compare?.update()
    this.panels.Decisions.update()
    this.panels.Context.update()
    if (this.follows || this.run.length === 1) this.show(this.run.length - 1)
    else this.fill()
  }

  setConnected(isConnected) {
    this.followButton.textContent = isConnected ? "Live" : "Not connected"
    this.followButton.classList.toggle("bad", !isConnected)
  }

  /** Goes to the event that the address names. */
  fromAddress(hash) {
    const [, session, seq] = /^#(?:(\w+)\.)?(\d+)$/.exec(hash) ?? []
    const log = session ? this.run.logs.find((log) => log.session === session) : this.run.logs[0]
    if (!log?.has(Number(seq))) return false
    this.go(log, Number(seq))
    return true
  }

  /** The summary is of the whole run: an event that is chosen beside it is shown in its own panel. */
  leaveSummary() {
    if (this.tab === "Summary") this.choose("Event")
  }

  nextFinding() {
    const all = this.run.logs.flatMap((log) => log.findings.map(({ seq }) => log.positions[log.index(seq)])).filter((position) => position >= 0).sort((a, b) => a - b)
    if (all.length === 0) return
    this.choose("Event")
    this.show(all.find((position) => position > this.position) ?? all[0])
  }

  step(by) {
    this.leaveSummary()
    this.show(this.list.step(by))
  }

  play() {
    const isPlaying = Boolean(this.timer)
    clearTimeout(this.timer)
    this.timer = undefined
    this.playButton.textContent = isPlaying ? "▶" : "⏸"
    this.playButton.setAttribute("aria-label", isPlaying ? "Play" : "Pause")
    if (!isPlaying) this.playOn(this.position >= this.run.length - 1 ? 0 : this.position)
  }

  async playOn(position) {
    // the last frame is shown before the next is due, however fast it is played
    this.timer = setTimeout(() => {}, 0)
    await this.show(position)
    const next = this.list.step(1)
    if (!this.timer) return
    if (next === this.position) return this.play()
    const { times } = this.timeline
    const pause = Math.min(Math.max(times[next] - times[this.position], 40), LONGEST_PAUSE * this.speed) / this.speed
    this.timer = setTimeout(() => this.playOn(next), pause)
  }

  changeSpeed(by) {
    const at = SPEEDS.indexOf(this.speed) + by
    this.speed = SPEEDS[Math.min(Math.max(at, 0), SPEEDS.length - 1)]
    this.speedChoice.value = String(this.speed)
  }

  searchSoon() {
    clearTimeout(this.searching)
    this.searching = setTimeout(() => this.search(this.searchField.value.trim()), 150)
  }

  async search(words) {
    this.words = words
    if (words === "") {
      this.found.textContent = ""
      this.markMatches(false)
      return this.list.filter()
    }
    const found = []
    const hits = new Map()
    for await (const some of this.run.search(words)) {
      if (this.words !== words) return
      for (const { position, hit } of some) {
        found.push(position)
        hits.set(position, hit)
      }
      this.found.textContent = `${found.length} …`
      // keys and scrolling go on during a long search
      await new Promise((resolve) => setTimeout(resolve))
    }
    found.sort((a, b) => a - b)
    this.found.textContent = count(found.length, "match").replace("matchs", "matches")
    this.list.filter(found, hits)
    this.markMatches(true)
  }

  /** Marks the words of the search in the panel, and shows the first of them. */
  markMatches(isScrolled) {
    if (!globalThis.Highlight) return
    CSS.highlights.delete("match")
    if (!this.words) return
    const wanted = this.words.toLowerCase()
    const ranges = []
    const walker = document.createTreeWalker(byId("panel"), NodeFilter.SHOW_TEXT)
    for (let node; (node = walker.nextNode()) && ranges.length < 500;) {
      const text = node.data.toLowerCase()
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
        const range = new Range()
        range.setStart(node, at)
        range.setEnd(node, at + wanted.length)
        ranges.push(range)
      }
    }
    if (ranges.length === 0) return
    CSS.highlights.set("match", new Highlight(...ranges))
    if (isScrolled) ranges[0].startContainer.parentElement.scrollIntoView({ block: "nearest" })
  }

  endSearch() {
    this.searchField.value = ""
    this.search("")
    this.list.element.focus()
  }

  switchBookkeeping() {
    this.list.switchBookkeeping()
    this.bookkeepingButton.setAttribute("aria-pressed", String(this.list.showsBookkeeping))
  }

  switchTheme() {
    const root = document.documentElement
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches
    root.dataset.theme = isDark ? "light" : "dark"
    this.timeline.recolour()
    this.panels.Context.draw()
  }

  key(event) {
    const { key, target } = event
    if (byId("help").open || event.ctrlKey || event.metaKey || event.altKey) return
    if (target === this.searchField) {
      if (key === "Escape") this.endSearch()
      else if (key === "Enter") this.step(event.shiftKey ? -1 : 1)
      else return
      event.preventDefault()
      return
    }
    if (target.closest("select, input, textarea, dialog")) return
    // these keys do something else on a button or in a text
    if ((key === " " || key === "Enter") && target.closest("button, summary")) return
    if (/^(Arrow|Page|Home|End)/.test(key) && target.closest("pre, .diff, .scroll")) return
    const action = this.action(event)
    if (!action) return
    event.preventDefault()
    action()
  }

  action({ key, shiftKey }) {
    if (shiftKey && key === "ArrowRight") return () => this.timeline.pan(0.25)
    if (shiftKey && key === "ArrowLeft") return () => this.timeline.pan(-0.25)
    return {
      ArrowDown: () => this.step(1), ArrowRight: () => this.step(1), n: () => this.step(1),
      ArrowUp: () => this.step(-1), ArrowLeft: () => this.step(-1), N: () => this.step(-1),
      PageDown: () => this.step(20), PageUp: () => this.step(-20),
      Home: () => this.show(0), End: () => this.show(this.run.length - 1),
      "!": () => this.nextFinding(), " ": () => this.play(), "[": () => this.changeSpeed(-1), "]": () => this.changeSpeed(1),
      "/": () => this.searchField.focus(), Escape: () => this.endSearch(), "?": () => byId("help").showModal(),
      "+": () => this.timeline.zoom(0.5), "=": () => this.timeline.zoom(0.5), "-": () => this.timeline.zoom(2), 0: () => this.timeline.show(0, 1),
      t: () => this.timeline.switchAxis(), f: () => this.foldSubagents(), b: () => this.switchBookkeeping(), d: () => this.switchTheme(),
      1: () => this.choose("Summary"), 2: () => this.choose("Event"), 3: () => this.choose("State"), 4: () => this.choose("Request"), 5: () => this.choose("Decisions"), 6: () => this.choose("Context"), 7: () => this.panels.Compare && this.choose("Compare"),
    }[key]
  }

  foldSubagents() {
    const children = this.run.logs.filter((log) => log.above)
    const all = children.every((log) => this.timeline.folded.has(log))
    for (const log of children) if (this.timeline.folded.has(log) === all) this.timeline.fold(log)
  }
}

/** An event in an address: `12`, or `SESSION.12` of a subagent. */
function placeName(log, index) {
  return log.number === 0 ? `${log.seq(index)}` : `${log.session}.${log.seq(index)}`
}

export function failed(error) {
  byId("problem").hidden = false
  byId("problem").textContent = `The page cannot show this: ${error.message ?? error}`
}

addEventListener("unhandledrejection", (event) => failed(event.reason))
