// Types of pentad.js. What each does is written beside its code, and in docs/javascript.md.

export const VERSION: string
export const MAX_CONTENT: number
export const MAX_FILES: number
export const MAX_TOOLS: number
export const MAX_RESULT: number
export const MAX_ORDER: number
export const MAX_WAITING_EVENTS: number
export const MAX_FRAME: number

// ---------------------------------------------------------------------------------------------------------- errors

export interface ErrorDetails {
  status?: number
  code?: string
  retryAfter?: number | null
  messageId?: string
  inDoubt?: boolean
  cause?: unknown
}
export class PentadError extends Error {
  constructor(message: string, details?: ErrorDetails)
  /** Status of the gateway's answer; null where it gave none. */
  readonly status: number | null
  /** Code of the gateway's problem document, such as "busy". */
  readonly code: string | null
  /** Seconds after which to try again; null where it is not known. */
  readonly retryAfter: number | null
  readonly messageId: string | null
  /** Whether the request may have been carried out all the same. */
  readonly inDoubt: boolean
}
export class GatewayUnreachable extends PentadError {}
export class NotAuthorized extends PentadError {}
export class Refused extends PentadError {}
export class NotFound extends PentadError {}
export class Conflict extends PentadError {}
export class Unreadable extends PentadError {}
export class Busy extends PentadError {}
export class SlowReader extends PentadError {}
export class TurnFailed extends PentadError {
  constructor(result: TurnResult)
  readonly result: TurnResult
}

// ---------------------------------------------------------------------------------------------------------- events

export type TaskStatus = "pending" | "active" | "waiting" | "stale" | "completed" | "failed" | "cancelled"
export type Decision = "new" | "append" | "reopen" | "control" | "rejected"
export type Effect = "pure" | "idempotent" | "unsafe"
export type Args = Record<string, unknown> | string

export interface Usage {
  input_tokens: number
  output_tokens: number
  usd: number
  cached_tokens?: number
}
export interface ForkPoint {
  task_id: string
  step: number
}
export interface KeptFile {
  path: string
  media_type: string
  size: number
  digest: string
}

/** What all events of the gateway have. An event without an `id` was sent to this client alone. */
export interface Envelope {
  id?: string
  event_id?: string
  at?: string
  tenant_id?: string
  session_id?: string
  task_id?: string
  correlation_id?: string
  causation_id?: string
  parent_task_id?: string
  node?: string
}
export interface MessageRouted extends Envelope {
  type: "message_routed"
  message_id: string
  decision: Decision
  confidence: number
  reason: string
  stage?: "rule" | "similarity" | "model"
  candidates: string[]
  scores?: Record<string, number>
  metadata?: Record<string, string>
}
export interface ControlResult extends Envelope {
  type: "control_result"
  message_id: string
  action: "cancel" | "progress" | "pause" | "resume"
  content: string
}
export interface MessageMoved extends Envelope {
  type: "message_moved"
  message_id: string
  from_task_id: string
  to_task_id: string
  emptied: boolean
  effects: { tool_call_id: string; tool: string; effect: Effect }[]
  later_steps: number[]
}
export interface Compacted extends Envelope {
  type: "compacted"
  from: number
  to: number
  tokens_before: number
  tokens_after: number
}
export interface TaskStart extends Envelope {
  type: "task_start"
  task_id: string
  goal: string
  metadata?: Record<string, string>
  forked_from?: ForkPoint
}
export interface Delta extends Envelope {
  type: "thinking" | "content"
  task_id: string
  step: number
  attempt: number
  offset: number
  content: string
}
export interface MessageEvent extends Envelope {
  type: "message"
  task_id: string
  step: number
  attempt: number
  content: string
  finish_reason?: string
  model?: string
  model_id?: string
  ref?: string
}
export interface ToolCallEvent extends Envelope {
  type: "tool_call"
  task_id: string
  tool_call_id: string
  tool: string
  args: Args
  ref?: string
  parent_call_id?: string
  /** Whether the sender of the turn's message runs it, and sends its result. */
  client?: true
}
export interface ToolProgress extends Envelope {
  type: "tool_progress"
  task_id: string
  tool_call_id: string
  tool: string
  content: string
  fraction?: number
}
export interface ToolResultEvent extends Envelope {
  type: "tool_result"
  task_id: string
  tool_call_id: string
  tool: string
  result?: string
  error?: string
  duration_ms: number
  ref?: string
  artifacts?: KeptFile[]
}
export interface ApprovalRequest extends Envelope {
  type: "approval_request"
  task_id: string
  tool_call_id: string
  tool: string
  args: Args
  effect: Effect
  args_digest?: string
  reason?: string
  expires_at?: string
  needs?: "approval" | "input" | "outcome" | "calls"
  form?: Record<string, unknown>
  approvers?: string[]
  ref?: string
}
export interface ApprovalEvent extends Envelope {
  type: "approval"
  task_id: string
  tool_call_id: string
  approved: boolean
  by?: string
  args?: Args
  reason: string
}
export interface TaskStatusEvent extends Envelope {
  type: "task_status"
  task_id: string
  status: "pending" | "active" | "waiting" | "stale"
  reason: string
}
export interface NodeStart extends Envelope {
  type: "node_start"
  task_id: string
  node: string
  step: number
}
export interface NodeEnd extends Envelope {
  type: "node_end"
  task_id: string
  node: string
  step: number
  duration_ms: number
  next?: string
  error?: string
}
export interface TaskEnd extends Envelope {
  type: "task_end"
  task_id: string
  status: "completed" | "failed" | "cancelled"
  reason: string
  detail?: string
  queues?: boolean
  finish_reason?: string
  steps: number
  usage: Usage
}
export interface Snapshot extends Envelope {
  type: "snapshot"
  tasks: TaskView[]
  messages: RememberedMessage[]
  /** When the session was erased; what it has was said later. */
  erased_at?: string
}
export interface ErrorEvent extends Envelope {
  type: "error"
  code: string
  message: string
  message_id?: string
  retry_after?: number
}
/** An event that this client makes itself: what it has said, and what it has learnt over REST. */
export type ClientEvent =
  | ({ type: "client_message"; content: string; message_id: string; at?: string } & Partial<MessageFields>)
  | { type: "client_accepted"; message_id: string }
  | { type: "client_failed"; message_id: string; error: Failure }
  | { type: "client_history"; messages: RememberedMessage[]; asked?: string[] }
  | { type: "client_approvals"; approvals: PendingApproval[] }

