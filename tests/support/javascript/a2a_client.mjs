// Runs the official client of A2A against a gateway, as told on standard input, and prints what it has seen.
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";

const asked = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [asked.binding] });
const client = await new ClientFactory(options).createFromUrl(asked.url);
const seen = [];
let task = "";
let context = "";
for (const each of asked.turns) {
  const parts = each.say !== undefined
    ? [{ content: { $case: "text", value: each.say }, metadata: undefined, filename: "", mediaType: "" }]
    : [{ content: { $case: "data", value: each.data }, metadata: undefined, filename: "", mediaType: "" }];
  const message = {
    messageId: each.id, role: 1, parts, contextId: context, taskId: each.answers ? task : "", extensions: [],
    referenceTaskIds: [], metadata: undefined,
  };
  const updates = [];
  let error = null;
  try {
    for await (const update of client.sendMessageStream({ tenant: "", message, configuration: undefined, metadata: undefined })) {
      updates.push(update.payload);
      const about = update.payload.value;
      task = update.payload.$case === "task" ? about.id : about.taskId;
      context = about.contextId;
    }
  } catch (thrown) {
    error = String(thrown);
  }
  const kept = task ? await client.getTask({ tenant: "", id: task, historyLength: undefined }) : null;
  seen.push({ updates, error, kept });
}
process.stdout.write(JSON.stringify(seen));
