/** Clients of another tenant that make JetStream publish its confirmations at subjects of their choice, and a witness of these. */
import { join } from "node:path";
import { connect, credsAuthenticator, headers, type NatsConnection } from "@nats-io/transport-node";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { issueGrant } from "../../../shared/bus/access/administration.ts";
import { ACCESS_FOLDER } from "../../../shared/bus/access/local-credentials.ts";
import type { ClientRole } from "../../../shared/protocol/roles.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { TestFleet } from "../../harness/processes/fleet.ts";

export const ATTACKING_TENANT = "other";
const SOON = { timeout: 60_000, interval: 50 };

/** What each role may store, and has confirmed. */
const CONFIRMED: readonly (readonly [role: ClientRole, stored: (name: string) => string])[] = [
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

/** At each subject. */
export const CONFIRMATIONS = 2 * CONFIRMED.length;

/** Every role has messages confirmed at each of the subjects. Resolves when the server has published all confirmations. */
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
    const subject = stored(`mallory-${role}`);
    for (const reply of targets) {
      // The second is refused, with the long id of the first in the text.
      const longId = headers();
      longId.set("Nats-Msg-Id", uuidv7() + "<".repeat(2_000));
      const refused = headers();
      refused.set("Nats-Expected-Last-Msg-Id", "another");
      for (const one of [longId, refused]) attacker.publish(subject, "{}", { reply, headers: one });
    }
    await attacker.flush();
    await attacker.close();
  }
  const wanted = Array.from({ length: CONFIRMATIONS }, () => targets)
    .flat()
    .toSorted();
  await expect.poll(() => seen.toSorted(), SOON).toEqual(wanted);
  for (const subscription of subscriptions) subscription.unsubscribe();
}
