// Registries: models, instructions, graphs and approval policies: listed, shown, compared, added and tried out.
import { ask, askAsOperator } from "../client.js"
import { clip, time } from "../format.js"
import { html, useMemo, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Act, Dialog, JsonField, Loading, Problem, Status, Tabs, TaskLink, Value } from "../parts/basics.js"
import { drawn } from "../parts/flow_shape.js"
import { FlowView } from "../parts/flow_view.js"
import { addressOf, go } from "../router.js"
import { Difference } from "./difference.js"
import { ForOperators } from "./for_operators.js"

/**
 * `name`: the field that names an entry; `shown`: what the list tells of one, below `heads`; `example`: a first entry
 * to edit.
 */
const REGISTRIES = {
  models: {
    title: "Models",
    path: "/v1/models",
    name: "id",
    heads: ["Kind", "Model", "Health"],
    shown: (each) => [each.kind, each.model, each.health?.state ?? ""],
    example: { id: "fast", kind: "llm", protocol: "openai", endpoint: "http://127.0.0.1:11434/v1", model: "qwen3" },
  },
  instructions: {
    title: "Instructions",
    path: "/v1/instructions",
    name: "name",
    heads: ["Description", "Model", "Version"],
    shown: (each) => [each.description, each.model ?? "default model", each.version],
    example: { name: "poet", description: "Writes a short poem.", system_prompt: "You write short poems." },
  },
  graphs: {
    title: "Graphs",
    path: "/v1/graphs",
    name: "name",
    heads: ["Description", "Size", "Version"],
    shown: (each) => [each.description, `${each.nodes?.length ?? 0} nodes`, each.version],
    example: {
      name: "writer",
      nodes: [{ key: "draft", kind: "llm", system_prompt: "Write it." }],
      edges: [],
      entry: "draft",
      ends: ["draft"],
    },
  },
  policies: {
    title: "Policies",
    path: "/v1/approval-policies",
    name: "name",
    admin: true,
    heads: ["Tool", "Then", "Reason"],
    shown: (each) => [each.tool ?? "all tools", each.then, each.reason ?? ""],
    example: { name: "ask-before-mail", tool: "mail_*", then: "ask", reason: "It leaves the house." },
  },
}

/** `#/registries/KIND`, `#/registries/KIND/NAME`. */
export function RegistriesView({ place: { parts } }) {
  const kind = Object.hasOwn(REGISTRIES, parts[1]) ? parts[1] : "models"
  const registry = REGISTRIES[kind]
  const view = html`<${Registry} key=${kind} kind=${kind} registry=${registry} chosen=${parts[2]} />`
  return html`<h1>Registries</h1>
    <${Tabs} label="Registries" at=${registry.title}
      of=${Object.entries(REGISTRIES).map(([key, each]) => [each.title, addressOf(["registries", key])])} />
    ${registry.admin ? html`<${ForOperators}>${view}<//>` : view}`
}

function Registry({ kind, registry, chosen }) {
  const [adding, setAdding] = useState(null)
  const entries = useLoaded((signal) => (registry.admin ? askAsOperator : ask)(registry.path, { signal }), [kind])
  const items = entries.value?.items ?? []
  const entry = items.find((each) => each[registry.name] === chosen)
  return html`<p><button type="button" onClick=${() => setAdding(registry.example)}>Add …</button></p>
    <${Loading} of=${entries} empty=${items.length === 0} what="There is none." />
    ${chosen && entries.value && !entry && html`<p class="problem">There is no ${chosen}.</p>`}
    ${
      entry &&
      html`<${Entry} key=${chosen} kind=${kind} registry=${registry} entry=${entry} others=${items}
      onChange=${setAdding} onRemoved=${entries.reload} />`
    }
    <div class="scroll" tabindex="0" role="region" aria-label=${registry.title}>
      <table>
        <thead><tr>${["Name", "Source", ...registry.heads].map((head) => html`<th>${head}</th>`)}</tr></thead>
        <tbody>${items.map(
          (each) => html`<tr key=${each[registry.name]}>
          <td><a href=${addressOf(["registries", kind, each[registry.name]])}>${each[registry.name]}</a></td>
          <td>${each.source ?? ""}</td>
          ${registry.shown(each).map((text) => html`<td>${clip(String(text ?? ""), 110)}</td>`)}
        </tr>`,
        )}</tbody>
      </table>
    </div>
    ${
      adding &&
      html`<${Add} registry=${registry} value=${adding} entries=${items} onClose=${() => setAdding(null)}
      onAdded=${entries.reload} />`
    }`
}

/** What the gateway adds to an entry, and does not take back. */
const TOLD = ["source", "version", "health", "default", "problem", "missing", "shadowed_by"]