export type GatewayEvent =
  | MessageRouted
  | ControlResult
  | MessageMoved
  | Compacted
  | TaskStart
  | Delta
  | MessageEvent
  | ToolCallEvent
  | ToolProgress
  | ToolResultEvent
  | ApprovalRequest
  | ApprovalEvent
  | TaskStatusEvent
  | NodeStart
  | NodeEnd
  | TaskEnd
  | Snapshot
  | ErrorEvent
export type SessionEvent = GatewayEvent | Extract<ClientEvent, { type: "client_failed" }>

/** A task as `GET /v1/tasks/{task}` and a snapshot show it. */
export interface TaskView {
  task_id: string
  session_id: string
  user_id?: string | null
  status: TaskStatus | "unreadable"
  goal: string
  instruction: string
  created_at: string
  updated_at: string
  steps: number
  usage: Usage
  waiting_for: string[]
  waiting_for_tools?: string[] | null
  archived_at?: string | null
  reason?: string | null
  detail?: string | null
  completed_at?: string | null
  last_user_message_at?: string | null
  parent_task_id?: string | null
  node?: string | null
  forked_from?: ForkPoint | null
}
/** A message as the session remembers it. */
export interface RememberedMessage {
  role: "user" | "assistant"
  content: string
  task_id: string
  at: string
  message_id?: string | null
}
/** A tool call that waits for a decision, as `GET /v1/approvals` shows it. */
export interface PendingApproval {
  task_id: string
  session_id: string
  user_id?: string
  tool_call_id: string
  tool: string
  args: Record<string, unknown>
  args_digest: string
  effect: Effect
  reason: string
  asked_at: string
  expires_at: string
  needs: "approval" | "input" | "outcome" | "calls"
  form?: Record<string, unknown>
  approvers?: string[]
}

// ----------------------------------------------------------------------------------------------------- the reducer

