// Shows the run that is in the file.
import { EmbeddedSource } from "./source.js"
import { Run } from "./run.js"
import { failed, Page } from "./page.js"

Run.open(new EmbeddedSource()).then((run) => {
  new Page(run)
  document.body.dataset.ready = "true"
  performance.mark("ready")
}).catch(failed)
