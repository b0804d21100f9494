// Two values as JSON, line by line, with what was taken away and what was added.
import { html, useMemo } from "../html.js"

/** Lines of a value that are compared; the rest is left out. */
const MAX_LINES = 2_000

export function Difference({ before, after, titles }) {
  const lines = useMemo(() => compared(linesOf(before), linesOf(after)), [before, after])
  return html`<div class="difference scroll" tabindex="0" role="region" aria-label=${`${titles[0]} and ${titles[1]} compared`}>
    <p class="quiet">− ${titles[0]} · + ${titles[1]}</p>
    ${lines.map(({ kind, text }, i) => html`<div key=${i} class="line ${kind}"><span aria-hidden="true">${{ gone: "−", added: "+", same: " " }[kind]}</span> <code>${text}</code></div>`)}
  </div>`
}

/** The lines of both in order: `same`, `gone` or `added`, by their longest common sequence. */
export function compared(before, after) {
  const longest = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1))
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      longest[i][j] =
        before[i] === after[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1])
    }
  }
  const lines = []
  let [i, j] = [0, 0]
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push({ kind: "same", text: before[i] })
      i++
      j++
    } else if (j >= after.length || (i < before.length && longest[i + 1][j] >= longest[i][j + 1]))
      lines.push({ kind: "gone", text: before[i++] })
    else lines.push({ kind: "added", text: after[j++] })
  }
  return lines
}

function linesOf(value) {
  return JSON.stringify(value, sorted, 2).split("\n").slice(0, MAX_LINES)
}

/** Objects with their names in order, so that only what differs is shown. */
function sorted(_, value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
