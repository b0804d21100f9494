// Text of models and people as Markdown. It is hostile until it is cleaned: no script, no form, nothing from elsewhere.
import { html, useEffect, useRef } from "../html.js"
import { DOMPurify, Marked } from "../vendor.js"

const MAX_CHARS = 200_000
const marked = new Marked({ gfm: true, breaks: true })
const CLEANED = {
  ALLOWED_TAGS: (
    "a b blockquote br code del details em h1 h2 h3 h4 h5 h6 hr i input kbd li mark ol p pre s span strong sub summary " +
    "sup table tbody td th thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: ["href", "title", "start", "align", "checked", "disabled", "type"],
  ALLOWED_URI_REGEXP: /^(https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
}

// HTML is text, as it was written. Images would be fetched from other hosts, and tell them who reads: they are links.
marked.use({
  renderer: {
    html({ text }) {
      return escaped(text)
    },
    image({ href, text }) {
      return `<a href="${escaped(href)}">${escaped(text || href)}</a>`
    },
  },
})

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank")
    node.setAttribute("rel", "noopener noreferrer nofollow")
  }
  if (node.tagName === "INPUT") {
    if (node.getAttribute("type") !== "checkbox") node.remove()
    else node.setAttribute("disabled", "")
  }
})

/** Text that may grow many times a second: it is drawn once a frame at most. */
export function Markdown({ text }) {
  const element = useRef(null)
  const wanted = useRef(text)
  const frame = useRef(0)
  wanted.current = text
  useEffect(() => {
    if (frame.current) return
    frame.current = requestAnimationFrame(() => {
      frame.current = 0
      element.current?.replaceChildren(rendered(wanted.current))
    })
  }, [text])
  useEffect(() => () => cancelAnimationFrame(frame.current), [])
  return html`<div class="markdown" ref=${element} />`
}

/** The cleaned elements of a Markdown text; a very long one stays plain. */
export function rendered(text) {
  if (text.length > MAX_CHARS) {
    const plain = document.createElement("pre")
    plain.textContent = text
    return plain
  }
  return DOMPurify.sanitize(marked.parse(text), CLEANED)
}

function escaped(text) {
  return String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
