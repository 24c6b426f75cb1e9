// The data of a run from the server that shows it, and what is new in it.

export class ServerSource {
  constructor(session, other) {
    // an address of a page may hold a password, with which nothing else is asked for
    this.path = `${location.origin}/leftfold/run/${encodeURIComponent(session)}`
    this.query = new URLSearchParams(other ? { compare: other } : {})
  }

  /** The block with this name. */
  async block(name) {
    const answer = await fetch(`${this.path}/block/${name}?${this.query}`)
    // the server has read the run again, so numbers that this page knows mean something else
    if (answer.status === 409) location.reload()
    const data = await read(answer)
    if (name === "run") {
      this.query.set("epoch", data.epoch)
      this.cursor = data.cursor
    }
    return data
  }

  /** Calls `run` with what is new, from where the block `run` ended, `status` with the state of the sessions, and
   *  `connected` when the connection is cut or is there again. The browser connects again with its last cursor. */
  follow({ run, status, connected }) {
    const query = new URLSearchParams(this.query)
    query.set("after", this.cursor)
    const feed = new EventSource(`${this.path}/feed?${query}`)
    feed.addEventListener("run", (event) => run(JSON.parse(event.data)))
    feed.addEventListener("status", (event) => status(JSON.parse(event.data)))
    feed.addEventListener("reload", () => location.reload())
    feed.onopen = () => connected(true)
    feed.onerror = () => {
      connected(false)
      // the server has refused, and the browser does not ask again
      if (feed.readyState === EventSource.CLOSED) setTimeout(() => this.follow({ run, status, connected }), 2000)
    }
  }
}

/** The JSON of an answer; an error with the server's words if it is none. */
export async function read(answer) {
  const text = await answer.text()
  let data
  try {
    data = JSON.parse(text === "" ? "null" : text)
  } catch {
    throw new Error(`the server answers ${answer.status}: ${text.slice(0, 200)}`)
  }
  if (!answer.ok) throw new Error(data?.data?.message ?? data?.message ?? `the server answers ${answer.status}`)
  return data
}

export async function post(path, body = {}) {
  return read(await fetch(location.origin + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }))
}
