// A session of Pentad in a web page: what it shows, how it stays connected, and the page itself. No dependency.

// Closed because of what we sent: the same again ends the same way.
const FINAL = new Set([1002, 1003, 1007, 1008, 1009, 1010])
const TOKEN_ENDED = 4401
const LOST = 1006
const PING_EVERY_MS = 20_000
const [FIRST_DELAY_MS, MAX_DELAY_MS] = [100, 3_000]

/** What a page shows of a session: entries in their order, made from its events. It knows no network and no page. */
export class Conversation {
  entries = []
  #byKey = new Map()

  /** Show what the person says, before the gateway has it. */
  say(messageId, text) {
    Object.assign(this.#entry("user", messageId), { text, state: "sending" })
  }

  /** The messages that are shown without their text: said in another tab, or before the page was loaded. */
  get riddles() {
    return this.entries.filter(({ kind, text }) => kind === "user" && text === undefined)
  }

  /** Take the session's last messages, which answer these riddles, as far as they are kept. */
  learn(messages, riddles) {
    const texts = new Map(messages.map(({ message_id, content }) => [`user ${message_id}`, content]))
    for (const entry of riddles) entry.text ??= texts.get(entry.key) ?? "(its text is not known)"
  }

  /** Take one event of the session. */
  take(event) {
    switch (event.type) {
      case "message_routed": {
        const refused = event.decision === "rejected"
        Object.assign(this.#entry("user", event.message_id), { state: refused ? `refused: ${event.reason}` : "" })
        break
      }
      case "content":
        extend(this.#answer(event), event)
        break
      case "message":
        finish(this.#answer(event), event)
        break
      case "tool_call":
        Object.assign(this.#entry("tool", event.tool_call_id), { text: called(event), state: "running" })
        break
      case "tool_progress":
        this.#entry("tool", event.tool_call_id).state = event.content
        break
      case "tool_result":
        this.#entry("tool", event.tool_call_id).state = event.error ? `error: ${event.error}` : `= ${event.result}`
        break
      case "control_result":
        this.#entry("user", event.message_id).state = ""
        this.#entry("note", event.id).text = event.content
        break
      case "task_end":
        if (event.status === "completed") break
        this.#entry("note", event.id).text = `${event.status}: ${event.detail ?? event.reason}`
        break
      case "error":
        if (event.message_id) this.#entry("user", event.message_id).state = `error: ${event.message}`
        else this.#entry("note", event.id ?? event.code).text = event.message
        break
      case "snapshot": // events were lost: this is all that the session remembers
        this.entries = []
        this.#byKey.clear()
        event.messages.forEach(({ role, content, message_id }, place) => {
          const entry = role === "user" ? this.#entry("user", message_id) : this.#entry("answer", `before ${place}`)
          Object.assign(entry, { text: content, state: "" })
        })
    }
  }

  #answer({ task_id, step, attempt }) {
    const entry = this.#entry("answer", `${task_id} ${step}`)
    entry.attempt ??= attempt
    entry.text ??= ""
    return entry
  }

  #entry(kind, name) {
    const key = `${kind} ${name}`
    if (!this.#byKey.has(key)) {
      const entry = { kind, key, text: undefined, state: "" }
      this.#byKey.set(key, entry)
      this.entries.push(entry)
    }
    return this.#byKey.get(key)
  }
}

/** Add a delta to a step's text. A higher attempt makes the earlier one void; offsets count characters. */
function extend(entry, { attempt, offset, content }) {
  if (entry.whole || attempt < entry.attempt) return
  if (attempt > entry.attempt) Object.assign(entry, { attempt, text: "" })
  const have = [...entry.text].length
  if (offset <= have) entry.text += [...content].slice(have - offset).join("") // beyond a gap: the `message` brings it
}

function finish(entry, { content }) {
  Object.assign(entry, { text: content, whole: true })
}

function called({ tool, args }) {
  return `${tool}(${typeof args === "string" ? args : JSON.stringify(args)})`
}

/**
 * One session over a WebSocket that is opened again, from the cursor on, until `stop`. A message is sent until the
 * gateway says where it went; its id makes it one message however often that is.
 *
 * `getToken` returns a promise of `{url, session_id, token}`, and is asked again when a token has ended. `onEvent` gets
 * each event of the session, `onState` a word for the connection.
 */
export class Session {
  #getToken; #onEvent; #onState; #WebSocket
  #pass = null
  #cursor = "0" // from the oldest event that is kept
  #unsure = new Map()
  #socket = null // once the gateway has greeted us
  #opening = null
  #stopped = false
  #wake = () => {}

  constructor({ getToken, onEvent, onState = () => {}, WebSocket = globalThis.WebSocket }) {
    this.#getToken = getToken
    this.#onEvent = onEvent
    this.#onState = onState
    this.#WebSocket = WebSocket
  }

  /** Stay connected. Returns when `stop` is called, or when the gateway will never open this session. */
  async run() {
    for (let failures = 0; !this.#stopped; failures++) {
      let why = ""
      try {
        this.#pass ??= await this.#getToken()
        if (this.#stopped) break
        const closed = await this.#follow(this.#pass)
        why = closed.reason
        if (closed.code === TOKEN_ENDED) this.#pass = null
        if (FINAL.has(closed.code)) return this.#onState(`closed: ${why || closed.code}`)
        if (closed.greeted) failures = 0
      } catch (error) {
        why = error.message // no token: the page's own server is away
      }
      if (this.#stopped) break
      this.#onState(`reconnecting ${why}`.trim())
      const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(failures, 10))
      await this.#pause(delay * (0.5 + Math.random() / 2)) // by chance, so that pages do not come back as one
    }
    this.#onState("closed")
  }

  /** Say something; returns the id of the message. */
  send(content) {
    const random = crypto.getRandomValues(new Uint8Array(12))
    const message_id = "m-" + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")
    this.#unsure.set(message_id, { type: "message", content, message_id })
    this.#write(this.#unsure.get(message_id))
    return message_id
  }

  /** Ask a task to stop. */
  cancel(task_id) {
    this.#write({ type: "cancel", task_id })
  }

  /** The session's last messages over REST, with the same token. */
  async messages() {
    if (!this.#pass) return []
    const { url, session_id, token } = this.#pass
    const path = `${url}/v1/sessions/${encodeURIComponent(session_id)}/messages`
    const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` } })
    return answer.ok ? (await answer.json()).items : []
  }

  stop() {
    this.#stopped = true
    this.#opening?.close() // also one that is not greeted yet: it would bring its session to life again
    this.#wake()
  }

  /** Follow the session over one connection; returns how it has ended. */
  #follow({ url, session_id, token }) {
    const query = new URLSearchParams({ session_id, after: this.#cursor })
    const socket = new this.#WebSocket(`${url.replace(/^http/, "ws")}/v1/ws?${query}`, ["pentad.v1", `bearer.${token}`])
    this.#opening = socket
    let greeted = false
    let heard = true
    return new Promise((resolve) => {
      const end = (code, reason = "") => {
        clearInterval(watch)
        if (this.#opening === socket) this.#opening = this.#socket = null
        socket.onmessage = socket.onclose = null
        resolve({ code, reason, greeted })
      }
      const watch = setInterval(() => {
        if (!heard || !greeted) {
          socket.close()
          return end(LOST, "no answer")
        }
        heard = false
        socket.send('{"type":"ping"}')
      }, PING_EVERY_MS)
      socket.onerror = () => {} // onclose follows, and says more
      socket.onclose = ({ code, reason }) => end(code, reason)
      socket.onmessage = ({ data }) => {
        heard = true
        const frame = JSON.parse(data)
        if (frame.type === "session") {
          greeted = true
          this.#socket = socket
          this.#onState("connected")
          for (const message of this.#unsure.values()) this.#write(message)
        } else if (frame.type !== "pong" && frame.type !== "accepted") {
          this.#take(frame)
        }
      }
    })
  }

  #take(event) {
    if (event.id) this.#cursor = event.id
    const busy = event.type === "error" && event.code === "busy" && this.#unsure.get(event.message_id)
    if (busy) { // it may be sent again, under its id
      setTimeout(() => this.#unsure.has(busy.message_id) && this.#write(busy), (event.retry_after ?? 1) * 1000)
      return
    }
    if (event.message_id) this.#unsure.delete(event.message_id)
    this.#onEvent(event)
  }

  #write(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame))
  }

  #pause(ms) {
    return new Promise((resolve) => {
      this.#wake = resolve
      setTimeout(resolve, ms)
    })
  }
}

/** Put a conversation into a page that has a `form` with an `input`, a list `#entries` and a line `#state`. */
export function open(document, getToken, options = {}) {
  const conversation = new Conversation()
  const [list, form] = [document.querySelector("#entries"), document.querySelector("form")]
  const nodes = new Map()

  function draw() {
    const shown = conversation.entries.map(({ key, kind, text = "…", state }) => {
      const node = nodes.get(key) ?? document.createElement("li")
      nodes.set(key, node)
      node.className = kind
      const said = state ? `${text} ${state}` : text
      if (node.textContent !== said) node.textContent = said // never HTML: what a model writes is text
      return node
    })
    if (shown.some((node, place) => list.children[place] !== node) || list.children.length > shown.length) {
      list.replaceChildren(...shown)
    }
  }

  let learning = false // one question at a time: a page that is loaded meets many messages at once

  async function learn() {
    if (learning) return
    learning = true
    for (let riddles; (riddles = conversation.riddles).length > 0; draw()) {
      conversation.learn(await session.messages().catch(() => []), riddles)
    }
    learning = false
  }

  const session = new Session({
    getToken,
    onState: (state) => { document.querySelector("#state").textContent = state },
    onEvent: (event) => {
      conversation.take(event)
      draw()
      learn()
    },
    ...options,
  })

  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault()
    const input = form.querySelector("input")
    const text = input.value.trim()
    if (!text) return
    conversation.say(session.send(text), text)
    input.value = ""
    draw()
  })
  session.run()
  return session
}
