// Runs the official client of OpenAI against a gateway, as told on standard input, and prints what it has seen.
import OpenAI from "openai";

const asked = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const ai = new OpenAI({ baseURL: `${asked.url}/openai/v1`, apiKey: "none", maxRetries: 0 });
const models = [];
for await (const each of ai.models.list()) models.push(each.id);
const messages = [{ role: "user", content: asked.first }];
const begun = await ai.chat.completions.create({ model: "pentad", messages, stream: true }).withResponse();
const tools = [];
let streamed = "";
for await (const chunk of begun.data) {
  streamed += chunk.choices[0].delta.content ?? "";
  if (chunk.pentad?.type === "tool_call") tools.push(chunk.pentad.tool);
}
messages.push({ role: "assistant", content: streamed }, { role: "user", content: "again" });
const went = await ai.chat.completions.create({ model: "pentad", messages }).withResponse();
const stream = ai.responses.stream({ model: "pentad", input: `${asked.first} anew` });
for await (const event of stream) void event;
const response = await stream.finalResponse();
const places = [];
const runner = ai.chat.completions.runTools({
  model: "pentad",
  messages: [{ role: "user", content: `${asked.first} where` }],
  tools: [{
    type: "function",
    function: {
      name: "get_place",
      description: "Where the user is",
      parameters: { type: "object", properties: { exact: { type: "boolean" } } },
      parse: JSON.parse,
      function: ({ exact }) => (places.push(exact), "in Berlin"),
    },
  }],
});
const placed = await runner.finalContent();
let refused = null;
try {
  await ai.chat.completions.create({ model: "pentad/nobody", messages });
} catch (error) {
  refused = [error.status, error.code];
}
process.stdout.write(JSON.stringify({
  models,
  tools,
  streamed,
  whole: went.data.choices[0].message.content,
  sessions: [begun, went].map((each) => each.response.headers.get("x-pentad-session")),
  items: response.output.map((item) => item.type),
  responded: response.output_text,
  places,
  placed,
  refused,
}));
