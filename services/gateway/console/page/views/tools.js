// Tools, the servers that offer some of them, and plug-ins.
import { ask, askAsOperator, keys } from "../client.js"
import { clip, count } from "../format.js"
import { html, useEffect, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { AddDialog } from "../parts/add_dialog.js"
import { Act, Dialog, JsonField, Loading, Problem, Status, TaskLink, Value, When } from "../parts/basics.js"
import { Approval } from "./approvals.js"

const ENDED = ["completed", "failed", "cancelled"]

const EVERY_MS = 3_000
const FOLLOWED_MS = 500
/** Tool calls that wait, among which that of a tried tool is looked for. */
const MAX_WAITING = 200
const SERVER = { name: "notes", url: "https://mcp.example.com/mcp" }
const SERVER_HINT =
  "A server over HTTP has a url, a program has command and args. Values of headers and env may be {{secret:NAME}}. " +
  "A whole file with mcpServers may be pasted, too."
const ENDPOINT = {
  name: "weather",
  description: "The weather of a city.",
  url: "https://api.example.com/weather?city={city}",
  method: "GET",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
}
const ENDPOINT_HINT =
  "One endpoint, or all operations of an API: openapi is the address of its document. Values of headers may be " +
  "{{secret:NAME}}."

export function Tools() {
  const tools = useLoaded((signal) => ask("/v1/tools", { signal }), [], { every: EVERY_MS })
  const [calling, setCalling] = useState(null)
  return html`<${Servers} tools=${tools.value?.items ?? []} onCall=${setCalling} /><${Plugins} />
    <${ToolTable} tools=${tools} onCall=${setCalling} />
    ${calling && html`<${Call} tool=${calling} onClose=${() => setCalling(null)} />`}`
}

function ToolTable({ tools, onCall }) {
  const [adding, setAdding] = useState(false)
  const remove = useAction(async (name) => {
    await askAsOperator(`/v1/tools/${encodeURIComponent(name)}`, { method: "DELETE" })
    tools.reload()
  })
  const items = tools.value?.items ?? []
  return html`<section class="panel" aria-label="All tools">
    <div class="row">
      <h2 class="grow">Tools</h2>
      ${keys().admin && html`<button type="button" onClick=${() => setAdding(true)}>Add an endpoint …</button>`}
    </div>
    <${Loading} of=${tools} empty=${items.length === 0} what="No worker has published a tool." />
    <${Problem} error=${remove.error} />
    <div class="scroll" tabindex="0" role="region" aria-label="Tools">
      <table>
        <thead><tr><th>Tool</th><th>Effect</th><th>Approval</th><th>Queue</th><th>State</th><th>Seen</th>
          <th></th></tr></thead>
        <tbody>${items.map(
          (tool) => html`<tr key=${tool.name}>
          <td><code>${tool.name}</code><br /><span class="quiet">${clip(tool.description, 100)}</span>
            ${tool.endpoint && html`<br /><code>${tool.endpoint.method} ${clip(tool.endpoint.place, 100)}</code>`}</td>
          <td>${tool.effect}</td><td>${tool.approval}</td><td>${tool.queue}</td>
          <td><${ToolState} of=${tool} /></td>
          <td><${When} at=${tool.seen_at} /></td>
          <td><button type="button" onClick=${() => onCall(tool)} aria-label=${`Try ${tool.name}`}>Try …</button>
            ${
              tool.endpoint &&
              keys().admin &&
              html` <${Act} action=${remove} args=${[tool.name]} danger confirm=${`Remove ${tool.name}?`}>Remove<//>`
            }</td>
        </tr>`,
        )}</tbody>
      </table>
    </div>
    ${
      adding &&
      html`<${AddDialog} title="Add an endpoint of HTTP" hint=${ENDPOINT_HINT} example=${ENDPOINT}
      add=${addEndpoints} onClose=${() => setAdding(false)} onAdded=${tools.reload} />`
    }
  </section>`
}

/** Register endpoints; returns what was left out and what there is to do. */
async function addEndpoints(body) {
  const { left_out: left, warning } = await askAsOperator("/v1/tools", { method: "POST", body })
  return [warning, ...left.map(({ operation, why }) => `${operation} is left out: ${why}`)].filter(Boolean).join("; ")
}

function ToolState({ of: tool }) {
  if (tool.endpoint?.problem) return html`<span class="problem">${tool.endpoint.problem}</span>`
  if (!tool.alive) return html`<span class="problem">no worker has it</span>`
  if (tool.missing_env?.length) return html`<span class="warn">lacks ${tool.missing_env.join(", ")}</span>`
  if (tool.refused) return html`<span class="warn">${tool.refused}</span>`
  return html`<span class="good">ready</span>${tool.waiting ? ` ${tool.waiting} wait` : ""}`
}

/** A durable call of a tool outside any conversation, with the decision or the sign-in that it waits for. */
function Call({ tool, onClose }) {
  const [args, setArgs] = useState({})
  const [user, setUser] = useState("")
  const call = useAction(() => {
    const body = { args, ...(user ? { user_id: user } : {}) }
    return ask(`/v1/tools/${encodeURIComponent(tool.name)}/call`, { method: "POST", body })
  })
  return html`<${Dialog} title=${`Try ${tool.name}`} onClose=${onClose}>
    <p>${tool.description}</p>
    <details><summary>Parameters</summary><${Value} of=${tool.parameters} label="parameters" /></details>
    <${JsonField} label="Arguments" value=${args} onChange=${setArgs} />
    <label class="field">As user (left out: of the tenant)
      <input value=${user} onInput=${(event) => setUser(event.target.value.trim())} /></label>
    <button type="button" class="primary" disabled=${call.busy || args === undefined}
      onClick=${() => call.run()}>Call</button>
    <${Problem} error=${call.error} />
    ${call.done && html`<${Run} key=${call.done.call_id} id=${call.done.call_id} />`}
  <//>`
}

/** A call as far as it has come. */
function Run({ id }) {
  const [ended, setEnded] = useState(false)
  const run = useLoaded((signal) => runOf(id, signal), [id, ended], { every: ended ? 0 : FOLLOWED_MS, of: id })
  const { call, waits } = run.value ?? {}
  const isOver = ENDED.includes(call?.status)
  useEffect(() => setEnded(isOver), [isOver])
  if (!call) return html`<${Loading} of=${run} />`
  return html`<div role="status">
    <p><${Status} of=${call.status} /> ${call.task_id && html`<${TaskLink} id=${call.task_id} />`}</p>
    ${waits.map((each) => html`<${Approval} key=${each.tool_call_id} of=${each} onDecided=${run.reload} />`)}
    <${Problem} error=${run.error} />
    ${isOver && html`<${Value} of=${call.result ?? call.error} label="result" />`}
  </div>`
}

async function runOf(id, signal) {
  const call = await ask(`/v1/tools/calls/${encodeURIComponent(id)}`, { query: { wait: 1 }, signal })
  if (call.status !== "waiting") return { call, waits: [] }
  const { items } = await ask("/v1/approvals", { query: { limit: MAX_WAITING }, signal })
  return { call, waits: items.filter((each) => each.task_id === call.task_id) }
}

/** `tools`: all that there are, among which a server's own is for signing in to it. */
function Servers({ tools, onCall }) {
  const servers = useLoaded((signal) => ask("/v1/tools/servers", { signal }), [], { every: EVERY_MS })
  const [adding, setAdding] = useState(false)
  const remove = useAction(async (name) => {
    await askAsOperator(`/v1/tools/servers/${encodeURIComponent(name)}`, { method: "DELETE" })
    servers.reload()
  })
  const items = servers.value?.items ?? []
  return html`<section class="panel" aria-label="MCP servers">
    <div class="row">
      <h2 class="grow">MCP servers</h2>
      ${keys().admin && html`<button type="button" onClick=${() => setAdding(true)}>Add a server …</button>`}
    </div>
    <${Loading} of=${servers} empty=${items.length === 0} what="There is none." />
    ${items.map(
      (server) => html`<${Server} key=${server.name} of=${server} remove=${remove}
      signIn=${tools.find((tool) => tool.name === signInOf(server.name))} onCall=${onCall} />`,
    )}
    <${Problem} error=${remove.error} />
    ${
      adding &&
      html`<${AddDialog} title="Add an MCP server" hint=${SERVER_HINT} example=${SERVER} add=${addServers}
      onClose=${() => setAdding(false)} onAdded=${servers.reload} />`
    }
  </section>`
}

function Server({ of: server, remove, signIn, onCall }) {
  const kind = { ready: "completed", connecting: "active" }[server.condition] ?? "waiting"
  return html`<div class="panel" role="group" aria-label=${server.name}>
    <div class="row">
      <h3 class="grow"><code>${server.name}</code> <span class="quiet">${clip(server.place, 80)}</span></h3>
      <span class="status ${kind}">${server.condition.replaceAll("_", " ")}</span>
      ${signIn && html`<button type="button" onClick=${() => onCall(signIn)}>Sign in …</button>`}
      ${
        server.source === "registered" &&
        keys().admin &&
        html`<${Act} action=${remove} args=${[server.name]} danger confirm=${`Remove ${server.name}?`}>Remove<//>`
      }
    </div>
    <p class="quiet">${count(server.tools)} tools; ready in ${server.ready} of ${server.workers} tool-workers</p>
    ${server.error && html`<p class="problem">${server.error}</p>`}
    <details><summary>All that is known of it</summary><${Value} of=${server} label=${server.name} /></details>
  </div>`
}

/** Register a server, or those of a whole file; returns what there is to know about them. */
async function addServers(body) {
  const entries = body.mcpServers
    ? Object.entries(body.mcpServers).map(([name, entry]) => ({ ...entry, name }))
    : [body]
  const told = []
  for (const entry of entries) {
    const { warning } = await askAsOperator("/v1/tools/servers", { method: "POST", body: entry })
    if (warning) told.push(warning)
  }
  return told.join("; ")
}

/** The tool by which a person signs in to a server that shows its own to nobody else. */
const signInOf = (server) => `${server.replace(/[^\w-]/g, "_").replace(/_{2,}/g, "_")}__sign_in`

function Plugins() {
  const plugins = useLoaded((signal) => ask("/v1/plugins", { signal }), [])
  const reload = useAction(async () => {
    await askAsOperator("/v1/plugins/reload", { method: "POST", query: { wait: 20 } })
    plugins.reload()
  })
  return html`<section class="panel">
    <h2>Plug-ins</h2>
    <${Loading} of=${plugins} />
    ${
      plugins.value &&
      html`${plugins.value.warning && html`<p class="quiet">${plugins.value.warning}</p>`}
      <details><summary>${plugins.value.workers.length} workers have some</summary>
        <${Value} of=${plugins.value} label="plug-ins" /></details>
      <${Act} action=${reload}>Import them anew<//>`
    }
    <${Problem} error=${reload.error} />
  </section>`
}
