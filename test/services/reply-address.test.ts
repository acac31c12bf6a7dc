/** Requests whose reply address is not the caller's own inbox: a service drops them, so that no answer acts for an attacker. */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectBus } from "../../shared/bus/connection.ts";
import { SUBJECTS } from "../../shared/protocol/subjects.ts";
import { creation, type InProcessFleet, openInProcessFleet } from "../harness/in-process-fleet.ts";
import { testLog } from "../harness/processes/nats.ts";

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

const dropped = async (metric: "commandsTotal" | "queriesTotal", outcome = "FOREIGN_REPLY") => {
  const { values } = await fleet.metrics[metric].get();
  return values.filter(({ labels }) => labels.outcome === outcome).reduce((sum, { value }) => sum + value, 0);
};

const REPLIES: [name: string, reply: string][] = [
  ["a command of another agent", SUBJECTS.command("default", "victim", "taken", "take")],
  ["the queue of another agent", SUBJECTS.queue("default", "victim", "taken", "create")],
  ["the inbox of another agent", "_INBOX.default.victim.x.1"],
  ["the inbox of the agent of this name in another tenant", "_INBOX.acme.agent-1.x.1"],
  ["the inbox of a service", "_INBOX.=writer.agent-1.x.1"],
  ["an inbox without a tenant", "_INBOX.agent-1.x.1"],
  ["an inbox without a caller", "_INBOX.default.x"],
  ["an event", SUBJECTS.event("default", "AGENT_FAILED", "taken")],
  ["the API of the streams", "$JS.API.STREAM.PURGE.FLEET_EVENTS"],
  ["an inbox whose name begins with the caller's", "_INBOX.default.agent-12.x.1"],
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

test("a request without a reply address is dropped: the server may have sent it for a client that may not", async () => {
  const before = [await dropped("queriesTotal", "NO_REPLY"), await dropped("commandsTotal", "NO_REPLY")];
  attacker.publish(SUBJECTS.query("default", "agent-1", "task"), '{"task_id":"silent"}');
  attacker.publish(SUBJECTS.command("default", "agent-1", "silent", "create"), JSON.stringify(creation()));
  const now = () => Promise.all([dropped("queriesTotal", "NO_REPLY"), dropped("commandsTotal", "NO_REPLY")]);
  await expect.poll(now, { timeout: 30_000 }).toEqual(before.map((count) => count + 1));
  expect(await fleet.ask("task", { task_id: "silent" })).toMatchObject({ error: { code: "NOT_FOUND" } });
});

test("the caller's own inbox gets the answer", async () => {
  const inbox = "_INBOX.default.agent-1.abc.1";
  const answers = attacker.subscribe(inbox, { max: 1 });
  attacker.publish(SUBJECTS.query("default", "agent-1", "status"), "{}", { reply: inbox });
  for await (const answer of answers) expect(answer.json()).toMatchObject({ status: "ok" });
});

test("agents of the same name in two tenants get their own answers only", async () => {
  const tenants = ["acme", "zenith"];
  const buses = await Promise.all(
    tenants.map((tenant) =>
      connectBus({ url: fleet.nats.url, name: tenant, tenant, identity: "agent-1", log: testLog }),
    ),
  );
  const seen: string[] = [];
  attacker.subscribe("_INBOX.*.agent-1.>", {
    callback: (_, { subject }) => void seen.push(subject.split(".")[1]!),
  });
  await attacker.flush();
  for (const [at, tenant] of tenants.entries()) {
    const subject = SUBJECTS.query(tenant, "agent-1", "task");
    const answer = await buses[at]!.request(subject, { body: Buffer.from("{}") }, { timeoutMs: 5_000 });
    expect(Buffer.from(answer.body).toString()).toContain("INVALID");
    await expect.poll(() => seen).toEqual(tenants.slice(0, at + 1));
  }
  await Promise.all(buses.map((bus) => bus.close()));
});
