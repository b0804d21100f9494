// A chat in a page: what it shows of a session's state, and what a person can do. The session does all the rest.

/** What a page shows of a session, from top to bottom: `{key, kind, text, state, approval?}`. */
export function rows({ order, messages, tasks }) {
  return order.flatMap((entry) => {
    if (entry.kind === "message") return [messageRow(entry, messages[entry.message_id])]
    if (entry.kind === "answer") return [{ key: entry.key, kind: "answer", text: entry.text, state: "" }]
    if (entry.kind === "note") return noteRows(entry)
    const task = tasks[entry.task_id]
    const step = task.steps.find(({ step }) => step === entry.step)
    if (step.void) return [] // its message was given to another task, which answers it
    const answer = { key: entry.key, kind: "answer", text: step.text, state: step.whole || step.text ? "" : "thinking …" }
    const calls = step.calls.map((id) => callRow(task.calls[id]))
    return step.whole && step.text === "" ? calls : [answer, ...calls]
  })
}

function messageRow({ key }, { text, status, routing, error }) {
  const states = { sending: "sending", refused: `refused: ${routing?.reason}`, failed: `not sent: ${error?.message}` }
  const shown = text === null ? "(its text is not known any more)" : (text ?? "…")
  return { key, kind: "user", text: shown, state: states[status] ?? "" }
}

function callRow({ task_id, tool_call_id, tool, args, status, progress, result, error, approval }) {
  const states = { done: `= ${result}`, failed: `error: ${error}`, refused: "refused", waiting: approval?.reason ?? "waits" }
  const state = states[status] ?? progress ?? "running"
  const text = `${tool}(${typeof args === "string" ? args : JSON.stringify(args)})`
  const asked = status === "waiting" ? { task_id, tool_call_id, args_digest: approval.args_digest } : null
  return { key: `call ${tool_call_id}`, kind: "tool", text, state, approval: asked }
}

function noteRows({ key, event }) {
  const texts = {
    task_end: () => `${event.status}: ${event.detail ?? event.reason}`,
    control_result: () => event.content,
    message_moved: () => "a message was given to another task",
    error: () => (event.task_id ? null : event.message), // a task tells its errors when it ends
  }
  const text = texts[event.type]?.()
  return text ? [{ key, kind: "note", text, state: "" }] : []
}

/** Put a session into a page that has a `form` with an `input`, a list `#entries`, a button `#stop` and a line `#state`. */
export function open(document, session, frame = (draw) => requestAnimationFrame(draw)) {
  const [list, form] = [document.querySelector("#entries"), document.querySelector("form")]
  const [line, stop] = [document.querySelector("#state"), document.querySelector("#stop")]
  const nodes = new Map()
  let drawing = false

  function drawSoon() {
    if (drawing) return
    drawing = true
    frame(draw)
  }

  function draw() {
    drawing = false
    const { state } = session
    const shown = rows(state).map(drawn)
    if (shown.some((node, place) => list.children[place] !== node) || list.children.length > shown.length) {
      list.replaceChildren(...shown)
    }
    stop.hidden = running().length === 0
    line.textContent = session.error ? session.error.message : session.status
  }

  function drawn({ key, kind, text, state, approval }) {
    const node = nodes.get(key) ?? document.createElement("li")
    nodes.set(key, node)
    const said = [kind, text, state, approval ? "asks" : ""].join("\u0000")
    if (node.said === said) return node
    node.said = said
    node.className = kind
    node.replaceChildren()
    node.textContent = state ? `${text} ${state}` : text // never HTML: what a model writes is text
    if (approval) {
      node.append(button("Allow", () => session.approve(approval)), button("Refuse", () => session.refuse(approval)))
    }
    return node
  }

  function button(name, act) {
    const made = document.createElement("button")
    made.textContent = name
    made.addEventListener("click", () => act().catch(tell))
    return made
  }

  const running = () => Object.values(session.state.tasks).filter((task) => ["active", "pending"].includes(task.status) && !task.parent_task_id)
  const tell = (error) => { line.textContent = error.message }

  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault()
    const input = form.querySelector("input")
    const text = input.value.trim()
    if (!text) return
    session.send(text)
    input.value = ""
  })
  stop.addEventListener("click", () => running().forEach((task) => session.cancel(task.task_id).catch(tell)))
  session.on("state", drawSoon)
  session.on("status", drawSoon)
}
