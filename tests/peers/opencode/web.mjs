// OpenCode's web app in Chromium, on a server that serves it.
//
// node web.mjs CHROMIUM FOLDER URL PROJECT
//
// FOLDER is for the browser's files and for screenshots. Prints one line of JSON for each step:
// `{"step", "error"?}`. At the step `restart` it prints `{"restart"}`, and goes on when it reads a
// line; at `a cut connection` likewise `{"cut"}`. The last line is `{"done", "refused"}`, with the requests that the server did not answer
// as the app expects, and errors of the page.

import assert from "node:assert/strict"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createInterface } from "node:readline"

import { Browser, CTRL, Tab, pause, until } from "../browser.mjs"

const [chromium, folder, url, project] = process.argv.slice(2)
const sayJson = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const EDITOR = "[contenteditable=true]"
const TITLE = "input[data-slot=session-title-child]"

/** A tab with the web app. */
class Page extends Tab {
  /** The app reads the clock twice for a prompt, and counts the prompt twice if it ticks in between. Here it ticks rarely. */
  static prepare = () => {
    const now = Date.now
    Date.now = () => Math.floor(now() / 50) * 50
  }

  /** Empties a field. */
  async empty(selector = EDITOR) {
    await this.click(selector)
    await this.press("a", CTRL, ["selectAll"])
    await this.press("Backspace")
  }

  async prompt(words) {
    await this.empty()
    await this.insert(words)
    await this.shows(words)
    // while the app still loads its lists it takes no prompt
    await until("it is sent", async () => {
      await this.press("Enter")
      await pause(250)
      return !(await this.run(`document.querySelector("${EDITOR}")?.innerText ?? ""`)).includes(words)
    })
  }

  /** Chooses a command of the menu that opens at a slash. */
  async command(name, described) {
    await this.empty()
    await this.insert(name)
    await this.shows(described)
    await this.press("Enter")
    await this.showsNoMore(described)
  }

  /** Chooses an option of a menu, which opens with a movement, until there is what it leads to. */
  async choose(menu, option, leadsTo) {
    await until(`${option} is chosen`, async () => {
      if (!(await this.has("[role=menuitem]", option))) await this.click("button", menu)
      await pause(300)
      if (await this.has("[role=menuitem]", option)) await this.click("[role=menuitem]", option)
      await pause(300)
      return this.has(leadsTo)
    })
  }

