// Tools, the servers that offer some of them, and plug-ins.
import { ask, askAsOperator } from "../client.js"
import { clip } from "../format.js"
import { html, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Act, Dialog, JsonField, Loading, Problem, Value, When } from "../parts/basics.js"

const EVERY_MS = 3_000

export function Tools() {
  return html`<${Servers} /><${Plugins} /><${ToolTable} />`
}

function ToolTable() {
  const tools = useLoaded((signal) => ask("/v1/tools", { signal }), [], { every: EVERY_MS })
  const [calling, setCalling] = useState(null)
  const items = tools.value?.items ?? []
  return html`<section class="panel">
    <h2>Tools</h2>
    <${Loading} of=${tools} empty=${items.length === 0} what="No worker has published a tool." />
    <div class="scroll" tabindex="0" role="region" aria-label="Tools">
      <table>
        <thead><tr><th>Tool</th><th>Effect</th><th>Approval</th><th>Queue</th><th>State</th><th>Seen</th><th></th></tr></thead>
        <tbody>${items.map(
          (tool) => html`<tr key=${tool.name}>
          <td><code>${tool.name}</code><br /><span class="quiet">${clip(tool.description, 100)}</span></td>
          <td>${tool.effect}</td><td>${tool.approval}</td><td>${tool.queue}</td>
          <td><${ToolState} of=${tool} /></td>
          <td><${When} at=${tool.seen_at} /></td>
          <td><button type="button" onClick=${() => setCalling(tool)} aria-label=${`Try ${tool.name}`}>Try …</button></td>
        </tr>`,
        )}</tbody>
      </table>
    </div>
    ${calling && html`<${Call} tool=${calling} onClose=${() => setCalling(null)} />`}
  </section>`
}

function ToolState({ of: tool }) {
  if (!tool.alive) return html`<span class="problem">no worker has it</span>`
  if (tool.missing_env?.length) return html`<span class="warn">lacks ${tool.missing_env.join(", ")}</span>`
  if (tool.refused) return html`<span class="warn">${tool.refused}</span>`
  return html`<span class="good">ready</span>${tool.waiting ? ` ${tool.waiting} wait` : ""}`
}

/** A durable call of a tool outside any conversation. */
function Call({ tool, onClose }) {
  const [args, setArgs] = useState({})
  const call = useAction(() =>
    ask(`/v1/tools/${encodeURIComponent(tool.name)}/call`, { method: "POST", body: { args, wait: 20 } }),
  )
  return html`<${Dialog} title=${`Try ${tool.name}`} onClose=${onClose}>
    <p>${tool.description}</p>
    <details><summary>Parameters</summary><${Value} of=${tool.parameters} label="parameters" /></details>
    <${JsonField} label="Arguments" value=${args} onChange=${setArgs} />
    <button type="button" class="primary" disabled=${call.busy || args === undefined} onClick=${() => call.run()}>Call</button>
    <${Problem} error=${call.error} />
    ${call.done && html`<${Value} of=${call.done} label="result" />`}
  <//>`
}

function Servers() {
  const servers = useLoaded((signal) => ask("/v1/tools/servers", { signal }), [], { every: EVERY_MS })
  const remove = useAction(async (name) => {
    await askAsOperator(`/v1/tools/servers/${encodeURIComponent(name)}`, { method: "DELETE" })
    servers.reload()
  })
  const items = servers.value?.items ?? []
  return html`<section class="panel">
    <h2>MCP servers</h2>
    <${Loading} of=${servers} empty=${items.length === 0} what="There is none." />
    ${items.map(
      (
        server,
      ) => html`<details key=${server.name}><summary><code>${server.name}</code> ${server.state ?? ""} ${server.problem ? html`<span class="problem">${server.problem}</span>` : ""}</summary>
      <${Value} of=${server} label=${server.name} />
      <${Act} action=${remove} args=${[server.name]} danger confirm="Remove this server?">Remove<//></details>`,
    )}
    <${Problem} error=${remove.error} />
  </section>`
}

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
      <details><summary>${plugins.value.workers.length} workers have some</summary><${Value} of=${plugins.value} label="plug-ins" /></details>
      <${Act} action=${reload}>Import them anew<//>`
    }
    <${Problem} error=${reload.error} />
  </section>`
}
