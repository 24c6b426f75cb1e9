// Chromium, driven by its DevTools protocol.

import { spawn } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"

const STEP_TIMEOUT = 20_000
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits until `wanted` gives a value. */
export async function until(what, wanted) {
  const end = Date.now() + STEP_TIMEOUT
  for (;;) {
    const value = await wanted()
    if (value) return value
    if (Date.now() > end) throw new Error(`${what}: it did not happen`)
    await pause(25)
  }
}

/**
 * A browser whose files and screenshots are in `folder`. It can resolve no name, and reaches only this machine. Its tabs are
 * of `Kind`, a `Tab` whose static function `prepare` also runs in each page before the page's own scripts.
 */
export class Browser {
  constructor(chromium, folder, Kind = Tab) {
    Object.assign(this, { chromium, folder, Kind })
  }

  async start() {
    const profile = `${this.folder}/profile`
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--mute-audio", "--window-size=1400,1000", "--remote-debugging-port=0", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", `--user-data-dir=${profile}`]
    this.process = spawn(this.chromium, [...flags, "about:blank"], { stdio: "ignore" })
    const port = `${profile}/DevToolsActivePort`
    const [number, path] = await until("the browser starts", () => {
      const lines = existsSync(port) ? readFileSync(port, "utf8").split("\n") : []
      return lines.length > 1 && lines
    })
    this.socket = new WebSocket(`ws://127.0.0.1:${number}${path}`)
    await new Promise((resolve, reject) => Object.assign(this.socket, { onopen: resolve, onerror: reject }))
    this.next = 1
    this.waiting = new Map()
    this.pages = new Map()
    this.socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      const waiting = this.waiting.get(message.id)
      this.waiting.delete(message.id)
      if (waiting) message.error ? waiting.reject(new Error(message.error.message)) : waiting.resolve(message.result)
      else this.pages.get(message.sessionId)?.saw(message)
    }
    return this
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++
    this.socket.send(JSON.stringify({ id, method, params, sessionId }))
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }))
  }

  async open(address) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", newWindow: true })
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true })
    const page = new this.Kind(this, sessionId)
    this.pages.set(sessionId, page)
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.send(`${domain}.enable`)
    await page.send("Emulation.setFocusEmulationEnabled", { enabled: true })
    const scripts = [prepare, this.Kind.prepare].filter(Boolean)
    for (const script of scripts) await page.send("Page.addScriptToEvaluateOnNewDocument", { source: `(${script})()` })
    await page.send("Page.navigate", { url: address })
    return page
  }

  end() {
    this.process.kill("SIGKILL")
  }
}

/** Runs in the page before its own scripts. */
function prepare() {
  const collect = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data
    if (["SCRIPT", "STYLE"].includes(node.nodeName)) return ""
    const inner = node.shadowRoot ? [...node.shadowRoot.childNodes] : []
    return [...inner, ...node.childNodes].map(collect).join(node.nodeName === "SPAN" ? "" : " ")
  }
  window.__text = () => (document.body ? collect(document.body) : "").replace(/\s+/g, " ")
  const shown = (element) => element.getClientRects().length > 0 && !element.disabled
  window.__find = (selector, words) =>
    [...document.querySelectorAll(selector)].filter(shown).findLast((element) => (element.innerText + " " + (element.ariaLabel ?? "")).includes(words))
}

const KEYS = { Enter: [13, "\r"], Escape: [27, ""], Backspace: [8, ""], a: [65, ""], ArrowDown: [40, ""], ArrowUp: [38, ""], ArrowRight: [39, ""], ArrowLeft: [37, ""], Home: [36, ""], End: [35, ""], Tab: [9, ""] }
export const CTRL = 2

/** A tab, and what its page has requested and reported. */
export class Tab {
  constructor(browser, session) {
    Object.assign(this, { browser, session, requests: new Map(), answers: [], errors: [] })
  }

  send(method, params) {
    return this.browser.send(method, params, this.session)
  }

  saw({ method, params }) {
    if (method === "Network.requestWillBeSent") this.requests.set(params.requestId, params.request)
    if (method === "Network.webSocketCreated") this.answers.push({ method: "WS", url: params.url, status: 101 })
    if (method === "Network.responseReceived") {
      const { method, url } = this.requests.get(params.requestId) ?? { method: "?", url: params.response.url }
      const { status, mimeType } = params.response
      this.answers.push({ method, url, status, isPage: mimeType === "text/html", kind: params.type })
    }
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text)
    if (method === "Runtime.consoleAPICalled" && params.type === "error") this.errors.push(params.args.map((arg) => arg.value ?? arg.description).join(" "))
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true })
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
    return result.value
  }

  text() {
    return this.run("window.__text?.() ?? ''")
  }

  async shows(...words) {
    for (const word of words) await until(`the page shows ${word}`, async () => (await this.text()).includes(word))
  }

  async showsNoMore(words) {
    await until(`${words} is gone`, async () => !(await this.text()).includes(words))
  }

  async click(selector, words = "") {
    const find = `window.__find?.(${JSON.stringify(selector)}, ${JSON.stringify(words)})`
    const place = `(() => { const e = ${find}; if (!e) return; e.scrollIntoView({ block: "nearest" }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 } })()`
    const at = await until(`there is ${selector} ${words}`, () => this.run(place))
    for (const type of ["mousePressed", "mouseReleased"]) await this.send("Input.dispatchMouseEvent", { type, ...at, button: "left", clickCount: 1 })
  }

  async press(key, modifiers = 0, commands = []) {
    const [windowsVirtualKeyCode, text] = KEYS[key]
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, code: key, windowsVirtualKeyCode, text, modifiers, commands })
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, code: key, windowsVirtualKeyCode, modifiers })
  }

  /** Types letters one by one, for what listens to keys. */
  async type(letters) {
    for (const key of letters) await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, text: key })
  }

  async insert(text) {
    await this.send("Input.insertText", { text })
  }

  has(selector, words = "") {
    return this.run(`!!window.__find?.(${JSON.stringify(selector)}, ${JSON.stringify(words)})`)
  }

  async screenshot(name) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" })
    writeFileSync(`${this.browser.folder}/${name}.png`, Buffer.from(data, "base64"))
  }
}