export interface Failure {
  code: string | null
  message: string
  retry_after?: number | null
}
/** What a state knows of a tool call's approval: the question, and the decision. */
export interface ApprovalState {
  readonly status: "asked" | "approved" | "refused" | "expired"
  readonly args: Args | null
  readonly args_digest: string | null
  readonly effect: Effect | null
  readonly reason: string | null
  readonly expires_at: string | null
  readonly ref: string | null
  readonly needs: "approval" | "input" | "outcome" | "calls"
  readonly form: Record<string, unknown> | null
  readonly approvers: readonly string[] | null
  readonly by: string | null
  readonly decision_reason: string | null
  readonly decided_args: Args | null
}
export interface CallState {
  readonly task_id: string
  readonly tool_call_id: string
  readonly tool: string
  /** The step that asked for it; null until its `tool_call` is seen. */
  readonly step: number | null
  readonly args: Args | null
  /** Name of the whole arguments, where `args` was cut: `session.value(task_id, ref)`. */
  readonly ref: string | null
  readonly parent_call_id: string | null
  readonly status: "running" | "waiting" | "refused" | "done" | "failed"
  readonly progress: string | null
  readonly fraction: number | null
  readonly result: string | null
  readonly error: string | null
  readonly duration_ms: number | null
  readonly result_ref: string | null
  readonly artifacts: readonly KeptFile[]
  readonly approval: ApprovalState | null
  readonly asked_at: string | null
  /** Whether the sender of the turn's message runs it, and sends its result. */
  readonly client: boolean
}
export interface StepState {
  readonly step: number
  readonly attempt: number
  /** The message whose turn the step belongs to. */
  readonly message_id: string | null
  readonly at: string | null
  readonly text: string
  readonly text_length: number
  readonly thinking: string
  readonly thinking_length: number
  /** Whether the step is said to its end. */
  readonly whole: boolean
  /** Whether pieces are missing, until the step's message comes. */
  readonly held: boolean
  /** Whether its message was moved to another task, which answers it instead. */
  readonly void: boolean
  /** Ids of its tool calls, in `TaskState.calls`. */
  readonly calls: readonly string[]
  readonly finish_reason: string | null
  readonly model: string | null
  readonly model_id: string | null
  /** Name of the whole text, where it was cut. */
  readonly ref: string | null
  readonly commit: string | null
}
export interface NodeVisit {
  readonly node: string
  readonly step: number | null
  readonly at: string | null
  readonly ended: boolean
  readonly duration_ms: number | null
  readonly next: string | null
  readonly error: string | null
}
export interface TaskState {
  readonly task_id: string
  readonly status: TaskStatus | "unreadable"
  readonly reason: string
  readonly detail: string | null
  readonly goal: string | null
  readonly parent_task_id: string | null
  readonly node: string | null
  /** Ids of the tasks that this one has started. */
  readonly children: readonly string[]
  readonly steps: readonly StepState[]
  readonly calls: Readonly<Record<string, CallState>>
  /** The path through its graph, for a task that runs one. */
  readonly nodes: readonly NodeVisit[]
  readonly waiting_for: readonly string[]
  readonly usage: Usage | null
  readonly finish_reason: string | null
  readonly metadata: Record<string, string> | null
  readonly forked_from: ForkPoint | null
  readonly started_at: string | null
  readonly ended_at: string | null
}
export interface RoutingState {
  readonly decision: Decision
  readonly reason: string
  readonly confidence: number
  readonly stage: "rule" | "similarity" | "model" | null
  readonly candidates: readonly string[]
  readonly scores: Readonly<Record<string, number>> | null
}
export interface MessageFields {
  files: string[]
  user_id: string | null
  task_id: string | null
  metadata: Record<string, string> | null
}
export interface MessageState extends Readonly<MessageFields> {
  readonly message_id: string
  /** undefined: not known yet; null: nobody knows it any more. */
  readonly text: string | null | undefined
  readonly at: string | null
  readonly status: "sending" | "accepted" | "routed" | "refused" | "control" | "failed"
  readonly routing: RoutingState | null
  readonly control: { action: string; content: string; task_id: string | null } | null
  readonly moves: readonly { from_task_id: string; to_task_id: string; at: string | null }[]
  readonly error: Failure | null
}
/** What a page shows, one below the other. `key` stays the same. */
export type OrderEntry =
  | { readonly key: string; readonly kind: "message"; readonly message_id: string }
  | { readonly key: string; readonly kind: "step"; readonly task_id: string; readonly step: number }
  /** An answer that the session remembers, without its step. */
  | {
      readonly key: string
      readonly kind: "answer"
      readonly task_id: string | null
      readonly text: string
      readonly at: string | null
    }
  /** A control_result, an error, a message_moved, a compacted, or the task_end of a task that did not complete. */
  | { readonly key: string; readonly kind: "note"; readonly event: GatewayEvent }
export interface SessionState {
  readonly session_id: string | null
  readonly cursor: string
  /** Whether events are missing, until the snapshot comes. */
  readonly gap: boolean
  /** When the session was erased, as the last snapshot has told; null where it was not. */
  readonly erased_at: string | null
  readonly tasks: Readonly<Record<string, TaskState>>
  readonly messages: Readonly<Record<string, MessageState>>
  readonly order: readonly OrderEntry[]
}

