// Runs the official client of AG-UI against a gateway, as told on standard input, and prints what it has seen.
import { HttpAgent } from "@ag-ui/client";

const asked = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const agent = new HttpAgent({ url: `${asked.url}/agui`, threadId: asked.thread, headers: asked.headers ?? {} });
const runs = [];
for (const each of asked.runs) {
  const events = [];
  if (each.say) agent.addMessage({ id: `said-${runs.length}`, role: "user", content: each.say });
  const resume = each.resume?.map((payload, number) => ({
    interruptId: agent.pendingInterrupts[number].id,
    ...(payload === null ? { status: "cancelled" } : { status: "resolved", payload }),
  }));
  for (const [name, content] of Object.entries(each.results ?? {})) { // of tools that the page runs
    const asking = agent.messages.flatMap((m) => m.toolCalls ?? []).findLast((call) => call.function.name === name);
    agent.addMessage({ id: `result-${runs.length}-${name}`, role: "tool", toolCallId: asking.id, content });
  }
  let error = null;
  try {
    await agent.runAgent(
      { runId: each.run, ...(resume ? { resume } : {}), tools: each.tools ?? [], forwardedProps: each.props ?? {} },
      { onEvent: ({ event }) => void events.push(event) },
    );
  } catch (thrown) {
    error = String(thrown);
  }
  runs.push({ events, error, messages: structuredClone(agent.messages), interrupts: agent.pendingInterrupts ?? [] });
}
process.stdout.write(JSON.stringify(runs));
