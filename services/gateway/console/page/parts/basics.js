// Small parts that all views use.
import { ago, pretty, short, time } from "../format.js"
import { html, useEffect, useRef, useState } from "../html.js"
import { addressOf } from "../router.js"

/** What went wrong, in the gateway's words. */
export function Problem({ error }) {
  if (!error) return null
  return html`<p class="problem" role="alert">${error.message || String(error)}</p>`
}

/** The state of something loaded: nothing yet, an error, or that there is nothing. */
export function Loading({ of, empty = null, what = "Nothing is here yet." }) {
  if (of.error) return html`<${Problem} error=${of.error} />`
  if (of.loading && (of.value === undefined || empty)) return html`<p class="quiet" role="status">Loading …</p>`
  return empty ? html`<p class="quiet">${what}</p>` : null
}

/** A status as a coloured word. */
export function Status({ of }) {
  return html`<span class="status ${of}">${of}</span>`
}

/** A time with how long ago it was as its title. */
export function When({ at }) {
  return at ? html`<time datetime=${at} title=${ago(at)}>${time(at)}</time>` : html`<span>–</span>`
}

/** A link to a task's trace. */
export function TaskLink({ id, step }) {
  const parts = step === undefined ? ["tasks", id] : ["tasks", id, "steps", String(step)]
  return html`<a href=${addressOf(parts)} title=${id}><code>${short(id)}</code></a>`
}

/** A value as JSON, and a text as it is. Long ones scroll. */
export function Value({ of, label = "value" }) {
  if (of === null || of === undefined) return html`<span class="quiet">nothing</span>`
  return html`<pre class="value" tabindex="0" role="region" aria-label=${label}>${pretty(of)}</pre>`
}

/** A button that does something, and says so while it goes on and when it fails. */
export function Act({ action, children, danger = false, confirm = "", args = [] }) {
  const press = () => {
    if (!confirm || window.confirm(confirm)) action.run(...args)
  }
  return html`<button type="button" class=${danger ? "danger" : ""} disabled=${action.busy} onClick=${press}>
    ${children}
  </button>`
}

/** A dialog over the page; Escape and the button close it, and the focus goes back to where it was. */
export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null)
  useEffect(() => {
    const before = document.activeElement
    element.current.showModal()
    return () => before?.focus?.()
  }, [])
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} onClose=${onClose} aria-label=${title}>
    <header>
      <h2>${title}</h2>
      <button type="button" class="plain" aria-label="Close" onClick=${() => element.current.close()}>✕</button>
    </header>
    ${children}
  </dialog>`
}

/** A text field for JSON: `onChange` gets the value, and nothing while the text is no JSON. */
export function JsonField({ value, onChange, label, rows = 8 }) {
  const [text, setText] = useState(() => pretty(value))
  const [wrong, setWrong] = useState("")
  const type = (event) => {
    setText(event.target.value)
    try {
      onChange(JSON.parse(event.target.value))
      setWrong("")
    } catch (error) {
      onChange(undefined)
      setWrong(error.message)
    }
  }
  return html`<label class="field">
    ${label}
    <textarea class="code" rows=${rows} spellcheck=${false} value=${text} onInput=${type} aria-invalid=${wrong !== ""} />
    ${wrong && html`<span class="problem">${wrong}</span>`}
  </label>`
}

/** The way to the next page of a list. */
export function More({ of }) {
  if (!of.more) return null
  return html`<button type="button" disabled=${of.loading} onClick=${of.more}>More</button>`
}

/** Links between the parts of a view. */
export function Tabs({ of, at, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${of.map(
      ([name, href, note]) =>
        html`<a href=${href} aria-current=${name === at ? "page" : undefined}>
          ${name}${note ? html` <span class="badge">${note}</span>` : null}
        </a>`,
    )}
  </nav>`
}
