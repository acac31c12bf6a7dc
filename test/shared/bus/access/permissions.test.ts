// Each cell of the permission table against a real server: what a role may do works, and everything else is refused.

import type { NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Grant } from "../../../../shared/bus/access/claims.ts";
import {
  CLIENT_ROLES,
  isServiceRole,
  PERMISSIONS,
  type PermissionRow,
  ROLES,
  type Role,
  rightsOf,
  SERVICE_ROLES,
} from "../../../../shared/protocol/permissions.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../../harness/guarded-nats.ts";

let nats: GuardedNats;
beforeAll(async () => {
  nats = await startGuardedNats();
});
afterAll(() => nats?.stop());

// Capitals: the server must not compare names without them.
const TENANT = "AcMe";
const NAME = "Ada-1";
const grantOf = (role: Role): Grant =>
  isServiceRole(role) ? serviceGrant(role) : { role, tenant: TENANT, name: NAME };

/** The meaning of wildcards in the rights of the server, written independently of it. */
function covers(pattern: string, subject: string): boolean {
  const [tokens, parts] = [pattern.split("."), subject.split(".")];
  for (const [place, token] of tokens.entries()) {
    if (token === ">") return parts.length > place;
    const part = parts[place];
    if (part === undefined || part === ">" || (token !== "*" && token !== part)) return false;
  }
  return tokens.length === parts.length;
}

/** Subjects of all rows for one pair of tenant and name, without wildcards. */
const subjectsOf = (tenant: string, name: string) =>
  PERMISSIONS.map(({ subject, direction }) => ({
    direction,
    subject: subject
      .replace("{tenant}", tenant)
      .replace("{name}", name)
      .replaceAll("*", "some")
      .replace(/>$/, "some.rest"),
  }));

const PROBES = [
  ...subjectsOf(TENANT, NAME),
  ...subjectsOf(TENANT, "other"),
  ...subjectsOf("other", NAME),
  // Close relatives of a right: other letters, a longer subject, a wildcard for everything.
  ...subjectsOf(TENANT.toLowerCase(), NAME.toLowerCase()),
  ...["publish", "subscribe"].flatMap((direction) =>
    [
      `fleet.cmd.${TENANT}.${NAME}.t.create.more`,
      "fleet.unknown",
      "$SYS.REQ.SERVER.PING",
      "$JS.API.STREAM.PURGE.FLEET_EVENTS",
      "$JS.API.STREAM.DELETE.FLEET_EVENTS",
    ].map((subject) => ({ direction: direction as PermissionRow["direction"], subject })),
  ),
  ...[">", "fleet.>", "_INBOX.>", `_INBOX.${TENANT}.>`, "fleet.event.>", "fleet.cmd.>", "$JS.>"].map(
    (subject) => ({ direction: "subscribe" as const, subject }),
  ),
];

/** The refused probes. The server answers a flush after it has refused what was sent before. */
async function refusedOf(connection: NatsConnection): Promise<Set<string>> {
  const refused = new Set<string>();
  const publications = new Set<string>();
  const statuses = (async () => {
    for await (const status of connection.status()) {
      const { operation, subject } =
        (status as { error?: { operation?: string; subject?: string } }).error ?? {};
      if (operation === "publish" && subject !== undefined) publications.add(subject);
    }
  })();
  for (const probe of PROBES) {
    const { direction, subject } = probe;
    if (direction === "publish") connection.publish(subject);
    else connection.subscribe(subject, { callback: (error) => void (error && refused.add(nameOf(probe))) });
  }
  await connection.flush();
  await connection.close();
  await statuses;
  for (const subject of publications) refused.add(nameOf({ direction: "publish", subject }));
  return refused;
}

const nameOf = ({ direction, subject }: { direction: string; subject: string }) => `${direction} ${subject}`;

describe.each(ROLES)("%s", (role) => {
  test("may do exactly what the table allows", async () => {
    const rights = rightsOf(role, grantOf(role));
    const expected = PROBES.filter(
      ({ direction, subject }) => !rights[direction].some((pattern) => covers(pattern, subject)),
    );
    const refused = await refusedOf(await nats.connectAs(grantOf(role)));
    expect([...refused].toSorted()).toEqual([...new Set(expected.map(nameOf))].toSorted());
    // A connection that refuses everything, or nothing, would prove little.
    expect(refused.size).toBeLessThan(PROBES.length - 3);
    expect(refused.size).toBeGreaterThan(PROBES.length / 4);
  });
});

test("no client has rights on JetStream, and no service may command", () => {
  for (const role of CLIENT_ROLES) {
    const { publish, subscribe } = rightsOf(role, grantOf(role));
    expect([...publish, ...subscribe].filter((subject) => subject.startsWith("$"))).toEqual([]);
  }
  for (const role of SERVICE_ROLES) {
    const { publish, subscribe } = rightsOf(role, grantOf(role));
    expect(publish.filter((subject) => covers(subject, "fleet.cmd.t.a.task.create"))).toEqual([]);
    expect([...publish, ...subscribe]).not.toContain(">");
  }
});
