// A memory opened at the very sentence where it was said, with what stands before and after it.
import { ask } from "../client.js"
import { html, useEffect, useRef } from "../html.js"
import { useLoaded } from "../loading.js"
import { Loading, TaskLink, When } from "../parts/basics.js"
import { addressOf } from "../router.js"

const WINDOW = 8

export function AnchorView({ anchor }) {
  const opened = useLoaded(
    (signal) => ask("/v1/memory/expand", { method: "POST", body: { anchor, window: WINDOW }, signal }),
    [anchor],
  )
  if (!opened.value) return html`<h1>Where it was said</h1><${Loading} of=${opened} />`
  const { focus, before, after, place, short } = opened.value
  return html`<h1>Where it was said</h1>
    <p class="quiet">
      Task <${TaskLink} id=${focus.task_id} step=${place?.step || undefined} />${place ? `, step ${place.step}, message ${place.position}` : ""}${short ? html`, <code>${short}</code>` : ""}
    </p>
    ${before.map((quoted) => html`<${Quoted} key=${quoted.anchor} of=${quoted} />`)}
    <${Quoted} of=${focus} focus />
    ${after.map((quoted) => html`<${Quoted} key=${quoted.anchor} of=${quoted} />`)}`
}

function Quoted({ of, focus = false }) {
  const element = useRef(null)
  useEffect(() => {
    if (focus) element.current.scrollIntoView({ block: "center" })
  }, [])
  const words = focus
    ? html`<mark>${of.content}</mark>`
    : html`<a href=${addressOf(["memory", "anchor", of.anchor])}>${of.content}</a>`
  return html`<blockquote ref=${element} class="quoted ${focus ? "focus" : ""}">
    <p>${words}</p>
    <footer class="quiet">${of.speaker}, <${When} at=${of.at} /> · ${of.type}</footer>
  </blockquote>`
}
