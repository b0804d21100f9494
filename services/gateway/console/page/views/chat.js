// A session: its tasks in one stream or side by side, what they ask, and what people say to them.
import { approvalsOf, ask, client, clientCallsOf, questionsOf, tasksOf } from "../client.js"
import { clip } from "../format.js"
import { html, useEffect, useMemo, useRef, useState } from "../html.js"
import { useAction, usePages } from "../loading.js"
import { Act, Loading, More, Problem, Status, TaskLink, When } from "../parts/basics.js"
import { addressOf, go } from "../router.js"
import { Approval } from "./approvals.js"
import { APPLICATION, ClientCall } from "./client_calls.js"
import { Composer } from "./composer.js"
import { Entry, MESSAGE } from "./entries.js"
import { Files } from "./files.js"
import { useSession } from "./session.js"

/** Entries at the end of a session that are drawn at first. */
const SHOWN = 200
const ENDED = ["completed", "failed", "cancelled"]
const COLOURS = 6

/** `#/chat`, `#/chat/SESSION`. */
export function ChatView({ place: { parts, query } }) {
  const id = parts[1] ?? ""
  const [news, setNews] = useState(0)
  return html`<div class="chat">
    <${SessionList} chosen=${id} news=${`${id} ${news}`} />
    ${
      id
        ? html`<${Conversation} key=${id} id=${id} layout=${query.get("layout") ?? "stream"} onNews=${setNews} />`
        : html`<${Begin} />`
    }
  </div>`
}

/** The sessions, read again when `news` changes and when the page is come back to: an idle page asks for nothing. */
function SessionList({ chosen, news }) {
  const sessions = usePages((cursor, signal) => ask("/v1/sessions", { query: { cursor, limit: 30 }, signal }), [])
  const known = useRef(news)
  useEffect(() => {
    if (known.current !== news) sessions.reload()
    known.current = news
  }, [news])
  useEffect(() => {
    addEventListener("focus", sessions.reload)
    return () => removeEventListener("focus", sessions.reload)
  }, [])
  return html`<aside class="sessions" aria-label="Sessions">
    <p><a class="button" href=${addressOf(["chat"])}>New chat</a></p>
    <${Loading} of=${sessions} empty=${sessions.items.length === 0} what="No session yet." />
    <ul class="plain">
      ${sessions.items.map(
        (session) => html`<li key=${session.session_id}>
        <a href=${addressOf(["chat", session.session_id])}
          aria-current=${session.session_id === chosen ? "page" : undefined}>
          ${clip(session.last || session.session_id, 60)}<br /><span class="quiet">
            <${When} at=${session.updated_at} /></span>
        </a>
      </li>`,
      )}
    </ul>
    <${More} of=${sessions} />
  </aside>`
}

function Begin() {
  const begin = useAction(async () => {
    const session = client.session()
    const name = await session.named().finally(() => session.close())
    go(["chat", name], {}, { replace: true })
  })
  useEffect(() => void begin.run(), [])
  if (begin.error) return html`<div><${Problem} error=${begin.error} /><${Act} action=${begin}>Try again<//></div>`
  return html`<p class="quiet" role="status">A new session begins …</p>`
}

/** `onNews` is told how many messages and tasks there are, when that changes. */
function Conversation({ id, layout, onNews }) {
  const { session, state, status, error } = useSession(id)
  const tasks = useMemo(() => tasksOf(state).filter((task) => !task.parent_task_id), [state.tasks])
  const colours = useMemo(() => new Map(tasks.map((task, i) => [task.task_id, i % COLOURS])), [tasks.length])
  const size = Object.keys(state.messages).length + tasks.filter((task) => ENDED.includes(task.status)).length
  useEffect(() => onNews(size), [size])
  const move = useAction((messageId, to) => session.move(messageId, to))
  const shared = { state, session, colours, onMove: move.run }
  return html`<section class="conversation" aria-label="Conversation">
      <header class="row">
        <h1 class="grow" title=${id}>${clip(id, 40)}</h1>
        ${status !== "connected" && html`<span class="warn" role="status">${status} …</span>`}
        <a href=${addressOf(["memory"], { session_id: id })}>Memory</a>
        <a href=${addressOf(["chat", id], { layout: layout === "stream" ? "columns" : "stream" })}>
          ${layout === "stream" ? "Side by side" : "One stream"}</a>
      </header>
      <${Problem} error=${error ?? move.error} />
      ${
        state.erased_at &&
        html`<p class="warn" role="status">This session was erased: <${When} at=${state.erased_at} />.
          ${" "}What is said now begins a new one.</p>`
      }
      ${
        layout === "columns"
          ? html`<div class="columns">${tasks.map(
              (task) => html`<${Column} key=${task.task_id} task=${task} ...${shared} />`,
            )}</div>`
          : html`<${Stream} ...${shared} />`
      }
      <${Waiting} state=${state} session=${session} />
      <${Composer} session=${session} tasks=${tasks} question=${questionsOf(state).at(-1)} />
    </section>
    <aside class="beside" aria-label="Tasks and files">
      <${TaskPanel} tasks=${tasks} ...${shared} />
      <${Files} session=${session} state=${state} />
    </aside>`
}