  async allow() {
    await this.click("button", "Allow once")
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const browser = await new Browser(chromium, folder, Page).start()
const encoded = Buffer.from(project).toString("base64url")
const open = []
let first, second

const steps = {
  async "load"() {
    first = await browser.open(`${url}/${encoded}/session`)
    open.push(first)
    await until("there is a place for a prompt", () => first.has(EDITOR))
  },
  async prompt() {
    await first.prompt("say hello")
    await first.shows("Hello from the model, in several pieces.")
  },
  async "permission"() {
    await first.prompt("run it")
    await first.shows("Permission required", "echo ran-one")
    await first.screenshot("permission")
    await first.allow()
    await first.shows("It ran.")
  },
  async "edit with its diff"() {
    await first.prompt("edit it")
    await first.allow()
    await first.shows("It is edited.")
    await first.click("[data-slot=collapsible-trigger],button", "known.txt")
    // with its line in the file
    await first.shows("alpha", "beta", "gamma")
    assert.equal(readFileSync(`${project}/known.txt`, "utf8"), "alpha\ngamma\n")
    await first.screenshot("edit")
  },
  async "a second tab follows"() {
    second = await browser.open(await first.run("location.href"))
    open.push(second)
    await second.shows("It is edited.")
    await first.prompt("ask me")
    await first.shows("Which colour?")
    await second.shows("Which colour?")
    await second.click("button,[role=radio],label", "Blue")
    await second.screenshot("question")
    await second.click("button", "Submit")
    await first.shows("You like blue.")
    await second.shows("You like blue.")
  },
  async "restart"() {
    await first.prompt("run two")
    await first.shows("Permission required", "echo ran-two")
    sayJson({ restart: true })
    await lines.next()
    await first.allow()
    await first.shows("It ran too.")
    await second.shows("It ran too.")
    await second.showsNoMore("Permission required")
    await first.screenshot("restart")
  },
  async "a cut connection"() {
    await first.prompt("run three")
    await first.shows("Permission required", "printf ran-three")
    sayJson({ cut: true })
    await lines.next()
    for (const page of [first, second]) {
      await page.shows("It ran a third time.")
      await page.showsNoMore("Permission required")
    }
    await first.screenshot("cut")
  },
  async "all changes"() {
    await first.click("button", "Toggle review")
    await first.shows("Files Changed 1", "alpha")
    await first.screenshot("review")
    await first.click("button", "Toggle review")
  },
  async "todo and task"() {
    await first.prompt("delegate")
    await first.shows("It is delegated.", "general Look")
    await first.prompt("wait with a plan")
    await first.allow()
    await first.shows("first thing", "second thing")
    await first.screenshot("todo")
  },
  async abort() {
    await first.shows("sleep 60")
    await first.empty()
    await first.click("[data-action=prompt-submit]")
    await first.shows("Interrupted")
    await first.screenshot("abort")
  },
  /** The model never ends this answer, so only what is streamed can be seen. */
  async streaming() {
    const interrupted = async () => (await first.text()).split("Interrupted").length
    const before = await interrupted()
    await first.prompt("say half")
    await first.shows("Half an answer")
    await first.click("[data-action=prompt-submit]")
    await until("it is interrupted", async () => (await interrupted()) > before)
    await first.shows("Half an answer")
  },
  async "undo and redo"() {
    writeFileSync(`${project}/undo.txt`, "one\n")
    const hasFile = (what, words) => until(what, () => readFileSync(`${project}/undo.txt`, "utf8") === words)
    await first.prompt("change the other")
    await first.allow()
    await first.shows("It is changed.")
    await first.command("/undo", "Undo the last message")
    await hasFile("it is undone", "one\n")
    await first.showsNoMore("It is changed.")
    // the tab that has sent the prompt counts it once, too
    for (const page of [first, second]) await page.shows("1 rolled back message")
    await first.screenshot("undo")
    await first.command("/redo", "Redo the last undone message")
    await hasFile("it is redone", "two\n")
    for (const page of [first, second]) await page.shows("It is changed.")
  },
  async shell() {
    await first.empty()
    await first.insert("!")
    await first.shows("Enter shell command")
    await first.insert("echo shell-$((40+2))")
    await first.press("Enter")
    // it is drawn folded
    await until("its output is shown", async () => {
      await first.click("[data-slot=collapsible-trigger]", "Shell")
      await pause(250)
      return (await first.text()).includes("shell-42")
    })
    await first.screenshot("shell")
    await first.press("Escape")
  },
  async "a file of the project"() {
    await first.empty()
    await first.insert("look at @rea")
    await first.shows("read.txt")
    await first.press("Enter")
    await first.shows("look at @read.txt")
    await first.press("Enter")
    await first.shows("I have read it.")
  },
  async model() {
    await first.click("[data-action=prompt-model]")
    await first.click("[role=menuitemradio]", "n")
    await until("it is chosen", () => first.has("[data-action=prompt-model]", "n"))
    await first.prompt("say hello")
    await first.shows("Build · n")
  },
  async agent() {
    // build, plan, scout
    const next = () => first.command("/agent", "Switch to the next agent")
    await next()
    await next()
    await first.prompt("say hello")
    await first.shows("Scout · n")
    await first.screenshot("agent")
    await next()
    await first.prompt("say hello")
    await first.shows("Hello from the model, in several pieces. Build · n")
  },
  async compact() {
    await first.command("/compact", "Summarize the session")
    await first.shows("Session compacted", "Everything so far went well.")
    await first.screenshot("compact")
  },
  async "fork, rename and delete"() {
    const sessions = async () => (await fetch(`${url}/session?roots=true`)).json()
    const before = await sessions()
    await first.command("/fork", "Create a new session")
    await first.click("[role=dialog] button", "say hello")
    await until("there is a fork", async () => (await sessions()).length === before.length + 1)
    await first.shows("It is changed.")
    await first.choose("More options", "Rename", TITLE)
    await first.empty(TITLE)
    await first.insert("Mine")
    await first.press("Enter")
    await until("it is renamed", async () => (await sessions()).some((known) => known.title === "Mine"))
    await first.choose("More options", "Delete", "[role=dialog] button")
    await first.shows('Delete session "Mine"?')
    await first.click("[role=dialog] button", "Delete session")
    await until("it is deleted", async () => (await sessions()).every((known) => known.title !== "Mine"))
    await first.showsNoMore("Mine")
  },
  async terminal() {
    await first.command("/terminal", "Ctrl+`")
    await first.shows("Terminal 1")
    await until("its shell is there", async () => (await (await fetch(`${url}/pty`)).json()).length > 0)
    await until("it takes a line", async () => {
      await first.click("[aria-label='Terminal input']")
      await first.type("touch from-the-terminal")
      await first.press("Enter")
      await pause(250)
      return existsSync(`${project}/from-the-terminal`)
    })
    await first.screenshot("terminal")
  },
}

let failed = false
for (const [step, work] of Object.entries(steps)) {
  try {
    await work()
    sayJson({ step })
  } catch (error) {
    failed = true
    for (const [n, page] of open.entries()) await page.screenshot(`failed-${n}`)
    sayJson({ step, error: String(error.stack), text: await open.at(-1)?.text() })
    break
  }
}
const answers = open.flatMap((page) => page.answers).filter((answer) => answer.url.includes("127.0.0.1"))
writeFileSync(`${folder}/requests.txt`, answers.map(({ method, url, status, isPage }) => `${method} ${status}${isPage ? " page" : ""} ${url}\n`).join(""))
const isRefused = ({ status, isPage, kind }) => status >= 400 || (isPage && kind !== "Document")
const refused = [...new Set(answers.filter(isRefused).map(({ method, url, status }) => `${method} ${status} ${new URL(url).pathname}`))]
sayJson({ done: !failed, refused, errors: open.flatMap((page) => page.errors) })
browser.end()
process.exit(0)