export function emptySession(sessionId?: string | null): SessionState
export function reduce(state: SessionState, event: GatewayEvent | ClientEvent): SessionState
export function isAfter(cursor: string, other: string): boolean
export function tasksOf(state: SessionState): TaskState[]
export function callsOf(task: TaskState, step: StepState): CallState[]
export type WaitingApproval = ApprovalState & { task_id: string; tool_call_id: string; tool: string }
export function approvalsOf(state: SessionState): WaitingApproval[]
export function clientCallsOf(state: SessionState): CallState[]
export function questionsOf(state: SessionState): { task_id: string; text: string }[]

// ------------------------------------------------------------------------------------------- the turn of a message

export interface TurnEnd {
  readonly outcome: "completed" | "failed" | "cancelled" | "waiting" | "rejected" | "error"
  readonly reason: string
  readonly detail: string | null
}
export interface TurnResult extends TurnEnd {
  readonly answer: string | null
  readonly task_id: string | null
  readonly message_id: string
}
export interface TurnProgress {
  readonly message_id: string
  readonly task_id: string | null
  readonly started: readonly string[]
  /** Names of the message's own tools that are run here. */
  readonly runs: readonly string[]
  /** Ids of open calls of clients' tools that are not run here. */
  readonly left: readonly string[]
  readonly end: TurnEnd | null
  readonly answer?: string
}
export function newTurn(messageId: string, runs?: readonly string[]): TurnProgress
export function turnAfter(turn: TurnProgress, event: SessionEvent): TurnProgress
export function concerns(turn: TurnProgress, event: SessionEvent): boolean

// ------------------------------------------------------------------------------------------------------- the client

export interface Pass {
  token: string
  expires_at?: string
  url?: string
  session_id?: string
}
export interface ConnectOptions {
  /** The gateway's address; else the one that `getToken` names, else the page's own origin. */
  url?: string
  /** An API key: for servers, never in a page. */
  key?: string
  token?: string
  getToken?: () => Promise<string | Pass> | string | Pass
  transport?: "auto" | "websocket" | "sse"
  fetch?: typeof globalThis.fetch
  WebSocket?: unknown
}
export interface Signalled {
  signal?: AbortSignal
}
export type Query = Record<string, string | number | boolean | null | undefined>
export interface RequestOptions extends Signalled {
  query?: Query
  body?: unknown
  headers?: HeadersInit
  /** Milliseconds of silence after which there is no answer: 30,000. */
  timeoutMs?: number
}
export interface PageOptions extends Signalled {
  query?: Query
  limit?: number
}

export function connect(options?: ConnectOptions): Client
export class Client {
  constructor(options?: ConnectOptions)
  readonly memory: Memory
  session(id?: string | null, options?: SessionOptions): Session
  request(method: string, path: string, options: RequestOptions & { as: "response" }): Promise<Response>
  request(method: string, path: string, options: RequestOptions & { as: "blob" }): Promise<Blob>
  request(method: string, path: string, options: RequestOptions & { as: "text" }): Promise<string>
  request<T = any>(method: string, path: string, options?: RequestOptions & { as?: "json" }): Promise<T>
  pages<T = any>(path: string, options?: PageOptions): AsyncGenerator<T, void>
  sessions(options?: PageOptions): AsyncGenerator<{ session_id: string; updated_at: string; last: string }, void>
  tasks(options?: PageOptions): AsyncGenerator<TaskView, void>
  task(taskId: string, options?: Signalled): Promise<TaskView>
  value(taskId: string, ref: string, options?: Signalled): Promise<string>
  approvals(options?: PageOptions): AsyncGenerator<PendingApproval, void>
  token(
    body: { session_id: string; user_id?: string; may: ("read" | "send" | "approve")[]; ttl_s?: number },
    options?: Signalled,
  ): Promise<{ token: string; expires_at: string }>
}
export interface MemoryQuery extends Signalled {
  limit?: number
  user_id?: string
  session_id?: string
  as_of?: string
  strategy?: "auto" | "none" | "bfs" | "dfs" | "astar"
  depth?: number
  kind?: "working" | "episodic" | "semantic"
  tasks?: boolean
}
export interface Memory {
  search(question: string, options?: MemoryQuery): Promise<any>
  expand(
    anchor: string,
    options?: Signalled & { window?: number; user_id?: string; session_id?: string; whole?: boolean },
  ): Promise<any>
}

// ------------------------------------------------------------------------------------------------------ the session