/** All entries in order; the view follows the end unless the person has gone back. */
function Stream({ state, session, colours, onMove }) {
  const [shown, setShown] = useState(SHOWN)
  const element = useRef(null)
  const follows = useRef(true)
  const top = useRef(0)
  const look = ({ target }) => {
    const isAtEnd = target.scrollHeight - target.scrollTop - target.clientHeight < 60
    // More may have come since the view was moved to the end: only a move backwards is the person's.
    follows.current = isAtEnd || (follows.current && target.scrollTop >= top.current)
    top.current = target.scrollTop
  }
  useEffect(() => {
    const follow = () => {
      const log = element.current // gone when the view was left meanwhile
      if (log && follows.current) log.scrollTop = log.scrollHeight
    }
    const frame = requestAnimationFrame(() => requestAnimationFrame(follow)) // after texts are drawn
    return () => cancelAnimationFrame(frame)
  }, [state])
  const entries = state.order.slice(-shown)
  return html`<div class="stream" ref=${element} onScroll=${look} tabindex="0" role="log" aria-label="Messages">
    ${
      entries.length < state.order.length &&
      html`<button type="button" onClick=${() => setShown(shown + SHOWN)}>Earlier</button>`
    }
    ${entries.length === 0 && html`<p class="quiet">Say something to begin.</p>`}
    ${entries.map(
      (entry) => html`<${Entry} key=${entry.key} entry=${entry} state=${state} session=${session}
      colours=${colours} onMove=${onMove} />`,
    )}
  </div>`
}

/** What belongs to one task alone. Messages may be dropped on it. */
function Column({ task, state, session, colours, onMove }) {
  const family = new Set([task.task_id, ...task.children])
  const entries = state.order.filter((entry) => family.has(entry.task_id ?? state.messages[entry.message_id]?.task_id))
  return html`<div class="column" ...${dropping(task.task_id, onMove)}>
    <header><${TaskName} task=${task} colours=${colours} /></header>
    ${entries.slice(-SHOWN).map(
      (entry) => html`<${Entry} key=${entry.key} entry=${entry} state=${state}
      session=${session} colours=${colours} onMove=${onMove} />`,
    )}
  </div>`
}

function TaskPanel({ tasks, session, colours, onMove }) {
  return html`<h2>Tasks</h2>
    <ul class="plain">
      ${tasks.toReversed().map(
        (task) => html`<li class="task" key=${task.task_id} ...${dropping(task.task_id, onMove)}>
        <${TaskName} task=${task} colours=${colours} />
        ${!ENDED.includes(task.status) && html`<${Controls} task=${task} session=${session} />`}
      </li>`,
      )}
      <li class="task new" ...${dropping("new", onMove)}>Drop a message here for a new task</li>
    </ul>`
}

function TaskName({ task, colours }) {
  return html`<span class="colour c${colours.get(task.task_id) ?? 0}" aria-hidden="true"></span>
    ${clip(task.goal ?? "", 60)} <${Status} of=${task.status} /> <${TaskLink} id=${task.task_id} />
    ${task.status === "waiting" && task.reason && html`<span class="quiet">
    ${" "}${task.reason === "client_tools" ? APPLICATION : task.reason}</span>`}`
}

function Controls({ task, session }) {
  const act = useAction((verb) => session[verb](task.task_id))
  const paused = task.status === "waiting" && task.reason === "paused"
  return html`<div class="row">
    <${Act} action=${act} args=${["cancel"]} danger>Stop<//>
    ${
      paused
        ? html`<${Act} action=${act} args=${["resume"]}>Resume<//>`
        : html`<${Act} action=${act} args=${["pause"]}>Pause<//>`
    }
    ${task.status === "waiting" && !paused && html`<${Act} action=${act} args=${["complete"]}>Close<//>`}
    <${Problem} error=${act.error} />
  </div>`
}

/** The decisions and answers that the session waits for. */
function Waiting({ state, session }) {
  const calls = approvalsOf(state)
  const theirs = clientCallsOf(state)
  const questions = questionsOf(state)
  if (!calls.length && !theirs.length && !questions.length) return null
  return html`<div class="panel waiting">
    ${questions.map(
      ({ task_id: id, text }) => html`<p key=${id}><b>
      ${clip(text, 400)}</b> <span class="quiet">Your next message to <${TaskLink} id=${id} /> answers it.</span></p>`,
    )}
    ${calls.map((call) => html`<${Approval} key=${call.tool_call_id} of=${call} />`)}
    ${theirs.map((call) => html`<${ClientCall} key=${call.tool_call_id} of=${call} session=${session} />`)}
  </div>`
}

/** What makes an element a place on which messages are dropped. */
function dropping(to, onMove) {
  return {
    onDragOver: (event) => {
      if (event.dataTransfer.types.includes(MESSAGE)) event.preventDefault()
    },
    onDrop: (event) => {
      const dropped = event.dataTransfer.getData(MESSAGE)
      if (!dropped) return
      event.preventDefault()
      onMove(dropped, to)
    },
  }
}
