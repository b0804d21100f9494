// The path of a task through its graph, drawn on the graph.
import { ask } from "../client.js"
import { duration } from "../format.js"
import { html, useMemo } from "../html.js"
import { useLoaded } from "../loading.js"
import { Problem, Status, TaskLink, Value } from "../parts/basics.js"
import { FlowView } from "../parts/flow_view.js"
import { drawn, END, START } from "../parts/flow_shape.js"

const ENDED = ["completed", "failed", "cancelled"]
const LIVE_MS = 500
const CONFLICT = 409

/** `called`: whether the task has started others, as an instruction does that calls agents. */
export function PathView({ task, steps, called }) {
  const live = !ENDED.includes(task.status)
  const has = called || steps.some((step) => step.manifest.graph_version)
  const path = useLoaded((signal) => pathOf(task, has, signal), [task.task_id, task.status, has], {
    every: live ? LIVE_MS : 0,
    of: task.task_id,
  })
  if (path.error) return html`<${Problem} error=${path.error} />`
  if (!path.value?.run) return null
  return html`<${Path} of=${path.value} />`
}

function Path({ of: { run, graph } }) {
  const { nodes, edges } = useMemo(() => drawn(graph ?? asGraph(run)), [graph, run.path.length])
  const { visits, passed } = useMemo(() => marksOf(run), [run])
  return html`<section class="panel" aria-label="Path through the graph">
    <h2>${run.graph} <span class="quiet">
      ${run.graph_version ?? ""} · ${run.iterations} visits · ${duration(run.duration_ms)}</span></h2>
    <${FlowView} nodes=${nodes} edges=${edges} visits=${visits} passed=${passed}
      label=${`Graph ${run.graph} with the path of this run`} />
    <div class="scroll" tabindex="0" role="region" aria-label="Visits">
      <table>
        <thead><tr><th>Node</th><th>Kind</th><th>Outcome</th><th class="number">Time</th><th>Went on to</th>
          <th>Judged</th><th>Tasks</th></tr></thead>
        <tbody>
          ${run.path.map(
            (visit, i) => html`<tr key=${i}>
            <td>${visit.node}</td><td>${visit.kind ?? ""}</td>
            <td><${Status} of=${visit.outcome === "ok" ? "completed" : visit.outcome} />
              ${visit.attempts > 1 ? ` ${visit.attempts} attempts` : ""}${
                visit.error ? html`<br /><span class="problem">${visit.error}</span>` : ""
              }</td>
            <td class="number">${duration(visit.duration_ms)}</td>
            <td>${visit.next ?? "end"}</td>
            <td>${Object.entries(visit.judged ?? {}).map(
              ([condition, holds]) => html`<div>${holds ? "yes" : "no"}: ${condition}</div>`,
            )}</td>
            <td>${(visit.tasks ?? []).map(
              (each) => html`<div><${TaskLink} id=${each.task_id} /> ${each.name} ${each.outcome}</div>`,
            )}</td>
          </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <details><summary>State of the run</summary><${Value} of=${run.state} label="state" /></details>
  </section>`
}

async function pathOf(task, has, signal) {
  if (!has && !(await graphNames(signal)).includes(task.instruction)) return { run: null }
  try {
    const run = await ask(`/v1/tasks/${task.task_id}/path`, { signal })
    return { run, graph: await graphOf(run, signal) }
  } catch (error) {
    if (error.status === CONFLICT) return { run: null } // it has none, or its record keeps none
    throw error
  }
}

async function graphNames(signal) {
  return (await ask("/v1/graphs", { signal })).items.map((graph) => graph.name)
}

/** The graph that is in use under the name; a run of an earlier version is drawn by its visits. */
async function graphOf(run, signal) {
  const { items } = await ask("/v1/graphs", { signal })
  return items.find((graph) => graph.name === run.graph && graph.version === run.graph_version) ?? null
}

function asGraph(run) {
  const kinds = new Map(run.path.map((visit) => [visit.node, visit.kind]))
  const edges = run.path.filter((visit) => visit.next).map((visit) => ({ from: visit.node, to: visit.next }))
  const ends = run.path.filter((visit) => !visit.next && visit.outcome !== "running").map((visit) => visit.node)
  for (const { to } of edges) kinds.set(to, kinds.get(to))
  return { nodes: [...kinds].map(([key, kind]) => ({ key, kind })), edges, entry: run.path[0]?.node, ends }
}

function marksOf(run) {
  const visits = Object.create(null) // a node may be called as a method of objects
  const passed = new Set()
  let before = START
  for (const visit of run.path) {
    passed.add(`${before} ${visit.node}`)
    const state = { ok: "done", failed: "failed", running: "active" }[visit.outcome]
    visits[visit.node] = { times: (visits[visit.node]?.times ?? 0) + 1, state }
    before = visit.node
  }
  if (run.success) passed.add(`${before} ${END}`)
  return { visits, passed }
}
