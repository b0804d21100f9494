// The files of a session: those that were given, and those that tools have made.
import { client } from "../client.js"
import { bytes } from "../format.js"
import { html, useEffect, useRef, useState } from "../html.js"
import { useAction, usePages } from "../loading.js"
import { Loading, More, Problem } from "../parts/basics.js"

/** Types of images that are shown, which hold nothing that could run; others are files to save. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]
const MAX_PICTURE_BYTES = 8_000_000

export function Files({ session, state }) {
  const made = Object.values(state.tasks).reduce(
    (sum, task) =>
      sum + Object.values(task.calls).filter((call) => call.result_ref !== undefined && call.status === "done").length,
    0,
  )
  const files = usePages(
    (cursor, signal) =>
      client.request("GET", addressOf(session), { query: { cursor: cursor ?? undefined, limit: 50 }, signal }),
    [session.id, made, state.erased_at],
  )
  return html`<h2>Files</h2>
    <${Loading} of=${files} empty=${files.items.length === 0} what="There is none." />
    <ul class="plain">
      ${files.items.map(
        (file) => html`<li key=${`${file.path} ${file.etag}`}>
        <${File} session=${session} of=${file} /></li>`,
      )}
    </ul>
    <${More} of=${files} />`
}

/** A file to save, with its image where it is one. `of`: its path, and what else is known of it. */
export function File({ session, of: { path, size, media_type: type } }) {
  const save = useAction(async () => {
    const link = document.createElement("a")
    link.href = URL.createObjectURL(await read(session, path))
    link.download = path.split("/").at(-1)
    link.click()
    URL.revokeObjectURL(link.href)
  })
  const isPicture = PICTURES.includes(type) && size <= MAX_PICTURE_BYTES
  return html`<span class="file">
    <button type="button" class="plain" disabled=${save.busy} title="Save the file" onClick=${save.run}>${path}</button>
    ${size !== undefined && html` <span class="quiet">${bytes(size)}</span>`}
    <${Problem} error=${save.error} />
    ${isPicture && html`<${Picture} session=${session} path=${path} type=${type} />`}
  </span>`
}

/** An image, asked for when it comes into view. */
function Picture({ session, path, type }) {
  const element = useRef(null)
  const [shown, setShown] = useState({ address: "", error: null })
  useEffect(() => {
    const stop = new AbortController()
    let address = ""
    const load = async () => {
      try {
        const blob = await read(session, path, stop.signal)
        if (stop.signal.aborted) return
        address = URL.createObjectURL(new Blob([blob], { type }))
        setShown({ address, error: null })
      } catch (error) {
        if (!stop.signal.aborted) setShown({ address: "", error })
      }
    }
    const watch = new IntersectionObserver(([place]) => {
      if (!place.isIntersecting) return
      watch.disconnect()
      load()
    })
    watch.observe(element.current)
    return () => {
      watch.disconnect()
      stop.abort()
      if (address) URL.revokeObjectURL(address)
    }
  }, [])
  return html`<span class="picture" ref=${element}>
    ${shown.address && html`<img src=${shown.address} alt=${path.split("/").at(-1)} />`}
    <${Problem} error=${shown.error} />
  </span>`
}

const read = (session, path, signal) => client.request("GET", addressOf(session, path), { as: "blob", signal })

/** The gateway's address of a file, or of all files of a session. */
function addressOf(session, path = "") {
  const parts = path.split("/").filter(Boolean).map(encodeURIComponent)
  return ["/v1/sessions", encodeURIComponent(session.id), "files", ...parts].join("/")
}
