// The page of a server: the list of sessions, or a run that goes on while it is shown.
import { byId } from "./dom.js"
import { Run } from "./run.js"
import { failed, Page } from "./page.js"
import { ServerSource } from "./server_source.js"
import { Operations } from "./operations.js"
import { Overview } from "./overview.js"

async function showRun(session, other) {
  const source = new ServerSource(session, other)
  const run = await Run.open(source)
  const operations = new Operations(run)
  const page = new Page(run, operations)
  byId("operations").replaceWith(operations.element)
  source.follow({
    run: (news) => {
      run.add(news)
      page.update()
    },
    status: (status) => operations.setStatus(status),
    connected: (isConnected) => page.setConnected(isConnected),
  })
}

const wanted = new URLSearchParams(location.search)
const session = wanted.get("session")
const shown = session ? showRun(session, wanted.get("compare") ?? undefined) : new Overview(byId("overview")).open()
shown.then(() => { document.body.dataset.ready = "true" }).catch(failed)
