/**
 * JetStream confirms a stored message at the reply address that its sender chose, without the permissions of the sender. No confirmation may
 * act as a request of another caller, in a real fleet with credentials.
 */
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { administratorAuthenticator } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { ATTACKING_TENANT, attackerOf } from "./confirmed-attacks.ts";

const SOON = { timeout: 30_000, interval: 50 };
let fleet: TestFleet;
let operator: FleetClient;
/** Sees the confirmations, so that a test knows that they were sent. */
let witness: NatsConnection;

beforeAll(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  operator = await fleet.client("ada");
  witness = await connect({
    servers: fleet.url,
    authenticator: await administratorAuthenticator(fleet.home),
  });
}, 120_000);
afterAll(async () => {
  await witness?.close();
  await fleet?.stop();
});

/** The number of requests that were dropped for their missing reply address. */
async function dropped(kind: "queries" | "commands"): Promise<number> {
  const text = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
  const counts = text.matchAll(
    new RegExp(`^fleet_${kind}_total\\{[^}]*outcome="NO_REPLY"[^}]*\\} (\\d+)$`, "gm"),
  );
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

const QUERIES = ["scrub_start", "index_rebuild", "key_rotate", "encryption_rotate", "dead_drop"] as const;

test.each([
  ["agent", (name: string) => SUBJECTS.exit(ATTACKING_TENANT, name, "any")],
  ["agent", (name: string) => SUBJECTS.queue(ATTACKING_TENANT, name, "any", "release")],
  ["runner", () => SUBJECTS.exit(ATTACKING_TENANT, "started", "any")],
] as const)(
  "the confirmation of what an %s stores asks nothing as a person of another tenant (%#)",
  async (role, stored) => {
    const attacker = await attackerOf(fleet, role);
    const before = { queries: await dropped("queries"), commands: await dropped("commands") };
    const keys = await operator.admin.signingKeys();
    const confirmed: string[] = [];
    const subscription = witness.subscribe("fleet.*.default.human=ada.>", {
      callback: (_, { subject, reply }) => void (!reply && confirmed.push(subject)),
    });
    await witness.flush();
    const targets = [
      ...QUERIES.map((op) => SUBJECTS.query("default", "human=ada", op)),
      SUBJECTS.command("default", "human=ada", "any", "mission_start"),
    ];
    for (const reply of targets) attacker.publish(stored(`mallory-${role}`), "{}", { reply });
    await attacker.flush();
    await expect.poll(() => confirmed.toSorted(), SOON).toEqual(targets.toSorted());
    await expect.poll(() => dropped("queries"), SOON).toBe(before.queries + QUERIES.length);
    await expect.poll(() => dropped("commands"), SOON).toBe(before.commands + 1);
    expect(await operator.admin.signingKeys()).toEqual(keys);
    subscription.unsubscribe();
    await attacker.close();
  },
  120_000,
);

test("a request without a reply address is dropped before its content is read, also with the right to send it", async () => {
  const before = await dropped("queries");
  const attacker = await attackerOf(fleet, "agent");
  attacker.publish(
    SUBJECTS.query(ATTACKING_TENANT, "mallory-agent", "task"),
    JSON.stringify({ task_id: "any" }),
  );
  await attacker.flush();
  await expect.poll(() => dropped("queries"), SOON).toBe(before + 1);
  await attacker.close();
}, 120_000);
