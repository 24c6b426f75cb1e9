// Starts the server as programs do that use OpenCode's SDK, asks it, and ends it.
//
// node start.mjs FOLDER v1|v2
//
// The SDK runs `opencode` of PATH. Prints the answer to a prompt.

import { pathToFileURL } from "node:url"

const [folder, version] = process.argv.slice(2)
const at = { v1: "dist/index.js", v2: "dist/v2/index.js" }[version]
const { createOpencode } = await import(pathToFileURL(`${folder}/node_modules/@opencode-ai/sdk/${at}`))
const { client, server } = await createOpencode({ port: 0, timeout: 30_000, config: { default_agent: "plan" } })
const parts = [{ type: "text", text: "hi" }]
const created = await client.session.create(version === "v2" ? {} : { body: {} })
const id = created.data.id
const prompted = await client.session.prompt(version === "v2" ? { sessionID: id, parts } : { path: { id }, body: { parts } })
const text = prompted.data.parts.filter((part) => part.type === "text").map((part) => part.text)
console.log(`${prompted.data.info.agent}: ${text.join("")}`)
server.close()