function Entry({ kind, registry, entry, others, onChange, onRemoved }) {
  const name = entry[registry.name]
  const own = useMemo(() => statedOf(entry), [entry])
  const remove = useAction(async () => {
    await askAsOperator(`${registry.path}/${encodeURIComponent(name)}`, { method: "DELETE" })
    onRemoved()
    go(["registries", kind])
  })
  return html`<section class="panel" aria-label=${name}>
    <div class="row">
      <h2 class="grow">
        ${name} <span class="badge">${entry.source ?? ""}</span> <span class="quiet">${entry.version ?? ""}</span>
      </h2>
      <button type="button" onClick=${() => onChange(own)}>Edit …</button>
      ${entry.source === "registered" && html`<${Act} action=${remove} danger confirm=${`Remove ${name}?`}>Remove<//>`}
    </div>
    <${Problem} error=${remove.error} />
    ${kind === "graphs" && html`<${Drawing} graph=${entry} />`}
    ${entry.health && html`<p>Health: <${Status} of=${entry.health.state} /> ${entry.health.error ?? ""}</p>`}
    <${Compared} registry=${registry} entry=${entry} own=${own} others=${others} onChange=${onChange} />
    <${Try} kind=${kind} name=${name} entry=${entry} />
  </section>`
}

/** The entry, alone or beside an earlier version of its own or another entry. */
function Compared({ registry, entry, own, others, onChange }) {
  const name = entry[registry.name]
  const [beside, setBeside] = useState("")
  const versions = useLoaded(
    (signal) =>
      (registry.admin ? askAsOperator : ask)(`${registry.path}/${encodeURIComponent(name)}/versions`, { signal }),
    [entry],
  )
  const kept = (versions.value?.items ?? []).filter((version) => version.entry)
  const now = statedOf(kept[0]?.entry ?? entry)
  const choices = new Map([
    ...kept
      .slice(1)
      .map((each, i) => [`${i + 1} before, ${time(each.at)}`, { before: statedOf(each.entry), after: now }]),
    ...others
      .filter((each) => each !== entry)
      .map((each) => [each[registry.name], { before: statedOf(each), after: own }]),
  ])
  const other = choices.get(beside)
  return html`<div class="row">
      <label>
        Compare with${" "}
        <select value=${beside} onChange=${(event) => setBeside(event.target.value)}>
          <option value="">…</option>
          ${[...choices.keys()].map((title) => html`<option key=${title}>${title}</option>`)}
        </select>
      </label>
      ${
        other &&
        html`<button type="button"
        onClick=${() => onChange({ ...other.before, [registry.name]: name })}>Take this one …</button>`
      }
    </div>
    <${Problem} error=${versions.error} />
    ${
      other
        ? html`<${Difference} before=${other.before} after=${other.after} titles=${[beside, name]} />`
        : html`<${Value} of=${entry} label=${name} />`
    }`
}

/** An entry as it is registered: without what the gateway adds, and without what is left to it. */
function statedOf(entry) {
  return Object.fromEntries(Object.entries(entry).filter(([key, value]) => !TOLD.includes(key) && value !== null))
}

function Drawing({ graph }) {
  const { nodes, edges } = useMemo(() => drawn(graph), [graph])
  return html`<${FlowView} nodes=${nodes} edges=${edges} label=${`Graph ${graph.name}`} />`
}

/** Run an instruction or a graph with an input, or ask a model once. */
function Try({ kind, name, entry }) {
  const [text, setText] = useState("")
  const run = useAction(() =>
    kind === "models"
      ? ask(`/v1/models/${encodeURIComponent(name)}/complete`, {
          method: "POST",
          body: { messages: [{ role: "user", content: text }] },
          timeoutMs: 120_000,
        })
      : ask(`/v1/instructions/${encodeURIComponent(name)}/run`, {
          method: "POST",
          query: { wait: 50 },
          body: { input: text },
        }),
  )
  if (kind === "policies") return html`<${TryPolicies} tool=${entry.tool} />`
  if (kind === "models" && entry.kind !== "llm") return null
  const submit = (event) => {
    event.preventDefault()
    run.run()
  }
  return html`<form onSubmit=${submit}>
    <label class="field">Try it with this input <textarea rows="2" required value=${text}
      onInput=${(event) => setText(event.target.value)} /></label>
    <button disabled=${run.busy}>${run.busy ? "It runs …" : "Run"}</button>
    <${Problem} error=${run.error} />
    ${
      run.done &&
      html`<div role="status">
      ${run.done.task_id && html`<p>Task <${TaskLink} id=${run.done.task_id} /></p>`}
      <${Value} of=${run.done.content ?? run.done.data ?? run.done} label="result" /></div>`
    }
  </form>`
}

/** What all policies together say about a tool call, which is not made. */
function TryPolicies({ tool }) {
  const [call, setCall] = useState({ tool: tool && !tool.includes("*") ? tool : "echo", args: {} })
  const say = useAction(() => askAsOperator("/v1/approval-policies/try", { method: "POST", body: call }))
  return html`<${JsonField} label="Try it with this call" value=${call} onChange=${setCall} rows=${5} />
    <button type="button" disabled=${say.busy || call === undefined} onClick=${() => say.run()}>
      Ask the policies</button>
    <${Problem} error=${say.error} />
    ${
      say.done &&
      html`<p role="status">
        ${say.done.then && html`<b>${say.done.then}</b>, by ${say.done.policy}`}
        ${!say.done.then && "No policy fits: the tool itself decides."}
        ${" "}${say.done.reason}
      </p>`
    }`
}

/** Add or change an entry; what differs from the one in use is shown before it is sent. */
function Add({ registry, value, entries, onClose, onAdded }) {
  const [entry, setEntry] = useState(value)
  const before = entries.find((each) => each[registry.name] === entry?.[registry.name])
  const add = useAction(async () => {
    await askAsOperator(registry.path, { method: "POST", body: entry })
    onAdded()
    onClose()
  })
  return html`<${Dialog} title=${`Add to ${registry.title.toLowerCase()}`} onClose=${onClose} wide>
    <${JsonField} label="Entry" value=${value} onChange=${setEntry} rows=${16} />
    ${
      before &&
      entry &&
      html`<details open><summary>What changes</summary>
      <${Difference} before=${statedOf(before)} after=${entry} titles=${["in use", "new"]} /></details>`
    }
    <${Problem} error=${add.error} />
    <div class="row end"><button type="button" class="primary" disabled=${add.busy || entry === undefined}
      onClick=${() => add.run()}>Register</button></div>
  <//>`
}
