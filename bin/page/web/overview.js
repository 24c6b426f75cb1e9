// All sessions with filters, and what they have cost, which tools are slow, and which rules deny.
import { button, byId, h } from "./dom.js"
import { read } from "./server_source.js"
import { count, dollars, duration, tokens, visible } from "./text.js"
import { VirtualList } from "./virtual_list.js"

const DAYS_SHOWN = 30
const TOOLS_SHOWN = 12
const RULES_SHOWN = 12
// How long until the list is read again, in milliseconds.
const AGAIN = 5000
const PERIODS = [["any time", 0], ["last day", 1], ["last 7 days", 7], ["last 30 days", 30]]
const COSTS = [["any cost", 0], ["over $0.01", 0.01], ["over $0.10", 0.1], ["over $1", 1], ["over $10", 10]]

export class Overview {
  constructor(element) {
    this.element = element
    this.chosen = { words: "", project: "", state: "", model: "", days: 0, cost: 0 }
    this.marked = []
  }

  async open() {
    document.body.classList.add("is-overview")
    document.title = "Sessions · Leftfold"
    byId("title").textContent = "Sessions"
    this.build()
    await this.refresh()
  }

  build() {
    const filter = (name, label) => h("select", { "aria-label": label, onchange: (event) => this.filter(name, event.target.value) })
    this.filters = { project: filter("project", "Project"), state: filter("state", "State"), model: filter("model", "Model"), days: filter("days", "Date"), cost: filter("cost", "Cost") }
    const fixed = (select, options) => select.append(...options.map(([name, value]) => h("option", { value }, name)))
    fixed(this.filters.days, PERIODS)
    fixed(this.filters.cost, COSTS)
    this.search = h("input", { type: "search", placeholder: "Search  /", "aria-label": "Search in titles", oninput: () => this.filter("words", this.search.value) })
    this.compare = button("Compare", () => location.assign(`/?session=${this.marked[0]}&compare=${this.marked[1]}`), { disabled: true, title: "Mark two sessions to compare them" })
    byId("tools").append(this.search, ...Object.values(this.filters), this.compare)
    this.list = new VirtualList({ label: "Sessions", rowHeight: 52, row: (at) => this.row(this.rows[at]), choose: (at) => this.choose(at) })
    this.list.element.addEventListener("keydown", (event) => this.key(event))
    this.totals = h("div", { class: "totals" })
    this.element.replaceChildren(this.list.element, this.totals)
    this.element.hidden = false
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select")) return
      event.preventDefault()
      this.search.focus()
    })
  }

  async refresh() {
    const data = await read(await fetch(`${location.origin}/leftfold/overview`))
    const text = JSON.stringify(data)
    if (text !== this.text) {
      this.text = text
      Object.assign(this, { sessions: data.sessions, data: data.totals })
      this.fillFilters()
      this.apply()
      this.fillTotals(data.totals)
    }
    byId("facts").replaceChildren(h("span", {}, count(this.sessions.length, "session")), h("span", {}, data.is_all ? "" : "reading logs …"))
    setTimeout(() => this.refresh().catch((error) => { byId("facts").textContent = `the server does not answer: ${error.message}` }), data.is_all ? AGAIN : 50)
  }

  fillFilters() {
    const fill = (name, all, values) => {
      const select = this.filters[name]
      const options = [["", all], ...[...new Set(values)].sort().map((value) => [value, value])]
      select.replaceChildren(...options.map(([value, text]) => h("option", { value, selected: value === this.chosen[name] }, text)))
    }
    fill("project", "all projects", this.sessions.map((one) => one.project))
    fill("state", "all states", this.sessions.map((one) => one.state))
    fill("model", "all models", this.sessions.flatMap((one) => one.models))
  }

  filter(name, value) {
    this.chosen[name] = typeof this.chosen[name] === "number" ? Number(value) : value
    this.apply()
  }

  apply() {
    const { words, project, state, model, days, cost } = this.chosen
    const since = days > 0 ? Date.now() - days * 86_400_000 : 0
    this.rows = this.sessions.filter((one) => one.title.toLowerCase().includes(words.toLowerCase()) && (!project || one.project === project)
      && (!state || one.state === state) && (!model || one.models.includes(model)) && one.updated >= since && one.cost >= cost)
    this.list.setCount(this.rows.length)
    this.list.select(Math.min(Math.max(this.list.chosen, 0), this.rows.length - 1))
  }

  row(one) {
    const at = new Date(one.updated).toISOString().slice(0, 16).replace("T", " ")
    const isMarked = this.marked.includes(one.session)
    return [
      h("input", { type: "checkbox", tabindex: "-1", checked: isMarked, "aria-label": "Mark to compare", onclick: (event) => { event.stopPropagation(); this.mark(one.session) } }),
      h("div", { class: "session-row" },
        h("div", { class: "session-title" }, h("span", { class: `outcome ${one.state}` }, one.state.replace("_", " ")), h("b", {}, one.title === "" ? "no title" : visible(one.title))),
        h("div", { class: "facts", title: one.project }, [at, one.project.split("/").at(-1), one.models.join(", "), one.agent, count(one.turns, "turn"), one.cost > 0 && dollars(one.cost), one.fork_of && "fork"].filter(Boolean).map((fact) => h("span", {}, visible(fact))))),
    ]
  }

  choose(at) {
    location.assign(`/?session=${this.rows[at].session}`)
  }

  /** Marks a session for a comparison; of three the first is no longer marked. */
  mark(session) {
    this.marked = this.marked.includes(session) ? this.marked.filter((one) => one !== session) : [...this.marked, session].slice(-2)
    this.compare.disabled = this.marked.length !== 2
    this.list.refresh()
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key]
    if (by !== undefined) this.list.select(Math.min(Math.max(this.list.chosen + by, 0), this.rows.length - 1))
    else if (event.key === "Enter" && this.rows[this.list.chosen]) this.choose(this.list.chosen)
    else if (event.key === "c" && this.rows[this.list.chosen]) this.mark(this.rows[this.list.chosen].session)
    else return
    event.preventDefault()
  }

  fillTotals({ days, models, tools, denied, total, sessions, turns }) {
    const recent = Object.entries(days).sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, DAYS_SHOWN)
    const taken = ({ usage }) => usage.input + usage.cache_read + usage.cache_write + usage.output + usage.reasoning
    const hasCost = recent.some(([, spent]) => spent.cost > 0)
    const byCost = Object.entries(models).sort(([, a], [, b]) => b.cost - a.cost || taken(b) - taken(a))
    const slow = Object.entries(tools).map(([name, calls]) => ({ name, ...calls, mean: calls.ms / Math.max(calls.calls, 1) })).sort((a, b) => b.mean - a.mean).slice(0, TOOLS_SHOWN)
    const rules = Object.entries(denied).sort(([, a], [, b]) => b - a).slice(0, RULES_SHOWN)
    this.totals.replaceChildren(...[
      h("dl", { class: "figures" }, [["Sessions", sessions.toLocaleString("en")], ["Turns", turns.toLocaleString("en")], ["Requests", total.requests.toLocaleString("en")], ["Tokens", tokens(taken(total))], ["Cost", total.cost > 0 ? dollars(total.cost) : "unknown"]]
        .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      hasCost && bars("Cost by day", recent.map(([day, spent]) => ({ name: day, value: spent.cost, text: dollars(spent.cost) })), "request"),
      bars("Tokens by day", recent.map(([day, spent]) => ({ name: day, value: taken(spent), text: tokens(taken(spent)) })), "call"),
      bars("Models", byCost.map(([name, spent]) => ({ name, value: hasCost ? spent.cost : taken(spent), text: `${tokens(taken(spent))} tokens${spent.cost > 0 ? `, ${dollars(spent.cost)}` : ""}` })), "hook"),
      bars("Slowest tools, on average", slow.map((tool) => ({ name: tool.name, value: tool.mean, text: `${duration(tool.mean)}, longest ${duration(tool.longest_ms)}, ${count(tool.calls, "call")}` })), "wait"),
      rules.length === 0 ? h("section", {}, h("h3", {}, "Rules that denied most"), h("p", { class: "none" }, "No call was denied.")) : bars("Rules that denied most", rules.map(([name, value]) => ({ name, value, text: count(value, "time") })), "denied"),
    ].filter(Boolean))
  }
}

/** A list with a bar for each value. */
function bars(title, items, colour) {
  const most = Math.max(...items.map((item) => item.value), 1e-9)
  return h("section", {}, h("h3", {}, title), items.length === 0 ? h("p", { class: "none" }, "none") : h("ul", { class: "bars-list" }, items.map(({ name, value, text }) => h("li", {},
    h("span", { class: "bar-name" }, visible(name)), h("span", { class: "bar-space", "aria-hidden": "true" }, h("span", { class: `bar-of ${colour}`, style: { width: `${(value / most) * 100}%` } })), h("span", { class: "bar-text" }, text)))))
}
