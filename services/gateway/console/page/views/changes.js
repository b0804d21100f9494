// What hooks and summaries changed in a step: the prompt, the answer, calls and results.
import { html } from "../html.js"
import { Value } from "../parts/basics.js"

const SUBJECTS = { after_model: "the answer", before_tool: "the call of", after_tool: "the result of" }

/** Names of what has changed a step, as marks for a row. */
export function marksOf({ hooks, compacts }) {
  return [...(hooks ? ["hooks"] : []), ...(compacts ? ["summary"] : [])]
}

/** `manifest`: that of the step. */
export function Changes({ manifest: { hooks, compacts } }) {
  if (!hooks && !compacts) return null
  const { prompt, values = [] } = hooks ?? {}
  return html`<details open><summary>What was changed</summary>
    ${compacts && html`<p>The step wrote a summary, which later prompts have in place of ${messages(compacts)}.</p>`}
    ${prompt?.hooks.map(
      (name, i) => html`<div key=${name}>
        ${prompt.splices[i].map((splice) => html`<${Splice} hook=${name} of=${splice} />`)}
      </div>`,
    )}
    ${values.map((each) => html`<${Changed} of=${each} />`)}
  </details>`
}

/** Messages of a prompt that a hook took away or put in. Positions are those of the prompt that it was given. */
function Splice({ hook, of: { start, end, messages: put } }) {
  const gone = Array.from({ length: end - start }, (_, i) => start + i)
  const words = gone.length
    ? `${put.length ? "replaced" : "took away"} ${messages(gone)} of the prompt`
    : `put this into the prompt before message ${start + 1}`
  return html`<p>Hook <code>${hook}</code> ${words}.</p>
    ${put.map((message) => html`<${Value} of=${parsed(message)} label="message of a hook" />`)}`
}

function Changed({ of: { hook, kind, subject, original, refused } }) {
  const what = `${SUBJECTS[kind] ?? kind} ${subject}`.trim()
  const words = refused ? `refused ${what}: ${refused}` : `changed ${what}.`
  return html`<p>Hook <code>${hook}</code> ${words}</p>
    ${original && html`<details><summary>As it was</summary><${Value} of=${original} label="original" /></details>`}`
}

/** Positions as people count them. */
function messages(positions) {
  const numbers = positions.map((position) => position + 1)
  if (numbers.length > 6) return `${numbers.length} messages, from ${numbers[0]} to ${numbers.at(-1)}`
  return numbers.length === 1 ? `message ${numbers[0]}` : `messages ${numbers.join(", ")}`
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
