// The page of a run in Chromium, opened from files.
//
// node page.mjs CHROMIUM FOLDER PLAN
//
// PLAN is a JSON file: `[{ name, file, states: [{ place, state }], shows: [words], hides: [words], findings: [words] }]`.
// Each page is walked through with the keyboard, in every tab. Prints a line of JSON for each step,
// `{"run", "step", "error"?}`; the last line is `{"done"}`.

import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { pathToFileURL } from "node:url"

import { Browser, pause, until } from "./browser.mjs"
import { faintTexts } from "./contrast.mjs"

const [chromium, folder, plan] = process.argv.slice(2)
const PANELS = ["Summary", "Event", "State", "Request", "Decisions", "Context"]
const ALL = process.env.LEFTFOLD_PAGE === "all"
/** Events of a walk: `LEFTFOLD_PAGE=all` walks through each panel from the first event on. */
const STEPS = ALL ? 80 : 5
/** Colours are looked at in these sessions, which together have all kinds of elements; with `LEFTFOLD_PAGE=all` in all. */
const COLOURED = ["plain", "crashed", "denied", "compacted"]
const VIEWS = ["Conversation", "Todo", "Files", "Permissions", "Cost", "JSON"]

const browser = await new Browser(chromium, folder).start()

class Walk {
  constructor(tab, { name, states, shows, hides, findings }) {
    Object.assign(this, { tab, name, states, shows, hides, findings, texts: [] })
  }

  /** Chooses a place, a tab and, in the state, a view; waits until they are shown. */
  async at(place, panel, view) {
    await this.tab.run(`document.getElementById("tab-${panel}").click()`)
    await this.tab.run(`location.hash = ""; location.hash = "#${place}"`)
    if (["Summary", "Decisions", "Context"].includes(panel)) return
    await this.isShown(`${place} ${panel}`)
    if (!view) return
    const views = `[...document.querySelectorAll(".choice button")]`
    await this.tab.run(`delete document.body.dataset.shown; ${views}.find((b) => b.textContent === ${JSON.stringify(view)}).click()`)
    await this.isShown(`${place} ${panel}`)
  }

  /** Goes down by many events, of which only the last one needs to be shown. */
  down(count) {
    return this.tab.run(`for (let at = 0; at < ${count}; at++)
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }))`)
  }

  isShown(wanted) {
    return until(`${wanted} is shown`, () => this.tab.run(`document.body.dataset.shown === ${JSON.stringify(wanted)}`))
  }

