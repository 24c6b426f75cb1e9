// The page of a server in Chromium.
//
// node live_page.mjs CHROMIUM FOLDER URL
//
// Prints a line of JSON for each step, `{"step", "error"?}`, and `{"ask": NAME, …}` for what the test is to do or
// to answer with a line of JSON on standard input. The last line is `{"done"}`.

import assert from "node:assert/strict"
import { createInterface } from "node:readline"

import { Browser, pause, until } from "./browser.mjs"
import { faintTexts } from "./contrast.mjs"

const [chromium, folder, url] = process.argv.slice(2)
const browser = await new Browser(chromium, folder).start()
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function ask(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`)
  return JSON.parse((await lines.next()).value)
}

const watch = "window.__violations = []; addEventListener('securitypolicyviolation', (event) => window.__violations.push(event.violatedDirective + ' ' + event.blockedURI))"
const tab = await browser.open("about:blank")
await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: watch })
const run = (expression) => tab.run(expression)
const isReady = () => until("the page is ready", () => run("document.body?.dataset.ready === 'true'").catch(() => false))
const go = async (address) => {
  await tab.send("Page.navigate", { url: address })
  await isReady()
}
const here = (path) => new URL(path, new URL(url).origin).href
const session = () => run("new URLSearchParams(location.search).get('session')")
const length = () => run("Number(document.querySelector('.lanes').ariaValueMax)")
const state = () => run("document.querySelector('.state').textContent")
const says = async (text) => {
  await run("document.querySelector('.prompt textarea').focus()")
  await tab.insert(text)
  await tab.press("Enter")
}
const rests = () => until("the session rests", async () => (await state()) === "idle")
const shownState = async (seq) => {
  await run("document.getElementById('tab-State').click(); [...document.querySelectorAll('.choice button')].find((b) => b.textContent === 'JSON')?.click()")
  await run(`location.hash = ""; location.hash = "#${seq}"`)
  await until(`the state at ${seq} is shown`, () => run(`document.body.dataset.shown === "${seq} State"`))
  await run("[...document.querySelectorAll('.choice button')].find((b) => b.textContent === 'JSON').click()")
  await pause(100)
  return until("the JSON", async () => {
    const text = await run("document.querySelector('#panel .more')?.click(), document.querySelector('.state-json')?.textContent")
    return text && JSON.parse(text).seq === seq && JSON.parse(text)
  })
}

const steps = {
  overview: async () => {
    await go(url)
    await tab.shows("Fill the list.", "Tokens by day", "Slowest tools", "bash rm *")
    assert.equal(await run("document.querySelectorAll('#overview [role=option]').length"), 2)
    const rows = () => run("document.querySelectorAll('#overview [role=option]').length")
    const choose = (label, value) => run(`(() => { const s = document.querySelector('select[aria-label=${label}]'); s.value = ${JSON.stringify(value)}; s.dispatchEvent(new Event('change')) })()`)
    for (const [label, value, expected] of [["State", "completed", 2], ["Cost", "10", 0], ["Cost", "0", 2], ["Date", "1", 2], ["Model", "double/m", 2]]) {
      await choose(label, value)
      assert.equal(await rows(), expected, `${label} ${value}`)
    }
    await tab.type("/")
    await tab.insert("remove")
    await until("the list is filtered", async () => (await rows()) === 1)
    await run("(() => { const s = document.querySelector('input[type=search]'); s.value = ''; s.dispatchEvent(new Event('input')) })()")
    await until("all are listed", async () => (await rows()) === 2)
    for (const theme of ["light", "dark"]) {
      await run(`document.documentElement.dataset.theme = "${theme}"`)
      await pause(150)
      assert.deepEqual(await run(`(${faintTexts})()`), [], theme)
      await tab.screenshot(`overview-${theme}`)
    }
    await tab.click("#overview [role=option]", "Fill the list.")
    await until("the run is shown", () => run("location.search.includes('session=')").catch(() => false))
    await isReady()
    await tab.shows("Fill the list.")
  },
  prompt: async () => {
    await rests()
    const before = await length()
    await says("Read the file.")
    await until("events come", async () => (await length()) > before)
    await tab.shows("May this call use")
    await tab.screenshot("question")
    await tab.click("button", "Allow once")
    await rests()
    await until("the question is gone", () => run("document.querySelectorAll('.question').length === 0"))
    await tab.shows("It is blue.")
    // the page has followed to the end
    assert.equal(await run("document.querySelector('.lanes').ariaValueNow"), String(await length()))
    assert.equal(await run("document.querySelector('.live').ariaPressed"), "true")
  },
  states: async () => {
    const id = await session()
    const { states } = await ask({ ask: "states", session: id, most: 12 })
    assert.ok(states.length >= 12)
    for (const { seq, state } of states) assert.deepEqual(await shownState(seq), state, `the state at ${seq}`)
    await run("document.getElementById('tab-Event').click()")
  },
  interrupt: async () => {
    await says("Sleep.")
    await tab.shows("bash sleep 60")
    await until("it works", async () => (await state()) === "busy")
    await tab.click("button", "Interrupt")
    await rests()
    await tab.shows("aborted")
  },
  cut: async () => {
    await tab.click("button", "Live")
    const before = await length()
    await ask({ ask: "cut" })
    await says("Say more.")
    await until("the page gets what it has missed", async () => (await length()) > before && (await tab.text()).includes("More."))
    await rests()
  },
  restart: async () => {
    const [before, id] = [await length(), await session()]
    await run("window.__loadedBefore = true")
    await ask({ ask: "restart" })
    // a new server has read the run again, so the page is loaded again
    const isLoadedAgain = "!window.__loadedBefore && document.body?.dataset.ready === 'true' && document.querySelector('.live').textContent === 'Live'"
    await until("the page is connected", () => run(isLoadedAgain).catch(() => false))
    await rests()
    assert.equal(await session(), id)
    assert.ok((await length()) >= before)
  },
  fork: async () => {
    const id = await session()
    await run(`location.hash = "#6"`)
    await until("event 6 is shown", () => run("document.body.dataset.shown === '6 Event'"))
    await tab.click("button", "Fork from here")
    await tab.click("dialog button", "Fork")
    await until("the fork is shown", async () => (await session().catch(() => id)) !== id)
    await isReady()
    await rests()
    assert.equal(await session().then((it) => it !== id), true)
    const shared = await length()
    await says("Say more.")
    await until("the fork goes on", async () => (await length()) > shared && (await tab.text()).includes("More."))
    await rests()
    await go(here(`/?session=${id}&compare=${await session()}`))
    await tab.shows("They part at event")
    assert.ok((await run("document.querySelectorAll('.compare-side.differs').length")) > 0)
    const { part } = await ask({ ask: "diff", a: id, b: await run("new URLSearchParams(location.search).get('compare')") })
    assert.ok((await run("document.querySelector('.compare-head').innerText")).includes(`event ${part.seq}, ${part.field}`), part)
    await tab.screenshot("compare")
    // it follows both sessions
    const compared = () => run("Number(document.querySelector('.compare-side').closest('[role=option]').ariaSetSize)")
    const before = await compared()
    await says("Say more.")
    await until("the comparison grows", async () => (await compared()) > before)
    await rests()
    await go(here(`/?session=${id}`))
  },
  revert: async () => {
    await rests()
    const { seq } = await ask({ ask: "last_prompt", session: await session() })
    await run(`location.hash = "#${seq}"`)
    await until("the prompt is shown", () => run(`document.body.dataset.shown === '${seq} Event'`))
    await tab.click("button", "Revert to here")
    await tab.click("dialog button", "Revert")
    await until("it is reverted", async () => (await tab.text()).includes("files.restored"))
  },
  refused: async () => {
    // the server decides what may be done, and the page says why it is not
    await says("Sleep.")
    await until("it works", async () => (await state()) === "busy")
    await run(`location.hash = "#3"`)
    await until("event 3 is shown", () => run("document.body.dataset.shown === '3 Event'"))
    await tab.click("button", "Revert to here")
    await tab.click("dialog button", "Revert")
    await until("it says why", () => run("!document.querySelector('.said').hidden && document.querySelector('.said').textContent.includes('a turn is running')"))
    await tab.click("button", "Interrupt")
    await rests()
  },
  narrow: async () => {
    await tab.send("Emulation.setDeviceMetricsOverride", { width: 400, height: 800, deviceScaleFactor: 1, mobile: true })
    for (const panel of ["Events", "Event", "State", "Request", "Decisions", "Context"]) {
      await run(`document.getElementById("tab-${panel}").click()`)
      await pause(50)
      assert.ok((await run("document.documentElement.scrollWidth")) <= 400, panel)
    }
    await tab.screenshot("narrow-run")
    await go(here("/"))
    assert.ok((await run("document.documentElement.scrollWidth")) <= 400)
    await tab.screenshot("narrow-overview")
  },
  harmless: async () => {
    const found = await run(`({
      violations: window.__violations,
      problem: document.getElementById("problem").hidden ? "" : document.getElementById("problem").textContent,
      inline: [...document.querySelectorAll("script:not([src]), style, [onclick], [onerror]")].length,
    })`)
    assert.deepEqual(found, { violations: [], problem: "", inline: 0 })
    const hosts = new Set([...tab.requests.values()].map((request) => new URL(request.url)).filter((one) => one.protocol !== "data:").map((one) => one.host))
    assert.deepEqual([...hosts].filter(Boolean), [new URL(url).host])
  },
}

for (const [step, work] of Object.entries(steps)) {
  let error
  try {
    await work()
  } catch (failure) {
    error = String(failure.stack)
    await tab.screenshot(`failed-live-${step}`)
  }
  process.stdout.write(`${JSON.stringify({ step, error, problems: error && [await run("document.getElementById('problem')?.textContent").catch(String), ...tab.errors] })}\n`)
}
process.stdout.write(`${JSON.stringify({ done: true })}\n`)
browser.end()
process.exit(0)