export interface SessionOptions {
  /** Cursor to begin after: "0" for all that is kept, "now" for a snapshot and what comes next. */
  after?: string
  /** A state that was kept, from which to go on. */
  state?: SessionState
  userId?: string | null
}
export interface SendOptions extends Signalled {
  /** An id, or "new". */
  taskId?: string
  files?: string[]
  instruction?: string
  metadata?: Record<string, string>
  budget?: { tokens?: number; usd?: number; steps?: number }
  deadline?: string
  outputSchema?: Record<string, unknown>
  state?: Record<string, unknown>
  userId?: string | null
  messageId?: string
  /** Tools of this page, which the model may call until the task's next message. */
  tools?: OwnTool[]
}
/** A tool that the page runs itself. Without `run` its calls wait for `session.sendResult`. */
export interface OwnTool {
  name: string
  description?: string
  /** JSON schema of the arguments, an object's. Nobody else checks arguments by it. */
  parameters?: Record<string, unknown>
  /** Its value, a text or any other JSON, is the result of the call; what it throws is told to the model. */
  run?(args: any, about: { call: CallState; signal: AbortSignal }): unknown
}
export type SessionStatus = "idle" | "connecting" | "connected" | "reconnecting" | "closed"
export class Session {
  private constructor()
  readonly id: string | null
  readonly userId: string | null
  readonly state: SessionState
  readonly status: SessionStatus
  readonly error: PentadError | null
  readonly cursor: string
  readonly files: Files
  open(): this
  close(): void
  on(kind: "event", listener: (event: SessionEvent, state: SessionState) => void): () => void
  on(kind: "state", listener: (state: SessionState) => void): () => void
  on(kind: "status", listener: (status: SessionStatus) => void): () => void
  on(kind: "error", listener: (error: PentadError) => void): () => void
  events(options?: Signalled): AsyncGenerator<SessionEvent, void>
  send(content: string, options?: SendOptions): Turn
  ask(content: string, options?: SendOptions): Promise<string | null>
  answer(taskId: string, content: string, options?: SendOptions): Turn
  cancel(taskId: string, options?: Signalled): Promise<unknown>
  pause(taskId: string, options?: Signalled): Promise<unknown>
  resume(taskId: string, options?: Signalled): Promise<unknown>
  complete(taskId: string, options?: Signalled): Promise<unknown>
  move(messageId: string, to: string, options?: Signalled & { from?: string }): Promise<unknown>
  approvals(options?: Signalled): Promise<PendingApproval[]>
  approve(
    approval: Decidable,
    options?: Signalled & { args?: Record<string, unknown>; reason?: string },
  ): Promise<DecisionTaken>
  refuse(approval: Decidable, options?: Signalled & { reason?: string }): Promise<DecisionTaken>
  sendResult(call: Answerable, value: unknown, options?: Signalled): Promise<unknown>
  sendFailure(call: Answerable, reason: unknown, options?: Signalled): Promise<unknown>
  history(options?: Signalled): Promise<RememberedMessage[]>
  run(messageId: string, options?: Signalled): Promise<any>
  value(taskId: string, ref: string, options?: Signalled): Promise<string>
  named(signal?: AbortSignal): Promise<string>
}
export interface Decidable {
  task_id: string
  tool_call_id: string
  args_digest?: string | null
}
export interface Answerable {
  task_id: string
  tool_call_id: string
  tool?: string
}
export interface DecisionTaken {
  task_id: string
  tool_call_id: string
  approved: boolean
  by?: string
  at: string
  args?: Record<string, unknown>
  reason: string
}
export class Turn {
  private constructor()
  readonly messageId: string
  readonly taskId: string | null
  readonly end: TurnEnd | null
  readonly said: string
  readonly accepted: Promise<void>
  events(options?: Signalled): AsyncGenerator<SessionEvent, void>
  text(options?: Signalled): AsyncGenerator<string, void>
  done(options?: Signalled): Promise<TurnResult>
  cancel(options?: Signalled): Promise<void>
}
export interface SessionFile {
  path: string
  size: number
  media_type: string
  modified_at: string
  etag: string
}
export interface Files {
  list(options?: Signalled & { glob?: string; limit?: number }): AsyncGenerator<SessionFile, void>
  get(path: string, options?: Signalled & { start?: number; end?: number; timeoutMs?: number }): Promise<Blob>
  put(
    path: string,
    content: Blob | BufferSource | string,
    options?: Signalled & { ifMatch?: string; onlyNew?: boolean; timeoutMs?: number },
  ): Promise<SessionFile>
  remove(path: string, options?: Signalled & { ifMatch?: string }): Promise<void>
}
