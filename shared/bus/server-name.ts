/**
 * The name of a fleet's nats-server. It is the only fact that a server reports without credentials, and every client has it before its
 * first request. It carries the identity of the fleet, so that a client does not take another fleet at the same address for its own.
 */

/** The random part of an identity, in hex. */
export const FLEET_ID_BYTES = 8;

const FLEET_ID = /^[0-9a-f]{16}$/;
const SERVER_NAME = /^fleet-(?:([0-9a-f]{16})(?:-|$))?(?:(\d+)$)?/;

/** The fleet that must answer at an address. */
export interface ExpectedFleet {
  /** Its identity. */
  readonly fleet: string;
  /** The folder in which it is recorded. */
  readonly home: string;
}

export const isFleetId = (value: unknown): value is string =>
  typeof value === "string" && FLEET_ID.test(value);

/** `pid`: of the process that runs the fleet. */
export const natsServerName = (pid: number, fleet?: string): string =>
  fleet === undefined ? `fleet-${pid}` : fleetServerName(fleet, String(pid));

/** The name of one of several servers of a fleet. */
export const fleetServerName = (fleet: string, server: string): string => `fleet-${fleet}-${server}`;

/** The identity and the process in a server's name; each undefined if the name has none. */
export function parseServerName(name: string | undefined): {
  readonly fleet: string | undefined;
  readonly pid: number | undefined;
} {
  const [, fleet, pid] = SERVER_NAME.exec(name ?? "") ?? [];
  return { fleet, pid: pid === undefined ? undefined : Number(pid) };
}

/** The facts about a fleet that is not the expected one. `found`: its identity, if its server announces one. */
export function otherFleet(
  { fleet, home }: ExpectedFleet,
  found: string | undefined,
  url?: string,
): Readonly<Record<string, unknown>> {
  return { ...(url !== undefined && { url }), expected: fleet, recorded_in: home, found: found ?? null };
}
