/** Clients of another tenant that make JetStream publish its confirmations at subjects of their choice, and a witness of these. */
import { join } from "node:path";
import { connect, credsAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { expect } from "vitest";
import { issueGrant } from "../../../shared/bus/access/administration.ts";
import { ACCESS_FOLDER } from "../../../shared/bus/access/local-credentials.ts";
import type { ClientRole } from "../../../shared/protocol/roles.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { TestFleet } from "../../harness/processes/fleet.ts";

export const ATTACKING_TENANT = "other";
const SOON = { timeout: 60_000, interval: 50 };

/** What each role may store, and has confirmed. */
export const CONFIRMED: readonly (readonly [role: ClientRole, stored: (name: string) => string])[] = [
  ["agent", (name) => SUBJECTS.exit(ATTACKING_TENANT, name, "any")],
  ["agent", (name) => SUBJECTS.queue(ATTACKING_TENANT, name, "any", "release")],
  ["orchestrator", (name) => SUBJECTS.queue(ATTACKING_TENANT, name, "any", "create")],
  ["operator", (name) => SUBJECTS.queue(ATTACKING_TENANT, name, "any", "handoff")],
  ["reviewer", (name) => SUBJECTS.queue(ATTACKING_TENANT, name, "any", "finalize")],
  ["runner", () => SUBJECTS.exit(ATTACKING_TENANT, "started", "any")],
];

export async function attackerOf(
  { home, url }: Pick<TestFleet, "home" | "url">,
  role: ClientRole,
): Promise<NatsConnection> {
  const name = `mallory-${role}`;
  const grant = { role, tenant: ATTACKING_TENANT, name, expiresAt: null, now: new Date() } as const;
  const { credentials } = await issueGrant(join(home, ACCESS_FOLDER), grant);
  const authenticator = credsAuthenticator(Buffer.from(credentials));
  return connect({ servers: url, authenticator, inboxPrefix: `_INBOX.${ATTACKING_TENANT}.${name}` });
}

/** Every role has a message confirmed at each of the subjects. Resolves when the server has published all confirmations. */
export async function confirmAt(
  fleet: Pick<TestFleet, "home" | "url">,
  witness: NatsConnection,
  targets: readonly string[],
): Promise<void> {
  const seen: string[] = [];
  const subscriptions = targets.map((target) =>
    witness.subscribe(target, {
      callback: (_, message) => {
        if (!message.reply && message.string().includes('"stream":"FLEET_')) seen.push(message.subject);
      },
    }),
  );
  await witness.flush();
  for (const [role, stored] of CONFIRMED) {
    const attacker = await attackerOf(fleet, role);
    for (const reply of targets) attacker.publish(stored(`mallory-${role}`), "{}", { reply });
    await attacker.flush();
    await attacker.close();
  }
  const wanted = CONFIRMED.flatMap(() => targets).toSorted();
  await expect.poll(() => seen.toSorted(), SOON).toEqual(wanted);
  for (const subscription of subscriptions) subscription.unsubscribe();
}
