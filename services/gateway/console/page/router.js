// Places in the console are addresses: `#/tasks/TASK/steps/3?view=prompt`, so that each can be kept, sent and opened.
import { useEffect, useState } from "./html.js"

/** Ids and names: no `/`, no blanks, and not the names of folders, so that none leads to another path of the gateway. */
const NAME = /^(?!\.{1,2}$)[^\s/\\\p{C}]{1,4000}$/u

/**
 * The place that an address names: the parts of its path, and its query. `valid` is false for an address that was made
 * by hand and has a part that is no name.
 */
export function placeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?")
  const parts = path.split("/").filter(Boolean).map(readPart)
  const valid = parts.every((part) => NAME.test(part))
  return { parts: valid ? parts : [], query: new URLSearchParams(query), valid }
}

/** The address of a place, for `href`. Query values that are empty are left out. */
export function addressOf(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "")
  const tail = given.length ? `?${new URLSearchParams(given)}` : ""
  return `#/${parts.map(encodeURIComponent).join("/")}${tail}`
}

/** Go to a place. `replace`: the place before is not kept for the browser's way back. */
export function go(parts, query = {}, { replace = false } = {}) {
  const address = addressOf(parts, query)
  if (!replace) location.hash = address
  else if (location.hash !== address) {
    history.replaceState(null, "", address)
    dispatchEvent(new HashChangeEvent("hashchange"))
  }
}

/** The place of the address bar, followed as it changes. */
export function usePlace() {
  const [place, setPlace] = useState(() => placeOf(location.hash))
  useEffect(() => {
    const follow = () => setPlace(placeOf(location.hash))
    addEventListener("hashchange", follow)
    return () => removeEventListener("hashchange", follow)
  }, [])
  return place
}

function readPart(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
