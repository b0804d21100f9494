// What the console uses of others: everything that `../page` imports from `vendor.js`.
export { Component, Fragment, h, render } from "preact"
export { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks"
export { default as htm } from "htm"
export { Marked } from "marked"
export { default as DOMPurify } from "dompurify"
export { layout, graphlib } from "@dagrejs/dagre"
export { default as Graph } from "graphology"
export { default as ForceLayout } from "graphology-layout-forceatlas2/worker"
