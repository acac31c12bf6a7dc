// A recipient of messages. It prints each message that it gets, and then either hangs in its processing or acknowledges
// the message by asking for the next one. Arguments: URL, home, agent, mission, `hang` or `process`.

import { connect } from "../../../shared/sdk/sdk.ts";

const [url = "", home = "", agentId = "", mission = "", mode = "process"] = process.argv.slice(2);

const env = { ...process.env, FLEET_HOME: home };
const fleet = await connect({ role: "operator", env, url, agentId, spoolDir: `${home}/spool-${agentId}` });
for await (const { message_id, subject, body } of fleet.mission(mission).messages()) {
  process.stdout.write(`${JSON.stringify({ message_id, subject, body })}\n`);
  if (mode === "hang") await new Promise(() => setInterval(() => {}, 60_000));
}
