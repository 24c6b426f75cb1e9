// What a person can do in a run that a server shows: prompt, answer, interrupt, resume, fork and revert. The server's
// API does it, and decides whether it may be done.
import { button, h } from "./dom.js"
import { post } from "./server_source.js"
import { printedJson, textBlock, visible } from "./text.js"

export class Operations {
  constructor(run) {
    this.run = run
    this.session = run.logs[0].session
    this.questions = h("div", { class: "questions", "aria-live": "polite" })
    this.state = h("span", { class: "state", role: "status" })
    this.words = h("textarea", { rows: 1, placeholder: "Prompt", "aria-label": "Prompt", onkeydown: (event) => this.typed(event) })
    this.send = h("button", { type: "submit", class: "primary" }, "Send")
    this.interrupt = button("Interrupt", () => this.do(() => post(`/session/${this.id}/abort`)), { hidden: true })
    this.resume = button("Resume", () => this.do(() => post(`/session/${this.id}/resume`)), { hidden: true })
    this.said = h("p", { class: "said", role: "alert", hidden: true })
    const form = h("form", { class: "prompt", onsubmit: (event) => this.prompt(event) }, this.state, this.words, this.send, this.interrupt, this.resume)
    this.element = h("footer", { class: "operations", id: "operations" }, this.questions, this.said, form)
    this.dialog = h("dialog", { "aria-labelledby": "confirm-title" })
    document.body.append(this.dialog)
    this.shown = new Map()
  }

  /** Shows the state of the sessions, and their open questions. */
  setStatus({ id, sessions, questions }) {
    this.id = id
    const own = sessions?.[this.session] ?? { status: "idle" }
    const isBusy = own.status !== "idle" && !own.cut_off
    this.state.textContent = own.cut_off ? "interrupted" : own.status
    this.state.className = `state ${own.cut_off ? "cut-off" : own.status}`
    this.interrupt.hidden = !isBusy
    this.resume.hidden = !own.cut_off
    this.send.textContent = isBusy ? "Queue" : "Send"
    const open = new Set()
    for (const { kind, of } of questions ?? []) {
      open.add(of.id)
      if (this.shown.has(of.id)) continue
      const box = kind === "permission.asked" ? this.permission(of) : this.question(of)
      this.shown.set(of.id, box)
      this.questions.append(box)
    }
    for (const [key, box] of this.shown) {
      if (open.has(key)) continue
      box.remove()
      this.shown.delete(key)
    }
  }

  typed(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      this.element.querySelector("form").requestSubmit()
    } else if (event.key === "Escape") {
      this.words.blur()
    }
    // keys in a prompt do nothing else
    event.stopPropagation()
  }

  prompt(event) {
    event.preventDefault()
    const text = this.words.value.trim()
    if (text === "") return
    this.do(async () => {
      await post(`/session/${this.id}/prompt_async`, { parts: [{ type: "text", text }] })
      this.words.value = ""
    })
  }

  permission({ id, permission, patterns, always, metadata }) {
    const words = h("input", { placeholder: "or say what to do instead", "aria-label": "What to do instead", onkeydown: (event) => event.stopPropagation() })
    const reply = (answer) => this.do(() => post(`/permission/${id}/reply`, { reply: answer, message: answer === "reject" ? words.value : undefined }))
    const { diff, ...rest } = metadata ?? {}
    return h("section", { class: "question", "aria-label": "Permission" },
      h("p", {}, "May this call use ", h("b", {}, visible(permission)), "? ", patterns.map((pattern) => [h("code", {}, visible(pattern)), " "])),
      typeof diff === "string" && textBlock(diff, "code"),
      Object.keys(rest).length > 0 && h("details", { open: true }, h("summary", {}, "The call"), textBlock(printedJson(rest), "code")),
      h("div", { class: "answers" },
        button("Allow once", () => reply("once"), { class: "primary" }),
        always?.length > 0 && button(["Always ", h("code", {}, visible(always.join(", ")))], () => reply("always")),
        button("Reject", () => reply("reject")), words))
  }

  question({ id, questions }) {
    const chosen = questions.map(() => new Set())
    const send = () => this.do(() => post(`/question/${id}/reply`, { answers: chosen.map((labels) => [...labels]) }))
    const words = h("input", { placeholder: "or an answer of your own", "aria-label": "An answer of your own", onkeydown: (event) => {
      event.stopPropagation()
      if (event.key !== "Enter" || event.target.value.trim() === "") return
      chosen[0] = new Set([event.target.value.trim()])
      send()
    } })
    const pick = (at, label, isMultiple, target) => {
      if (!isMultiple) {
        chosen[at] = new Set([label])
        return questions.length === 1 && send()
      }
      chosen[at].has(label) ? chosen[at].delete(label) : chosen[at].add(label)
      target.setAttribute("aria-pressed", String(chosen[at].has(label)))
    }
    const needsButton = questions.length > 1 || questions.some((one) => one.multiple)
    return h("section", { class: "question", "aria-label": "Question" },
      questions.map((one, at) => [h("p", {}, h("b", {}, visible(one.question))), h("div", { class: "answers" }, one.options.map((option) =>
        button([...visible(option.label)], (event) => pick(at, option.label, one.multiple, event.currentTarget), { title: option.description, "aria-pressed": one.multiple ? "false" : undefined })))]),
      h("div", { class: "answers" }, needsButton && button("Answer", send, { class: "primary" }), words, button("Do not answer", () => this.do(() => post(`/question/${id}/reject`)))))
  }

  /** Buttons for an event. Only the session itself is forked and reverted, not its subagents. */
  at(log, { seq, type }) {
    if (log.session !== this.session) return []
    return [
      type === "files.restored" && button("Take the revert back", () => this.do(() => post(`/session/${this.id}/unrevert`))),
      button("Fork from here", () => this.confirm("Fork", `A new session that shares everything up to event ${seq}.`, async () => {
        const { session } = await post(`/leftfold/run/${this.session}/fork`, { at: seq })
        location.assign(`/?session=${session}`)
      })),
      button("Revert to here", () => this.confirm("Revert", `Files and messages become what they were before event ${seq}. The log keeps everything, and the revert can be taken back.`,
        () => post(`/leftfold/run/${this.session}/revert`, { to: seq }))),
    ]
  }

  confirm(title, words, work) {
    this.dialog.replaceChildren(h("h2", { id: "confirm-title" }, title), h("p", {}, words), h("div", { class: "answers" },
      button(title, () => {
        this.dialog.close()
        this.do(work)
      }, { class: "primary" }),
      button("Cancel", () => this.dialog.close())))
    this.dialog.showModal()
  }

  /** Does something, and says why it is not done. */
  async do(work) {
    this.said.hidden = true
    this.element.ariaBusy = "true"
    try {
      await work()
    } catch (error) {
      this.said.hidden = false
      this.said.replaceChildren(...visible(String(error.message ?? error)))
    }
    this.element.ariaBusy = "false"
  }
}
