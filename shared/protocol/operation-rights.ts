/** The operations of each role, and the rights that an auditor asks about. 21 CFR 11.10(g): authority checks. */
import { PERMISSIONS } from "./permissions.ts";
import { CLIENT_ROLES, type ClientRole } from "./roles.ts";

/** The rights by name, each with the operation that stands for it. Every operation is a permission of its own on the bus. */
export const RIGHTS = {
  read: "query.get",
  write: "cmd.create",
  finalize: "cmd.finalize",
  sign: "cmd.signature_add",
  hand_off: "cmd.handoff",
  recover: "cmd.recover",
  retain: "cmd.retain",
  hold: "cmd.hold",
  shred: "cmd.shred_request",
  shred_approve: "cmd.shred_approve",
  remove: "cmd.remove",
  import: "cmd.import_begin",
  audit: "query.tenant_audit",
  export: "query.export_record",
  keys: "query.key_revoke",
} as const;
export type RightName = keyof typeof RIGHTS;
export const RIGHT_NAMES = Object.keys(RIGHTS) as RightName[];

export type RoleOperations = Readonly<Record<ClientRole, readonly string[]>>;

/** Commands under any task, and queries. Runners and orchestrators accept offers for the agents that they start, whose name is the last token. */
const OPERATION = /^fleet\.(cmd|query)\.\{tenant\}\.\{name\}\.(?:\*\.)?(\w+)(?:\.\*)?$/;

/** Such as `cmd.finalize` and `query.get`. Those that this version gives to each role, in alphabetical order. */
export function roleOperations(): RoleOperations {
  const of = (role: ClientRole): string[] => {
    const rows = PERMISSIONS.filter((row) => row.direction === "publish" && row.roles.includes(role));
    const names = rows.flatMap(({ subject }) => {
      const [, kind, op] = OPERATION.exec(subject) ?? [];
      return op === undefined ? [] : [`${kind}.${op}`];
    });
    return [...new Set(names)].sort();
  };
  return Object.fromEntries(CLIENT_ROLES.map((role) => [role, of(role)])) as unknown as RoleOperations;
}
