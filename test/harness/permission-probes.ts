// Probes of the permissions of a connection: publications and subscriptions, and those of them that the server refuses.

import type { NatsConnection } from "@nats-io/transport-node";
import { PERMISSIONS, type PermissionRow } from "../../shared/protocol/permissions.ts";

export type Probe = Pick<PermissionRow, "subject" | "direction">;

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

/** Subjects that the rights of this principal allow, their close relatives, and others. */
export const probesOf = (tenant: string, name: string): Probe[] => [
  ...subjectsOf(tenant, name),
  ...subjectsOf(tenant, "other"),
  ...subjectsOf("other", name),
  // Close relatives of a right: other letters, a longer subject, a wildcard for everything.
  ...subjectsOf(tenant.toLowerCase(), name.toLowerCase()),
  ...["publish", "subscribe"].flatMap((direction) =>
    [
      `fleet.cmd.${tenant}.${name}.t.create.more`,
      "fleet.unknown",
      "$SYS.REQ.SERVER.PING",
      "$JS.API.STREAM.PURGE.FLEET_EVENTS",
      "$JS.API.STREAM.DELETE.FLEET_EVENTS",
    ].map((subject) => ({ direction: direction as PermissionRow["direction"], subject })),
  ),
  ...[">", "fleet.>", "_INBOX.>", `_INBOX.${tenant}.>`, "fleet.event.>", "fleet.cmd.>", "$JS.>"].map(
    (subject) => ({ direction: "subscribe" as const, subject }),
  ),
];

/** The refused probes. The server answers a flush after it has refused what was sent before. */
export async function refusedOf(connection: NatsConnection, probes: readonly Probe[]): Promise<Set<string>> {
  const refused = new Set<string>();
  const publications = new Set<string>();
  const statuses = (async () => {
    for await (const status of connection.status()) {
      const { operation, subject } =
        (status as { error?: { operation?: string; subject?: string } }).error ?? {};
      if (operation === "publish" && subject !== undefined) publications.add(subject);
    }
  })();
  for (const probe of probes) {
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

export const nameOf = ({ direction, subject }: { direction: string; subject: string }) =>
  `${direction} ${subject}`;
