// Long-term memory: found by a question with its score parts, drawn as a graph, and opened at the very sentence.
import { ask } from "../client.js"
import { clip, count, duration } from "../format.js"
import { html, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Act, Dialog, JsonField, Loading, Problem, TaskLink, When } from "../parts/basics.js"
import { addressOf, go } from "../router.js"
import { AnchorView } from "./anchor.js"
import { GrowingGraph } from "./growing_graph.js"
import { NodeView } from "./node.js"

const STATS_MS = 2_000
const KINDS = ["", "episodic", "semantic", "working"]
const DAY_MS = 86_400_000
const DAYS_BACK = 90
const OF_WHOM = " of the whole tenant. Most of what is said belongs to a user or a session: name one above"
/** Nodes that are drawn around the hits of a search. */
const FEW_NODES = 200

/** `#/memory?q=...`, `#/memory/nodes/ID`, `#/memory/anchor/ANCHOR`. */
export function MemoryView({ place: { parts, query } }) {
  const [, kind, name] = parts
  if (kind === "anchor") return html`<${AnchorView} key=${name} anchor=${name} />`
  if (kind === "nodes") return html`<${NodeView} key=${name} id=${name} query=${query} />`
  return html`<${SearchView} query=${query} />`
}

function SearchView({ query }) {
  const [adding, setAdding] = useState(false)
  return html`<div class="row">
      <h1 class="grow">Memory</h1>
      <button type="button" onClick=${() => setAdding(true)}>Add what you know …</button>
    </div>
    <${Stats} />
    <${SearchForm} query=${query} />
    ${
      query.get("q")
        ? html`<${Hits} query=${query} />`
        : html`<p class="quiet">Ask for something that was said in an earlier task.</p>`
    }
    ${adding && html`<${Add} onClose=${() => setAdding(false)} />`}`
}

function Stats() {
  const stats = useLoaded((signal) => ask("/v1/memory/stats", { signal }), [], { every: STATS_MS })
  if (!stats.value) return html`<${Loading} of=${stats} />`
  const { segments, tasks, nodes, edges, lag_s: lag, extraction } = stats.value
  return html`<div class="tiles" aria-label="How much is remembered">
    ${[
      [count(segments), "segments"],
      [count(tasks), "tasks"],
      [count(nodes), "nodes"],
      [count(edges), "edges"],
      [lag === null ? "–" : duration(lag * 1000), "behind"],
      ...(extraction ? [[count(extraction.tokens), `of ${count(extraction.most)} tokens today`]] : []),
    ].map(([figure, name]) => html`<div class="tile" key=${name}><b>${figure}</b><span>${name}</span></div>`)}
  </div>`
}

function SearchForm({ query }) {
  const [days, setDays] = useState(() => daysBack(query.get("as_of")))
  const submit = (event) => {
    event.preventDefault()
    const given = new FormData(event.target)
    const asOf = days > 0 ? new Date(Date.now() - days * DAY_MS).toISOString() : ""
    go(["memory"], { ...Object.fromEntries(given), as_of: asOf })
  }
  return html`<form class="panel" role="search" onSubmit=${submit}>
    <div class="row">
      <input class="grow" type="search" name="q" aria-label="Question" placeholder="my cat" required
        defaultValue=${query.get("q") ?? ""} />
      <button class="primary">Search</button>
    </div>
    <div class="row">
      <label>User <input name="user_id" size="10" defaultValue=${query.get("user_id") ?? ""} /></label>
      <label>Session <input name="session_id" size="12" defaultValue=${query.get("session_id") ?? ""} /></label>
      <label>Kind <select name="kind">${KINDS.map(
        (kind) => html`<option value=${kind} selected=${kind === (query.get("kind") ?? "")}>${kind || "all"}</option>`,
      )}</select></label>
      <label class="grow">As of ${days > 0 ? new Date(Date.now() - days * DAY_MS).toLocaleDateString() : "now"}
        <input type="range" min=${-DAYS_BACK} max="0" value=${-days} aria-label="Days back"
          onInput=${(event) => setDays(-Number(event.target.value))} />
      </label>
    </div>
  </form>`
}

function daysBack(asOf) {
  if (!asOf) return 0
  const days = Math.round((Date.now() - new Date(asOf).getTime()) / DAY_MS)
  return Math.min(Math.max(days, 0) || 0, DAYS_BACK)
}

