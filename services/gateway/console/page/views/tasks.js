// Tasks: the list, and the trace of one with its steps, prompts, path and forks.
import { ask } from "../client.js"
import { clip, count, dollars, duration, percent } from "../format.js"
import { html, useEffect, useMemo, useState } from "../html.js"
import { useAction, useLoaded, usePages } from "../loading.js"
import { Act, Loading, More, Problem, Status, TaskLink, When } from "../parts/basics.js"
import { addressOf, go } from "../router.js"
import { CompareView } from "./compare.js"
import { Fork } from "./fork.js"
import { PathView } from "./path.js"
import { StepView } from "./step.js"
import { Waterfall } from "./waterfall.js"

const STATUSES = ["pending", "active", "waiting", "stale", "completed", "failed", "cancelled"]
const ENDED = ["completed", "failed", "cancelled"]
const LIVE_MS = 1_000
/** Pages of the session's tasks, of those that began while a task went on, in which its children are looked for. */
const MAX_CHILD_PAGES = 5

/** `#/tasks`, `#/tasks/ID`, `#/tasks/ID/steps/N`, `#/tasks/ID/compare/OTHER`. */
export function TasksView({ place: { parts, query } }) {
  const [, id, kind, name] = parts
  if (!id) return html`<${TaskList} query=${query} />`
  if (kind === "compare") return html`<${CompareView} a=${id} b=${name} />`
  return html`<${Trace} key=${id} id=${id} step=${kind === "steps" ? Number(name) : null} query=${query} />`
}

