// The steps and tool calls of a task on one axis of time.
import { clip, duration } from "../format.js"
import { html, useMemo } from "../html.js"
import { addressOf } from "../router.js"
import { marksOf } from "./changes.js"

/** Each row is a piece of work with its begin and its length; rows of a step open the step. */
export function Waterfall({ task, steps, children, chosen, onChoose }) {
  const { rows, begin, end } = useMemo(() => rowsOf(task, steps, children), [task, steps, children])
  const whole = Math.max(end - begin, 1)
  if (!rows.length) return html`<p class="quiet">No step is committed yet.</p>`
  return html`<section class="panel" aria-label="Waterfall">
    <h2>Steps and calls <span class="quiet">${duration(whole)}</span></h2>
    <ol class="waterfall">
      ${rows.map((row) => {
        const left = (100 * (row.at - begin)) / whole
        const style = { left: `${left}%`, width: `${Math.max((100 * row.ms) / whole, 0.4)}%` }
        const name = html`<span class="what">${row.name}</span>
          <span class="lane"><span class="bar ${row.kind}" style=${style}></span></span>
          <span class="long">${duration(row.ms)}</span>`
        const current = row.kind === "model" && row.step === chosen ? "step" : undefined
        return html`<li class=${row.kind === "model" ? "" : "inner"} key=${row.key}>
          ${
            row.task
              ? html`<a href=${addressOf(["tasks", row.task])}>${name}</a>`
              : html`<button type="button" class="plain" aria-current=${current} title=${row.title}
                onClick=${() => onChoose(row.step)}>${name}</button>`
          }
        </li>`
      })}
    </ol>
  </section>`
}

function rowsOf(task, steps, children) {
  const rows = []
  let last = new Date(task.created_at).getTime()
  for (const step of steps) {
    const at = new Date(step.at).getTime()
    const ms = step.duration_ms ?? 0
    const began = at - ms
    if (began - last > 50 && rows.length) {
      const calls = steps[step.step - 2]?.calls ?? []
      if (!calls.length)
        rows.push({
          key: `wait ${step.step}`,
          kind: "wait",
          name: "waits for a person",
          at: last,
          ms: began - last,
          step: step.step,
        })
    }
    rows.push({
      key: `step ${step.step}`,
      kind: "model",
      step: step.step,
      at: began,
      ms,
      name: [`${step.step}. ${step.model}`, ...marksOf(step.manifest)].join(" · "),
      title: `${step.finish_reason}, attempt ${step.attempt}`,
    })
    for (const call of step.calls) {
      const kind = call.error === null || call.error === undefined ? (call.result === null ? "open" : "tool") : "failed"
      const from = new Date(call.at ?? step.at).getTime()
      const long = kind === "open" ? Math.max(Date.now() - from, 0) : (call.duration_ms ?? 0)
      rows.push({
        key: call.tool_call_id,
        kind,
        step: step.step,
        at: from,
        ms: long,
        name: clip(`${call.tool}(${argsOf(call)})`, 70),
        title: call.error ?? "",
      })
      last = Math.max(last, from + long)
    }
    last = Math.max(last, at)
  }
  for (const child of children) {
    const at = new Date(child.created_at).getTime()
    const until = child.completed_at ? new Date(child.completed_at).getTime() : Date.now()
    rows.push({
      key: child.task_id,
      kind: "child",
      task: child.task_id,
      at,
      ms: until - at,
      name: clip(`${child.node ?? child.instruction}: ${child.goal}`, 70),
    })
    last = Math.max(last, until)
  }
  rows.sort((a, b) => a.at - b.at || (a.step ?? 0) - (b.step ?? 0))
  return { rows, begin: Math.min(new Date(task.created_at).getTime(), ...rows.map((row) => row.at)), end: last }
}

function argsOf({ args }) {
  if (typeof args === "string") return clip(args, 40)
  return Object.entries(args)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(", ")
}
