// A gateway of the test's own making: sockets that it opens and drops, and answers to requests.

/** A WebSocket whose other end is the test. `arrived` is called with each one that is opened. */
export function fakeSockets() {
  const opened = []
  let arrived = null
  class FakeSocket {
    readyState = 1
    sent = []
    constructor(url, protocols) {
      Object.assign(this, { url, protocols })
      opened.push(this)
      arrived?.()
    }
    send(text) { this.sent.push(JSON.parse(text)) }
    close() { this.readyState = 3 }
    greet() { this.tell({ type: "session", session_id: "s", cursor: "0-0" }) }
    tell(...frames) { for (const frame of frames) this.onmessage?.({ data: JSON.stringify(frame) }) }
    drop(code, reason = "") { this.readyState = 3; this.onclose?.({ code, reason }) }
  }
  let taken = 0
  /** The next socket that is opened. */
  const next = async () => {
    while (opened.length === taken) await new Promise((resolve) => { arrived = resolve })
    return opened[taken++]
  }
  return { WebSocket: FakeSocket, next, opened }
}

/** A `fetch` that is answered by `answer({method, path, query, headers, body, signal})`; `asked` are the requests. */
export function fakeFetch(answer) {
  const asked = []
  const fetch = async (url, init) => {
    const { pathname, searchParams, origin } = new URL(url)
    const isJson = new Headers(init.headers).get("Content-Type") === "application/json"
    const body = isJson ? JSON.parse(init.body) : init.body
    const request = { method: init.method ?? "GET", path: pathname, query: Object.fromEntries(searchParams), body, origin }
    request.headers = Object.fromEntries(new Headers(init.headers))
    request.signal = init.signal
    asked.push(request)
    if (init.signal?.aborted) throw init.signal.reason
    const aborted = new Promise((_, reject) => init.signal?.addEventListener("abort", () => reject(init.signal.reason)))
    aborted.catch(() => {})
    return await Promise.race([answer(request), aborted])
  }
  return { fetch, asked }
}

export const json = (body, status = 200, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } })

/** A stream of server-sent events that the test writes. */
export function fakeStream(signal) {
  let controller
  const body = new ReadableStream({ start: (given) => (controller = given) })
  signal?.addEventListener("abort", () => { try { controller.error(signal.reason) } catch { /* closed already */ } })
  const write = (bytes) => controller.enqueue(bytes)
  const tell = (event) => write(new TextEncoder().encode(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`))
  const response = new Response(body, { headers: { "Content-Type": "text/event-stream" } })
  return { response, write, tell, end: () => controller.close() }
}

/** Wait until something is so. */
export async function until(what, holds) {
  for (let round = 0; !(await holds()); round++) {
    if (round > 2_000) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}
