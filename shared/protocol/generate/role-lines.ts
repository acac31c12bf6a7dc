/** The line with the roles of each command and query in API.md, from the rights that the matrix prints. */
import { roleOperations } from "../operation-rights.ts";
import { COMMAND_OPS, QUERY_OPS } from "../operations.ts";
import { CLIENT_ROLES } from "../roles.ts";

/** A heading with the line that it may have already. */
const SECTION = /^(### (\w+)( \(query\))?\n\n)(?:Roles: [^\n]*\n\n)?/gm;

/** Replaces or adds the line below the heading of each operation. */
export function withRoleLines(document: string): string {
  const operations = roleOperations();
  const rolesOf = (operation: string) => CLIENT_ROLES.filter((role) => operations[role].includes(operation));
  return document.replace(SECTION, (section, heading: string, op: string, query?: string) => {
    const kind = kindOf(op, query !== undefined);
    if (kind === undefined) return section;
    const roles = rolesOf(`${kind}.${op}`);
    const names = roles.length === CLIENT_ROLES.length ? "all" : roles.join(", ");
    return `${heading}Roles: ${names}.\n\n`;
  });
}

function kindOf(op: string, isQuery: boolean): "cmd" | "query" | undefined {
  if (!isQuery && (COMMAND_OPS as readonly string[]).includes(op)) return "cmd";
  return (QUERY_OPS as readonly string[]).includes(op) ? "query" : undefined;
}
