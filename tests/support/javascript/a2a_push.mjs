// Runs the official client of A2A against a gateway with push notifications, as told on standard input.
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";

const asked = JSON.parse(await new Promise((done) => {
  let text = "";
  process.stdin.on("data", (chunk) => (text += chunk)).on("end", () => done(text));
}));
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [asked.binding] });
const client = await new ClientFactory(options).createFromUrl(asked.url);
const authentication = { scheme: "Bearer", credentials: "cred-456" };
const config = (id, url, taskId = "") => ({ tenant: "", id, taskId, url, token: "tok-123", authentication });
const part = { content: { $case: "text", value: "hi" }, metadata: undefined, filename: "", mediaType: "" };
const message = {
  messageId: asked.id, role: 1, parts: [part], contextId: "", taskId: "", extensions: [], referenceTaskIds: [],
  metadata: undefined,
};
const configuration = {
  acceptedOutputModes: [], taskPushNotificationConfig: config("first", asked.receiver), historyLength: undefined,
  returnImmediately: false,
};
const sent = await client.sendMessage({ tenant: "", message, configuration, metadata: undefined });
const taskId = sent.id ?? sent.payload.value.id;
const made = await client.createTaskPushNotificationConfig(config("second", asked.receiver, taskId));
const found = await client.getTaskPushNotificationConfig({ tenant: "", taskId, id: "second" });
await client.deleteTaskPushNotificationConfig({ tenant: "", taskId, id: "second" });
const listed = await client.listTaskPushNotificationConfig({ tenant: "", taskId, pageSize: 0, pageToken: "" });
process.stdout.write(JSON.stringify({ taskId, made, found, left: listed.configs.map((each) => each.id) }));
