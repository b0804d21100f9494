// Two tasks side by side, and the step at which they part.
import { ask } from "../client.js"
import { clip, count, dollars } from "../format.js"
import { html } from "../html.js"
import { useLoaded } from "../loading.js"
import { Loading, Status, TaskLink } from "../parts/basics.js"
import { Markdown } from "../parts/markdown.js"

const LIVE = ["pending", "active"]
const AGAIN_MS = 1_000

export function CompareView({ a, b }) {
  const found = useLoaded((signal) => compared(a, b, signal), [a, b], { every: AGAIN_MS })
  if (!found.value) return html`<h1>Compare</h1><${Loading} of=${found} />`
  const { comparison, answers } = found.value
  const { parts_at: parting, differs, steps, same_steps: same } = comparison
  return html`<h1>Compare</h1>
    <p>${
      parting
        ? html`The first ${count(same)} steps are the same; step ${parting} differs in ${differs.join(", ")}.`
        : "No step differs."
    }</p>
    <div class="two">
      <${Side} task=${comparison.a} usage=${comparison.usage_a} answer=${answers.a} />
      <${Side} task=${comparison.b} usage=${comparison.usage_b} answer=${answers.b} />
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label="Steps of both tasks">
      <table>
        <thead><tr><th>Step</th><th>Left</th><th>Right</th><th>Differs in</th></tr></thead>
        <tbody>
          ${steps.map(
            (step) => html`<tr key=${step.step} class=${step.step === parting ? "parting" : ""}>
            <td>${step.step}</td>
            <td><${Cell} task=${a} step=${step.step} of=${step.a} /></td>
            <td><${Cell} task=${b} step=${step.step} of=${step.b} /></td>
            <td>${step.differs.join(", ") || html`<span class="good">the same</span>`}</td>
          </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${comparison.more && html`<p class="quiet">Further steps were not compared.</p>`}`
}

function Side({ task, usage, answer }) {
  return html`<section class="panel">
    <h2><${TaskLink} id=${task.task_id} /> <${Status} of=${task.status} /></h2>
    <p class="quiet">${clip(task.goal, 100)}</p>
    <p class="quiet">after the parting: ${count(usage.input_tokens)} tokens in, ${count(usage.output_tokens)} out, ${dollars(usage.usd)}</p>
    ${answer ? html`<${Markdown} text=${answer} />` : html`<p class="quiet">${LIVE.includes(task.status) ? "It goes on." : "It has no answer."}</p>`}
  </section>`
}

function Cell({ task, step, of }) {
  if (!of) return html`<span class="quiet">–</span>`
  return html`<${TaskLink} id=${task} step=${step} /> ${of.model} · ${of.finish_reason}${of.calls.length ? `: ${of.calls.join(", ")}` : ""}`
}

async function compared(a, b, signal) {
  const comparison = await ask(`/v1/tasks/${a}/compare/${b}`, { signal })
  const [left, right] = await Promise.all([a, b].map((id) => answerOf(id, signal)))
  return { comparison, answers: { a: left, b: right } }
}

async function answerOf(id, signal) {
  const { messages } = await ask(`/v1/tasks/${id}/transcript`, { signal })
  return messages.findLast((message) => message.role === "assistant" && message.content)?.content ?? ""
}
