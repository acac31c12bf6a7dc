/** The roles of credentials. */

/** Roles whose holders act under their names, as persons and not as agents. */
export const ROLES_OF_PEOPLE = ["operator", "reviewer", "custodian", "observer"] as const;

/** The roles of people and programs outside the fleet. */
export const CLIENT_ROLES = ["agent", "orchestrator", ...ROLES_OF_PEOPLE, "runner"] as const;
export type ClientRole = (typeof CLIENT_ROLES)[number];

export function isRoleOfPerson(role: ClientRole): boolean {
  return (ROLES_OF_PEOPLE as readonly string[]).includes(role);
}

/** The services of the fleet. `standalone` is all of the first four in one process. */
export const SERVICE_ROLES = ["writer", "reader", "coordinator", "watchdog", "standalone", "signer"] as const;
export type ServiceRole = (typeof SERVICE_ROLES)[number];

export type Role = ClientRole | ServiceRole;
export const ROLES: readonly Role[] = [...CLIENT_ROLES, ...SERVICE_ROLES];

export function isServiceRole(role: Role): role is ServiceRole {
  return (SERVICE_ROLES as readonly string[]).includes(role);
}
