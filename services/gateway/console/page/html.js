// Markup as tagged templates, and the hooks of Preact, from one place.
import { h, htm } from "./vendor.js"

export const html = htm.bind(h)
export { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "./vendor.js"
