// One step of a task: what it added, its answer and calls, and the exact prompt behind it.
import { ask } from "../client.js"
import { count, dollars, duration } from "../format.js"
import { html, useEffect, useRef, useState } from "../html.js"
import { useLoaded } from "../loading.js"
import { Loading, Tabs, Value, When } from "../parts/basics.js"
import { Markdown } from "../parts/markdown.js"
import { addressOf } from "../router.js"
import { Changes } from "./changes.js"
import { Fork } from "./fork.js"

const PROVED = "Word for word what the model was asked: it has the digest that was taken then."

/** `prompt`: whether the prompt is shown, not what the step did. */
export function StepView({ task, step, prompt }) {
  const [forking, setForking] = useState(false)
  const element = useRef(null)
  useEffect(() => element.current.scrollIntoView({ block: "nearest" }), []) // below a long list of steps
  const place = ["tasks", task.task_id, "steps", String(step.step)]
  const usage = step.usage
  return html`<section ref=${element} class="panel" aria-label=${`Step ${step.step}`}>
    <div class="row">
      <h2 class="grow">Step ${step.step} <span class="quiet">
        ${step.instruction} ${step.instruction_version ?? ""}</span></h2>
      <button type="button" onClick=${() => setForking(true)}>Fork from here …</button>
    </div>
    <dl class="facts">
      <dt>Committed</dt><dd><${When} at=${step.at} />, attempt ${step.attempt}, ${duration(step.duration_ms)}</dd>
      <dt>Model</dt><dd>${step.model}${step.model_id ? ` (${step.model_id})` : ""}: ${step.finish_reason}</dd>
      <dt>Tokens</dt><dd>${count(usage.input_tokens)} in (${count(usage.cached_tokens ?? 0)} from a cache),
        ${" "}${count(usage.output_tokens)} out, ${dollars(usage.usd)}</dd>
    </dl>
    <${Changes} manifest=${step.manifest} />
    <${Tabs} label="Parts of the step" at=${prompt ? "Exact prompt" : "What it did"}
      of=${[
        ["What it did", addressOf(place)],
        ["Exact prompt", addressOf(place, { view: "prompt" })],
      ]} />
    ${prompt ? html`<${Prompt} task=${task} step=${step} />` : html`<${Did} step=${step} />`}
    ${forking && html`<${Fork} task=${task} step=${step.step} onClose=${() => setForking(false)} />`}
  </section>`
}

function Did({ step }) {
  const answered = step.messages.at(-1)
  const added = step.messages.slice(0, -1)
  return html`${added.map((message) => html`<${Message} of=${message} />`)}
    ${answered && html`<${Message} of=${answered} />`}
    ${step.calls.map(
      (call) => html`<div class="call" key=${call.tool_call_id}>
        <h3><code>${call.tool}</code> <span class="quiet">
          ${duration(call.duration_ms)} · ${call.tool_call_id}</span></h3>
        <${Value} of=${call.args} label="arguments" />
        ${
          call.error
            ? html`<p class="problem">${call.error}</p>`
            : call.result === null
              ? html`<p class="quiet">no result yet</p>`
              : html`<${Value} of=${call.result} label="result" />`
        }
      </div>`,
    )}`
}

function Message({ of }) {
  const role = of.role === "compaction" ? `summary in place of ${of.positions.length} messages` : of.role
  return html`<div class="said ${of.role}">
    <h3>${role}${of.user_id ? ` · ${of.user_id}` : ""} <span class="quiet"><${When} at=${of.at} /></span></h3>
    ${
      of.content &&
      (of.role === "assistant"
        ? html`<${Markdown} text=${of.content} />`
        : html`<${Value} of=${of.content} label=${of.role} />`)
    }
  </div>`
}

function Prompt({ task, step }) {
  const prompt = useLoaded(
    (signal) => ask(`/v1/tasks/${task.task_id}/steps/${step.step}/prompt`, { signal }),
    [task.task_id, step.step],
  )
  if (!prompt.value) return html`<${Loading} of=${prompt} />`
  const { messages, tools, tool_choice, answer_schema, proved, digest } = prompt.value
  const { memories, walk } = step.manifest
  return html`
    <p class=${proved ? "good" : "warn"}>
      ${proved ? PROVED : "Rebuilt, but without a digest to prove it."}
      ${" "}<code title=${digest}>${digest?.slice(0, 12)}</code>
    </p>
    ${
      memories.length > 0 &&
      html`<details><summary>${memories.length} memories were recalled</summary>
      <${Value} of=${{ memories, walk }} label="recalled" /></details>`
    }
    ${messages.map(
      (message, i) => html`<div class="said ${message.role}" key=${i}>
      <h3>${message.role} <span class="quiet">${i + 1} of ${messages.length}</span></h3>
      ${
        message.content !== null &&
        message.content !== undefined &&
        html`<${Value} of=${message.content} label=${message.role} />`
      }
      ${message.tool_calls && html`<${Value} of=${message.tool_calls} label="tool calls" />`}
    </div>`,
    )}
    ${
      tools &&
      html`<details><summary>
      ${tools.length} tools were offered${tool_choice ? `, choice ${tool_choice}` : ""}</summary>
      <${Value} of=${tools} label="tools" /></details>`
    }
    ${
      answer_schema &&
      html`<details><summary>Schema of the answer</summary><${Value} of=${answer_schema} label="schema" /></details>`
    }`
}
