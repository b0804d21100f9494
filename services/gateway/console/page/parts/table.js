// Tables of what the whole system has.
import { count } from "../format.js"
import { html } from "../html.js"

/** `heads` that begin with # are of numbers. */
export function Table({ title, heads, rows, left = 0 }) {
  const kind = (head) => (head.startsWith("#") ? "number" : "")
  return html`<section class="panel">
    <h2>${title}</h2>
    ${
      rows.length === 0
        ? html`<p class="quiet">There is none.</p>`
        : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}>
          <table>
            <thead><tr>${heads.map((head) => html`<th class=${kind(head)}>${head.replace("#", "")}</th>`)}</tr></thead>
            <tbody>${rows.map(
              ({ key, cells }) => html`<tr key=${key}>
              ${cells.map((cell, i) => html`<td class=${kind(heads[i])}>${cell}</td>`)}</tr>`,
            )}</tbody>
          </table>
        </div>`
    }
    ${left > 0 && html`<p class="quiet">${count(left)} more are not shown.</p>`}
  </section>`
}
