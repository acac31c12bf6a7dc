/** Requests whose reply address is not the caller's own inbox: a service drops them, so that no answer acts for an attacker. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessFleet } from "../harness/in-process-fleet.ts";

let fleet: InProcessFleet;
let attacker: NatsConnection;

beforeAll(async () => {
  fleet = await openInProcessFleet();
  attacker = await connect({ servers: fleet.nats.url });
});

afterAll(async () => {
  await attacker?.close();
  await fleet?.close();
});

const dropped = async (metric: "commandsTotal" | "queriesTotal") => {
  const { values } = await fleet.metrics[metric].get();
  return values
    .filter(({ labels }) => labels.outcome === "FOREIGN_REPLY")
    .reduce((sum, { value }) => sum + value, 0);
};

const REPLIES: [name: string, reply: string][] = [
  ["a command of another agent", SUBJECTS.command("default", "victim", "taken", "take")],
  ["the queue of another agent", SUBJECTS.queue("default", "victim", "taken", "create")],
  ["the inbox of another agent", "_INBOX.victim.x.1"],
  ["an inbox without a caller", "_INBOX.x"],
  ["an event", SUBJECTS.event("default", "AGENT_FAILED", "taken")],
  ["the API of the streams", "$JS.API.STREAM.PURGE.FLEET_EVENTS"],
  ["an inbox whose name begins with the caller's", "_INBOX.agent-12.x.1"],
];

describe("a reply address that is", () => {
  test.each(REPLIES)("%s: the query is dropped", async (_, reply) => {
    const before = await dropped("queriesTotal");
    attacker.publish(SUBJECTS.query("default", "agent-1", "task"), '{"task_id":"taken"}', { reply });
    await expect.poll(() => dropped("queriesTotal")).toBe(before + 1);
  });

  test.each(REPLIES)("%s: the command is dropped without an effect", async (_, reply) => {
    const before = await dropped("commandsTotal");
    const subject = SUBJECTS.command("default", "agent-1", "dropped", "create");
    attacker.publish(subject, JSON.stringify(creation()), { reply });
    await expect.poll(() => dropped("commandsTotal")).toBe(before + 1);
    expect(await fleet.ask("task", { task_id: "dropped" })).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(await fleet.ask("task", { task_id: "taken" })).toMatchObject({ error: { code: "NOT_FOUND" } });
  });
});

test("the caller's own inbox gets the answer", async () => {
  const inbox = "_INBOX.agent-1.abc.1";
  const answers = attacker.subscribe(inbox, { max: 1 });
  attacker.publish(SUBJECTS.query("default", "agent-1", "status"), "{}", { reply: inbox });
  for await (const answer of answers) expect(answer.json()).toMatchObject({ status: "ok" });
});
