// A session of `pentad.js` in a component: its state is drawn once a frame, however fast events come.
import { ask, client } from "../client.js"
import { useEffect, useState } from "../html.js"

export function useSession(id) {
  const [session] = useState(() => client.session(id))
  const [shown, setShown] = useState({ state: session.state, status: session.status, error: null })
  useEffect(() => {
    let frame = 0
    const draw = () => {
      frame = 0
      setShown({ state: session.state, status: session.status, error: session.error })
    }
    const news = () => (frame ||= requestAnimationFrame(draw))
    const stop = ["state", "status", "error"].map((kind) => session.on(kind, news))
    recall(session).catch(() => {}) // what is kept of events is shown all the same
    return () => {
      for (const each of stop) each()
      cancelAnimationFrame(frame)
      session.close()
    }
  }, [session])
  return { session, ...shown }
}

/** Have the state learn what the session remembers of older messages. A session without tasks has none yet. */
async function recall(session) {
  const tasks = await ask("/v1/tasks", { query: { session_id: session.id, limit: 1 } })
  if (tasks.items.length) await session.history()
}
