// The page of a run in Chromium, while its node and its database die.
//
// node fleet_page.mjs CHROMIUM FOLDER URL
//
// Prints `{"ready": EVENTS}`. Then reads the number of events that the run has at its end, and prints what the page has:
// `{"events", "state", "is_same"}`, or `{"error"}`. `is_same`: it was never loaded again.

import { createInterface } from "node:readline"

import { Browser, until } from "./browser.mjs"

const [chromium, folder, url] = process.argv.slice(2)
const browser = await new Browser(chromium, folder).start()
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const tab = await browser.open("about:blank")
const run = (expression) => tab.run(expression)
const events = () => run("Number(document.querySelector('.lanes').ariaValueMax)")
const state = () => run("document.querySelector('.state').textContent")

try {
  await tab.send("Page.navigate", { url })
  await until("the page is ready", () => run("document.body?.dataset.ready === 'true'").catch(() => false))
  await run("window.isSame = true")
  say({ ready: await events() })
  const { value: end } = await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next()
  await until("the page has the end", async () => (await events()) >= Number(end) && (await state()) === "idle")
  await tab.screenshot("fleet")
  say({ events: await events(), state: await state(), is_same: (await run("window.isSame")) === true })
} catch (error) {
  await tab.screenshot("fleet").catch(() => {})
  say({ error: error.message, events: await events().catch(() => 0), state: await state().catch(() => ""), is_same: await run("window.isSame").catch(() => "") })
}
browser.process.kill()
process.exit()
