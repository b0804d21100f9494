// Runs an official client of MCP against a gateway, as told on standard input, and prints what it has seen.
// Era 2025: @modelcontextprotocol/sdk. Era 2026: @modelcontextprotocol/client.
const asked = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const modern = asked.era === "2026";
const { Client } = await import(modern ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await import(
  modern ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/streamableHttp.js"
);
const questions = [];
const answered = (request) => {
  questions.push(request.params);
  return asked.answers[questions.length - 1];
};
const client = new Client(
  { name: "for-tests", version: "1" },
  { capabilities: { elicitation: {} }, ...(modern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {}) },
);
if (modern) client.setRequestHandler("elicitation/create", async (request) => answered(request));
await client.connect(new StreamableHTTPClientTransport(new URL(`${asked.url}/mcp`)));
const seen = { tools: (await client.listTools()).tools.map((tool) => tool.name), results: [], progress: [] };
for (const each of asked.calls) {
  const told = { onprogress: (progress) => seen.progress.push(progress.message) };
  seen.results.push(
    await (modern ? client.callTool(each, told) : client.callTool(each, undefined, told)),
  );
}
seen.files = (await client.listResources()).resources.map((file) => file.uri);
if (seen.files.length) seen.read = (await client.readResource({ uri: seen.files[0] })).contents[0];
seen.questions = questions;
await client.close();
process.stdout.write(JSON.stringify(seen));
