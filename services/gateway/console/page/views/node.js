// One thing that is known: the statements that it rests on, and what lies around it.
import { ask } from "../client.js"
import { count } from "../format.js"
import { html, useMemo, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Act, Loading, Problem, TaskLink, Value, When } from "../parts/basics.js"
import { addressOf, go } from "../router.js"
import { GrowingGraph } from "./growing_graph.js"
import { MAX_NODES } from "./neighbourhood.js"

/** Nodes of a walk that are listed below its drawing. */
const MAX_ROWS = 100

export function NodeView({ id, query }) {
  const owner = { user_id: query.get("user_id") || undefined, session_id: query.get("session_id") || undefined }
  const node = useLoaded((signal) => ask(`/v1/memory/nodes/${id}`, { query: owner, signal }), [id, query.toString()])
  const remove = useAction(async () => {
    await ask(`/v1/memory/nodes/${id}`, { method: "DELETE", query: owner })
    history.back()
  })
  if (!node.value) return html`<h1>Known</h1><${Loading} of=${node} />`
  const { text, kind, supports, supported_by: supported, metadata, source, importance } = node.value
  const { true_from: from, true_until: until } = node.value
  return html`<section class="panel">
      <h1>${text}</h1>
      <dl class="facts">
        <dt>Kind</dt><dd>${kind}, importance ${importance.toFixed(2)}</dd>
        <dt>True</dt><dd>from <${When} at=${from} /> until ${until ? html`<${When} at=${until} />` : "now"}</dd>
        <dt>Learned</dt><dd><${When} at=${node.value.learned_at} />
          ${source?.by_hand && ", added by a person"}
          ${source && !source.by_hand && html`, from <${TaskLink} id=${source.task_id} />`}</dd>
        <dt>Whose</dt><dd>${whose(node.value)}</dd>
      </dl>
      ${Object.keys(metadata ?? {}).length > 0 && html`<${Value} of=${metadata} label="data kept with it" />`}
      <${Act} action=${remove} danger confirm="Take it away with its edges?">Take away<//>
      <${Problem} error=${remove.error} />
    </section>
    <section class="panel">
      <h2>Rests on ${count(supported)} statements</h2>
      <ul>${supports.map(
        (each) => html`<li key=${each.anchor}>
        <a href=${addressOf(["memory", "anchor", each.anchor])}>The sentence</a>
        ${" "}of <${When} at=${each.at} />, <${TaskLink} id=${each.task_id} /></li>`,
      )}</ul>
    </section>
    <${Walk} id=${id} owner=${owner} asOf=${query.get("as_of") ?? ""} />`
}

function whose({ user_id: user, session_id: session }) {
  if (user) return `user ${user}`
  return session ? `session ${session}` : "the whole tenant"
}

function Walk({ id, owner, asOf }) {
  const [form, setForm] = useState({ depth: 2, wanted: 200, strategy: "bfs", day: asOf.slice(0, 10) })
  const set = (name) => (event) =>
    setForm({ ...form, [name]: event.target.type === "number" ? Number(event.target.value) : event.target.value })
  const [found, setFound] = useState([])
  const path = useMemo(() => pathIn(found), [found])
  const walk = { depth: form.depth, strategy: form.strategy, as_of: form.day ? `${form.day}T23:59:59Z` : "", ...owner }
  return html`<section class="panel">
    <div class="row">
      <h2 class="grow">Around it</h2>
      <label>Depth <input type="number" min="0" max="6" defaultValue=${form.depth} onChange=${set("depth")} /></label>
      <label>Nodes <input type="number" min="1" max=${MAX_NODES} defaultValue=${form.wanted}
        onChange=${set("wanted")} /></label>
      <label>Order <select value=${form.strategy} onChange=${set("strategy")}>
        <option value="bfs">breadth first</option><option value="dfs">depth first</option>
        <option value="astar">heaviest edges first</option></select></label>
      <label>As of <input type="date" defaultValue=${form.day} onChange=${set("day")} /></label>
    </div>
    <${GrowingGraph} starts=${[id]} wanted=${form.wanted} walk=${walk} chosen=${id} onGrown=${setFound}
      onChoose=${(other) => go(["memory", "nodes", other], { ...owner, as_of: walk.as_of })} />
    <div class="scroll" tabindex="0" role="region" aria-label="Nodes in the order of the walk">
      <table>
        <thead><tr><th>Reached</th><th>Kind</th><th class="number">Depth</th><th class="number">Cost</th>
          <th>Path</th></tr></thead>
        <tbody>
          ${found.slice(0, MAX_ROWS).map(
            (node) => html`<tr key=${node.id}>
            <td><a href=${addressOf(["memory", "nodes", node.id], owner)}>${node.text}</a></td>
            <td>${node.kind}</td>
            <td class="number">${node.depth}</td>
            <td class="number">${node.cost.toFixed(2)}</td>
            <td class="quiet">${path(node)}</td>
          </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`
}

/** A function that tells the way from the start of a walk to one of its nodes. */
function pathIn(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  return (node) => {
    const way = []
    for (let at = byId.get(node.came_from); at && way.length < 8; at = byId.get(at.came_from)) way.unshift(at.text)
    return way.join(" → ")
  }
}
