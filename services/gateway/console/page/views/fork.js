// A fork: a new task that shares the past of another up to a step, and goes on with another message or model.
import { ask } from "../client.js"
import { html, useState } from "../html.js"
import { useAction, useLoaded } from "../loading.js"
import { Dialog, Problem } from "../parts/basics.js"
import { addressOf } from "../router.js"

export function Fork({ task, step, onClose }) {
  const [form, setForm] = useState({ step, content: "", model: "", instruction: "" })
  const models = useLoaded((signal) => ask("/v1/models", { signal }), [])
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value })
  const fork = useAction(() => {
    const given = Object.fromEntries(
      ["content", "model", "instruction"].filter((name) => form[name]).map((name) => [name, form[name]]),
    )
    return ask(`/v1/tasks/${task.task_id}/fork`, { method: "POST", body: { step: Number(form.step), ...given } })
  })
  const begun = fork.done
  const submit = (event) => {
    event.preventDefault()
    fork.run()
  }
  return html`<${Dialog} title="Fork the task" onClose=${onClose}>
    ${
      begun
        ? html`<p>The fork has begun.</p>
          ${begun.effects.length > 0 && html`<p class="warn">It does not repeat these calls of the task, which came later: ${begun.effects.map((each) => each.tool).join(", ")}.</p>`}
          <p class="row">
            <a class="button" href=${addressOf(["tasks", begun.task_id])} onClick=${onClose}>Open the fork</a>
            <a class="button" href=${addressOf(["tasks", task.task_id, "compare", begun.task_id])} onClick=${onClose}>Compare</a>
          </p>`
        : html`<form onSubmit=${submit}>
          <label class="field">Shares the past up to step <input type="number" min="0" max=${task.steps} value=${form.step} onInput=${set("step")} /></label>
          <label class="field">New message (left out: it goes on by itself)<textarea rows="3" value=${form.content} onInput=${set("content")} /></label>
          <label class="field">Model
            <select value=${form.model} onChange=${set("model")}>
              <option value="">as before</option>
              ${models.value?.items.filter((each) => each.kind === "llm").map((each) => html`<option value=${each.id}>${each.id}</option>`)}
            </select>
          </label>
          <label class="field">Instruction (left out: as before)<input value=${form.instruction} onInput=${set("instruction")} /></label>
          <${Problem} error=${fork.error} />
          <div class="row end"><button class="primary" disabled=${fork.busy}>Fork</button></div>
        </form>`
    }
  <//>`
}
