// How long Chromium takes to open a page of a long session, and to go to events of it.
//
// node long_page.mjs CHROMIUM FOLDER FILE
//
// Prints `{"opened", "sought": {PANEL: MS}, "events", "problem"}`: times in milliseconds, of seeks the median.

import { pathToFileURL } from "node:url"

import { Browser, until } from "./browser.mjs"

const [chromium, folder, file] = process.argv.slice(2)
const SEEKS = 15
const browser = await new Browser(chromium, folder).start()
const tab = await browser.open(pathToFileURL(file).href)
await until("the page is ready", () => tab.run("document.body?.dataset.ready === 'true'").catch(() => false))
// since the browser began to read the file, until the last event is shown
await until("an event is shown", () => tab.run("document.body.dataset.shown !== undefined"))
const opened = await tab.run("performance.getEntriesByName('ready')[0].startTime")
const events = await tab.run("Number(document.querySelector('.lanes').ariaValueMax)")
const seek = (panel) => tab.run(`(async () => {
  document.getElementById("tab-${panel}").click()
  const times = []
  for (let at = 0; at < ${SEEKS}; at++) {
    const seq = 1 + ((at + 1) * 7919) % ${events}
    const shown = seq + " ${panel}"
    const began = performance.now()
    location.hash = "#" + seq
    // a panel of the whole log is drawn at once
    while (document.body.dataset.shown !== shown && ${panel !== "Context"}) await new Promise((resolve) => setTimeout(resolve, 1))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - began)
  }
  return times.sort((a, b) => a - b)[${SEEKS} >> 1]
})()`)
const sought = {}
for (const panel of ["Event", "State", "Request", "Context"]) sought[panel] = Math.round(await seek(panel))
await tab.screenshot("long")
const problem = await tab.run("document.getElementById('problem').hidden ? '' : document.getElementById('problem').textContent")
process.stdout.write(`${JSON.stringify({ opened: Math.round(opened), sought, events, problem })}\n`)
browser.end()
process.exit(0)