function Hits({ query }) {
  const given = Object.fromEntries(
    ["q", "user_id", "session_id", "kind", "as_of"].map((name) => [name, query.get(name) || undefined]),
  )
  const found = useLoaded(
    (signal) => ask("/v1/memory/search", { query: { ...given, limit: 20 }, signal }),
    [query.toString()],
  )
  const owner = { user_id: given.user_id, session_id: given.session_id }
  const [graph, setGraph] = useState(false)
  const hits = found.value?.hits ?? []
  const words = `Nothing of that kind is remembered${owner.user_id || owner.session_id ? "" : OF_WHOM}.`
  const known = hits.filter((hit) => hit.kind === "semantic")
  return html`<${Loading} of=${found} empty=${hits.length === 0} what=${words} />
    ${
      known.length > 0 &&
      html`<p><button type="button" aria-pressed=${graph} onClick=${() => setGraph(!graph)}>
      ${graph ? "Hide" : "Show"} the graph around the hits</button></p>`
    }
    ${graph && html`<${Around} hits=${known} owner=${owner} asOf=${given.as_of} />`}
    <ol class="plain">${hits.map(
      (hit) => html`<${Hit} key=${hit.id} of=${hit} owner=${owner} asOf=${given.as_of} onForgotten=${found.reload} />`,
    )}</ol>`
}

function Hit({ of: hit, owner, asOf, onForgotten }) {
  const forget = useAction(async () => {
    await ask("/v1/memory/forget", {
      method: "POST",
      body: { ids: [hit.id], ...(owner.user_id ? { user_id: owner.user_id } : {}) },
    })
    onForgotten()
  })
  return html`<li class="panel hit">
    <p>${clip(hit.content, 600)}</p>
    <div class="row quiet">
      <span class="badge">${hit.kind} ${hit.type}</span>
      <${When} at=${hit.at} />
      <${TaskLink} id=${hit.task_id} />
      ${hit.true_until && html`<span class="warn">true until <${When} at=${hit.true_until} /></span>`}
    </div>
    <${Score} of=${hit} />
    <div class="row">
      <a class="button" href=${addressOf(["memory", "anchor", hit.anchor])}>Open the sentence</a>
      ${
        hit.kind === "semantic" &&
        html`<a class="button" href=${addressOf(["memory", "nodes", hit.id], { ...owner, as_of: asOf })}>
          What lies around</a>`
      }
      <${Act} action=${forget} danger confirm="Let this not be found any more?">Forget<//>
    </div>
    <${Problem} error=${forget.error} />
  </li>`
}

/** The parts of a score as lengths, each with its name and share. */
function Score({ of: { score, parts } }) {
  const most = Math.max(score, ...Object.values(parts), 0.001)
  return html`<details>
    <summary>Score ${score.toFixed(3)}</summary>
    <ul class="plain parts">
      ${Object.entries(parts)
        .sort(([, a], [, b]) => b - a)
        .map(
          ([name, value]) =>
            html`<li key=${name}><span>${name.replaceAll("_", " ")}</span>
              <meter min="0" max=${most} value=${value} aria-label=${name}></meter><span>
              ${value.toFixed(3)}</span></li>`,
        )}
    </ul>
  </details>`
}

/** The graph around the nodes among the hits. */
function Around({ hits, owner, asOf }) {
  const walk = { depth: 2, as_of: asOf, ...owner }
  return html`<${GrowingGraph} starts=${hits.map((hit) => hit.id)} wanted=${FEW_NODES} walk=${walk}
    onChoose=${(id) => go(["memory", "nodes", id], { ...owner, as_of: asOf })} />`
}

function Add({ onClose }) {
  const [metadata, setMetadata] = useState({})
  const add = useAction((body) => ask("/v1/memory/nodes", { method: "POST", body }))
  const owner = { user_id: add.done?.user_id, session_id: add.done?.session_id }
  const submit = (event) => {
    event.preventDefault()
    const given = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value))
    add.run({ ...given, ...(Object.keys(metadata ?? {}).length ? { metadata } : {}) })
  }
  return html`<${Dialog} title="Add what you know" onClose=${onClose}>
    ${
      add.done
        ? html`<p>It is kept, and rests on your statement.</p><p class="row">
          <a class="button" href=${addressOf(["memory", "nodes", add.done.id], owner)} onClick=${onClose}>Open it</a>
          </p>`
        : html`<form onSubmit=${submit}>
          <label class="field">Text<textarea name="text" rows="3" required /></label>
          <label class="field">Kind <select name="kind">
            ${["fact", "concept", "procedure", "question", "answer"].map(
              (kind) => html`<option>${kind}</option>`,
            )}</select></label>
          <label class="field">User whose it is <input name="user_id" /></label>
          <${JsonField} label="Data kept with it, as JSON" value=${metadata} onChange=${setMetadata} rows=${3} />
          <${Problem} error=${add.error} />
          <div class="row end"><button class="primary" disabled=${add.busy || metadata === undefined}>Add</button></div>
        </form>`
    }
  <//>`
}