  steps = {
    /** Some events in every panel, others in each; what a list keeps closed is opened. */
    everything: async () => {
      await this.tab.type("b")
      const places = await this.tab.run("Number(document.querySelector('.lanes').ariaValueMax)")
      let walks = 0
      const walk = async (panel, view) => {
        const last = Math.min(places, 80) - 1
        const first = (walks++ * STEPS) % Math.max(1, last - STEPS)
        await this.at("1", panel, view)
        await this.down(first)
        const end = Math.min(last, first + STEPS)
        for (let at = first; at < end; at++) await this.tab.press("ArrowDown")
        await this.down(last - end)
        await this.tab.run("document.querySelectorAll('#panel details').forEach((one) => { one.open = true })")
        // what opens is filled a moment later
        await pause(50)
        this.texts.push(await this.tab.run("document.querySelector('main').innerText"))
      }
      for (const panel of PANELS) await walk(panel)
      for (const view of VIEWS) await walk("State", view)
    },
    /** What the command line prints for the same seqs. */
    states: async () => {
      for (const { place, state } of this.states) {
        await this.at(place, "State", "JSON")
        const shown = JSON.parse(await this.tab.run("document.querySelector('#panel .more')?.click(), document.querySelector('.state-json').textContent"))
        assert.deepEqual(shown, state, `the state at ${place}`)
      }
    },
    /** What was out of the ordinary is listed at first, and leads to its event. */
    findings: async () => {
      const run = (expression) => this.tab.run(expression)
      await run("document.getElementById('tab-Summary').click()")
      await until("the summary is shown", () => run("document.body.dataset.shown === 'Summary'"))
      const listed = await run("[...document.querySelectorAll('.findings .event-link')].map((link) => link.innerText.replace(/\\s+/g, ' '))")
      for (const what of this.findings) assert.ok(listed.some((line) => line.includes(what)), `${what} in ${JSON.stringify(listed)}`)
      if (listed.length === 0) return
      const seq = parseInt(listed[0])
      await run("document.querySelector('.findings .event-link').click()")
      await until("its event is shown", () => run(`(document.body.dataset.shown ?? "").endsWith("${seq} Event")`))
      assert.ok(await run("document.querySelector('#panel .finding') !== null"))
      assert.ok(await run("document.querySelector('.list-row[aria-selected=true] .flag') !== null"))
    },
    keyboard: async () => {
      const run = (expression) => this.tab.run(expression)
      const here = () => run("document.querySelector('.lanes').ariaValueNow")
      await run("document.querySelector('[role=listbox]').focus()")
      await this.tab.press("Home")
      const first = await here()
      await this.tab.press("ArrowDown")
      assert.notEqual(await here(), first)
      await this.tab.press("ArrowUp")
      assert.equal(await here(), first)
      await this.tab.type("?")
      assert.equal(await run("document.getElementById('help').open"), true)
      await this.tab.press("Escape")
      assert.equal(await run("document.getElementById('help').open"), false)
      await this.tab.type("/")
      assert.equal(await run("document.activeElement.type"), "search")
      await this.tab.insert("turn.ended")
      await until("the search ends", () => run("/^\\d+ match/.test(document.querySelector('.found').textContent)"))
      assert.ok(parseInt(await run("document.querySelector('.found').textContent")) > 0)
      await this.tab.press("Escape")
      await this.tab.press("Home")
      await this.tab.type(" ")
      await until("it plays", async () => (await here()) !== first)
      await this.tab.type(" ")
      const speed = () => run("document.querySelector('select').value")
      for (let at = 0; at < 6; at++) await this.tab.type("]")
      assert.equal(await speed(), "50")
      for (let at = 0; at < 6; at++) await this.tab.type("[")
      assert.equal(await speed(), "1")
      await this.tab.press("Home")
      await this.tab.press("ArrowRight")
      assert.notEqual(await here(), first)
      await this.tab.press("ArrowLeft")
      assert.equal(await here(), first)
      for (const key of ["+", "-", "0", "t", "t", "f", "f", "b", "b", "d", "d"]) await this.tab.type(key)
    },
    words: () => {
      for (const word of this.shows) assert.ok(this.texts.join().includes(word), `the page shows ${word}`)
      for (const word of this.hides) assert.ok(!this.texts.join().includes(word), `the page shows ${word}`)
    },
    /** No text became an element or ran; nothing was requested. */
    harmless: async () => {
      const found = await this.tab.run(`({
        planted: typeof window.planted,
        problem: document.getElementById("problem").hidden ? "" : document.getElementById("problem").textContent,
        violations: window.__violations,
        elements: [...document.querySelectorAll("a, img, iframe, object, embed, svg, link, base, video, [href], [src], [onerror], [onload], [onclick]")].map((one) => one.outerHTML),
        scripts: [...document.scripts].filter((script) => !script.type.startsWith("application/")).length,
      })`)
      assert.deepEqual(found, { planted: "undefined", problem: "", violations: [], elements: [], scripts: 1 })
      const requests = [...this.tab.requests.values()].map((request) => request.url).filter((url) => !url.startsWith("file:"))
      assert.deepEqual(requests, [])
      assert.deepEqual(this.tab.errors, [])
    },
    /** Each text can be told from its background: WCAG AA. */
    contrast: async () => {
      if (!ALL && !COLOURED.includes(this.name)) return
      for (const theme of ["light", "dark"]) {
        await this.tab.run(`document.documentElement.dataset.theme = "${theme}"`)
        for (const panel of PANELS) {
          await this.at(this.states[0]?.place ?? "1", panel)
          // until colours have changed
          await pause(150)
          assert.deepEqual(await this.tab.run(`(${faintTexts})()`), [], `${panel}, ${theme}`)
        }
      }
    },
    narrow: async () => {
      await this.tab.send("Emulation.setDeviceMetricsOverride", { width: 400, height: 800, deviceScaleFactor: 1, mobile: true })
      for (const panel of ["Events", ...PANELS]) {
        await this.tab.run(`document.getElementById("tab-${panel}").click()`)
        const wide = await this.tab.run("document.documentElement.scrollWidth")
        assert.ok(wide <= 400, `${panel} is ${wide} pixels wide`)
      }
    },
  }
}

const watch = "window.__violations = []; addEventListener('securitypolicyviolation', (event) => window.__violations.push(event.violatedDirective + ' ' + event.blockedURI))"
for (const run of JSON.parse(readFileSync(plan, "utf8"))) {
  const tab = await browser.open("about:blank")
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: watch })
  await tab.send("Page.navigate", { url: pathToFileURL(run.file).href })
  const walk = new Walk(tab, run)
  for (const [step, work] of [["ready", () => until("the page is ready", () => tab.run("document.body?.dataset.ready === 'true'"))], ...Object.entries(walk.steps)]) {
    let error
    try {
      await work()
    } catch (failure) {
      error = String(failure.stack)
      await tab.screenshot(`failed-${run.name}-${step}`)
    }
    process.stdout.write(`${JSON.stringify({ run: run.name, step, error, problems: error && [await tab.run("document.getElementById('problem')?.textContent"), ...tab.errors] })}\n`)
  }
}
process.stdout.write(`${JSON.stringify({ done: true })}\n`)
browser.end()
process.exit(0)
