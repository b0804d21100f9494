// Asking the gateway from a component: what is asked for, while it comes, and what went wrong.
import { useCallback, useEffect, useRef, useState } from "./html.js"

/**
 * Load a value when the component appears and when `deps` change; with `every` again after so many milliseconds, while
 * the page is seen. `load` gets an AbortSignal, which ends what nobody waits for any more. The value before stays until
 * the next one is there.
 */
export function useLoaded(load, deps, { every = 0 } = {}) {
  const [state, setState] = useState({ value: undefined, error: null, loading: true })
  const [round, setRound] = useState(0)
  const known = useRef(null)
  useEffect(() => {
    const stop = new AbortController()
    let timer = 0
    const key = JSON.stringify(deps)
    setState((old) => ({ value: known.current === key ? old.value : undefined, error: null, loading: true }))
    known.current = key
    const once = async () => {
      try {
        const value = await load(stop.signal)
        if (!stop.signal.aborted) setState({ value, error: null, loading: false })
      } catch (error) {
        if (!stop.signal.aborted) setState((old) => ({ ...old, error, loading: false }))
      }
      if (every && !stop.signal.aborted) timer = setTimeout(document.hidden ? again : once, every)
    }
    const again = () => {
      timer = setTimeout(document.hidden ? again : once, every)
    }
    once()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [...deps, round])
  const reload = useCallback(() => setRound((n) => n + 1), [])
  return { ...state, reload }
}

/**
 * A list that is read page by page: `{items, next}` of the gateway. `more` reads the next page, if there is one.
 */
export function usePages(load, deps) {
  const [more, setMore] = useState({ items: [], next: undefined, error: null, loading: false })
  const first = useLoaded(
    async (signal) => {
      const page = await load(null, signal)
      setMore({ items: [], next: page.next, error: null, loading: false })
      return page
    },
    deps,
  )
  const readMore = async () => {
    setMore((old) => ({ ...old, loading: true }))
    try {
      const page = await load(more.next)
      setMore((old) => ({ items: [...old.items, ...page.items], next: page.next, error: null, loading: false }))
    } catch (error) {
      setMore((old) => ({ ...old, error, loading: false }))
    }
  }
  return {
    items: [...(first.value?.items ?? []), ...more.items],
    error: first.error ?? more.error,
    loading: first.loading || more.loading,
    more: more.next ? readMore : null,
    reload: first.reload,
  }
}

/** Something that a person starts: `run` does it, `busy` while it goes on, `error` if it failed. */
export function useAction(act) {
  const [state, setState] = useState({ busy: false, error: null, done: undefined })
  const run = async (...given) => {
    setState({ busy: true, error: null, done: undefined })
    try {
      const done = await act(...given)
      setState({ busy: false, error: null, done: done ?? true })
      return done
    } catch (error) {
      setState({ busy: false, error, done: undefined })
      return undefined
    }
  }
  return { ...state, run }
}