function TaskList({ query }) {
  const status = query.get("status") ?? ""
  const session = query.get("session_id") ?? ""
  const tasks = usePages(
    (cursor, signal) => ask("/v1/tasks", { query: { status, session_id: session, cursor, limit: 50 }, signal }),
    [status, session],
  )
  const filter = (name, value) => go(["tasks"], { status, session_id: session, [name]: value }, { replace: true })
  return html`<h1>Tasks</h1>
    <div class="row">
      <label>
        Status <select value=${status} onChange=${(event) => filter("status", event.target.value)}>
          <option value="">all</option>
          ${STATUSES.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <label>Session <input value=${session}
        onChange=${(event) => filter("session_id", event.target.value.trim())} /></label>
      <button type="button" onClick=${tasks.reload}>Refresh</button>
    </div>
    <${Loading} of=${tasks} empty=${tasks.items.length === 0} what="There is no such task." />
    ${
      tasks.items.length > 0 &&
      html`<div class="scroll" tabindex="0" role="region" aria-label="Tasks">
      <table>
        <thead><tr><th>Task</th><th>Status</th><th>Goal</th><th class="number">Steps</th><th class="number">Tokens</th>
          <th>Session</th><th>Updated</th></tr></thead>
        <tbody>
          ${tasks.items.map(
            (task) => html`<tr key=${task.task_id}>
              <td><${TaskLink} id=${task.task_id} /></td>
              <td><${Status} of=${task.status} /></td>
              <td>${clip(task.goal ?? task.problem ?? "", 90)}</td>
              <td class="number">${count(task.steps)}</td>
              <td class="number">${task.usage && count(task.usage.input_tokens + task.usage.output_tokens)}</td>
              <td><a href=${addressOf(["chat", task.session_id ?? ""])}>${clip(task.session_id ?? "", 24)}</a></td>
              <td><${When} at=${task.updated_at} /></td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`
    }
    <${More} of=${tasks} />`
}

/** One task with its steps; while it goes on it is read again and again. */
function Trace({ id, step, query }) {
  const [live, setLive] = useState(true)
  const [archiving, setArchiving] = useState(false)
  const task = useLoaded((signal) => ask(`/v1/tasks/${id}`, { signal }), [id, live], {
    every: live ? LIVE_MS : 0,
    of: id,
  })
  const settled = task.value && (task.value.archived_at || (ENDED.includes(task.value.status) && !archiving))
  useEffect(() => setLive(!settled), [settled])
  const steps = useLoaded((signal) => allSteps(id, signal), [id, task.value?.updated_at, task.value?.steps], {
    of: id,
  })
  const children = useLoaded(
    (signal) => childrenOf(task.value, signal),
    [id, task.value?.session_id, task.value?.steps, task.value?.status],
    { of: id },
  )
  const isGone = task.error?.status === 404 // erased while it was shown
  if (!task.value || isGone) return html`<h1>Task</h1><${Loading} of=${task} />`
  const chosen = steps.value?.find((each) => each.step === step)
  return html`<${Head} task=${task.value} steps=${steps.value ?? []} archiving=${archiving} onChange=${task.reload}
      onArchive=${() => setArchiving(true)} />
    <${Problem} error=${steps.error} />
    ${
      steps.value &&
      html`<${Waterfall} task=${task.value} steps=${steps.value} children=${children.value ?? []} chosen=${step}
      onChoose=${(n) => go(["tasks", id, "steps", String(n)])} />`
    }
    ${step !== null && steps.value && !chosen && html`<p class="quiet">The task has no step ${step} yet.</p>`}
    ${
      chosen &&
      html`<${StepView} key=${`${id} ${step}`} task=${task.value} step=${chosen}
      prompt=${query.get("view") === "prompt"} />`
    }
    <${PathView} task=${task.value} steps=${steps.value ?? []} called=${Boolean(children.value?.length)} />`
}

function Head({ task, steps, archiving, onChange, onArchive }) {
  const [forking, setForking] = useState(false)
  const act = useAction(async (verb) => {
    await ask(`/v1/tasks/${task.task_id}/${verb}`, { method: "POST" })
    onChange()
    if (verb === "archive") onArchive()
  })
  const ended = ENDED.includes(task.status)
  const paused = task.status === "waiting" && [].concat(task.waiting_for ?? []).includes("paused")
  const usage = task.usage
  const facts = useMemo(() => timesOf(task, steps), [task, steps])
  return html`<div class="panel">
    <div class="row">
      <h1 class="grow">${clip(task.goal, 200)}</h1>
      <${Status} of=${task.status} />
    </div>
    <p class="quiet"><code>${task.task_id}</code> in <a href=${addressOf(["chat", task.session_id])}>
      ${task.session_id}</a>
      ${task.user_id && html` · user ${task.user_id}`} · ${task.instruction}
      ${task.parent_task_id && html` · started by <${TaskLink} id=${task.parent_task_id} />`}
      ${
        task.forked_from &&
        html` · fork of <${TaskLink} id=${task.forked_from.task_id} step=${task.forked_from.step || undefined} />
        (<a href=${addressOf(["tasks", task.forked_from.task_id, "compare", task.task_id])}>compare</a>)`
      }
    </p>
    <dl class="facts">
      <dt>Began</dt><dd><${When} at=${task.created_at} /></dd>
      ${
        task.completed_at &&
        html`<dt>Ended</dt><dd>
        <${When} at=${task.completed_at} />: ${task.reason}${task.detail ? ` – ${task.detail}` : ""}</dd>`
      }
      <dt>Time</dt><dd>${duration(facts.total)}: models ${duration(facts.models)}, tools ${duration(facts.tools)}</dd>
      <dt>Tokens</dt><dd>${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out,
        cache hits ${percent(usage.cached_tokens ?? 0, usage.input_tokens)}</dd>
      <dt>Cost</dt><dd>${dollars(usage.usd)}</dd>
      ${
        task.waiting_for?.length > 0 &&
        html`<dt>Waits for</dt><dd>${[].concat(task.waiting_for).join(", ")} ${task.waiting_for_tools?.join(", ")}</dd>`
      }
    </dl>
    <div class="row">
      ${!ended && html`<${Act} action=${act} args=${["cancel"]} danger>Stop<//>`}
      ${!ended && !paused && html`<${Act} action=${act} args=${["pause"]}>Pause<//>`}
      ${paused && html`<${Act} action=${act} args=${["resume"]}>Resume<//>`}
      ${task.status === "waiting" && html`<${Act} action=${act} args=${["complete"]}>Close as done<//>`}
      ${ended && !task.archived_at && !archiving && html`<${Act} action=${act} args=${["archive"]}>Archive now<//>`}
      ${task.archived_at && html`<span class="quiet">archived <${When} at=${task.archived_at} /></span>`}
      ${steps.length > 0 && html`<button type="button" onClick=${() => setForking(true)}>Fork …</button>`}
    </div>
    <${Problem} error=${act.error} />
    ${forking && html`<${Fork} task=${task} step=${steps.length} onClose=${() => setForking(false)} />`}
  </div>`
}

function timesOf(task, steps) {
  const end = task.completed_at ?? task.updated_at
  const calls = steps.flatMap((step) => step.calls)
  return {
    total: new Date(end) - new Date(task.created_at),
    models: steps.reduce((sum, step) => sum + (step.duration_ms ?? 0), 0),
    tools: calls.reduce((sum, call) => sum + (call.duration_ms ?? 0), 0),
  }
}

async function allSteps(id, signal) {
  const steps = []
  let cursor = null
  do {
    const page = await ask(`/v1/tasks/${id}/steps`, { query: { cursor, limit: 200 }, signal })
    steps.push(...page.items)
    cursor = page.next
  } while (cursor)
  return steps
}

async function childrenOf(task, signal) {
  if (!task) return []
  const lifetime = { session_id: task.session_id, since: task.created_at, until: task.completed_at, limit: 100 }
  const children = []
  let cursor = null
  for (let page = 0; page === 0 || (cursor && page < MAX_CHILD_PAGES); page++) {
    const { items, next } = await ask("/v1/tasks", { query: { ...lifetime, cursor }, signal })
    children.push(...items.filter((each) => each.parent_task_id === task.task_id))
    cursor = next
  }
  return children.reverse()
}
