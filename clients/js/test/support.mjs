// What several tests use: states folded from events, random values with a seed, and a gateway of promises.
import { emptySession, reduce } from "../pentad.js"

/** The state after these events; each state before is frozen, so that a change of one would throw. */
export function fold(events, state = emptySession()) {
  return events.reduce((before, event) => reduce(frozen(before), event), state)
}

export function frozen(value) {
  if (value !== null && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const each of Object.values(value)) frozen(each)
  }
  return value
}

/** The texts of a session's steps that have said something or are saying it, in their order. */
export function textsOf(state) {
  return state.order
    .filter((entry) => entry.kind === "step")
    .map((entry) => state.tasks[entry.task_id].steps.find((step) => step.step === entry.step))
    .filter((step) => !(step.whole && step.text === ""))
    .map((step) => step.text)
}

const SIGNS = ["a", "b", " ", "\u00e9", "\u{1f600}", "\u{1f469}\u200d\u{1f680}"]

/** Random values that are the same for a seed (mulberry32). */
export function randomOf(seed) {
  const next = () => {
    seed = (seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
  const below = (count) => Math.floor(next() * count)
  const one = (list) => list[below(list.length)]
  const text = () => Array.from({ length: 1 + below(12) }, () => one(SIGNS)).join("")
  const scalar = () => one([null, 0, -1, 1.5, 1e300, NaN, true, "", "x", "t", "5-0", "__proto__", "waiting", [], {}, ["t"], [null], [{ task_id: "t" }]])
  const names = ["id", "task_id", "step", "attempt", "offset", "content", "message_id", "tool_call_id", "tasks", "messages", "status", "reason", "args", "asked", "approvals", "parent_task_id", "files", "candidates", "node", "role"]
  const object = () => Object.fromEntries(Array.from({ length: below(6) }, () => [one(names), scalar()]))
  return { below, one, text, object, chance: (share) => next() < share }
}
